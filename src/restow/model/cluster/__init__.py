"""The tables of a snapshot: arrays over nodes, the pods on them, and what scheduling reads of both."""

from restow.model.cluster.incremental_vector import IncrementalVector
from restow.model.cluster.known_pods import AlreadyPlaced, Assumption
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.pod_classes import PodClass
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.rows import Mask, RowIndex, Which
from restow.model.cluster.undo_log import Mark

__all__ = [
    "AlreadyPlaced",
    "Assumption",
    "IncrementalVector",
    "Mark",
    "Mask",
    "Occupant",
    "PodClass",
    "RowIndex",
    "Shape",
    "Which",
]
