"""The Snapshot: a pure, incremental picture of a cluster for scheduling and planning. Start reading at `snapshot`."""

from restow.model.cluster.classes import PodClass
from restow.model.cluster.fresh import Fresh
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.pods import AlreadyPlaced, Assumption
from restow.model.cluster.rows import Mask, RowIndex, Which
from restow.model.cluster.shapes import Shape
from restow.model.cluster.undo import Mark

__all__ = [
    "AlreadyPlaced",
    "Assumption",
    "Fresh",
    "Mark",
    "Mask",
    "Occupant",
    "PodClass",
    "RowIndex",
    "Shape",
    "Which",
]
