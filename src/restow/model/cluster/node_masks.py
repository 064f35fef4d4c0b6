"""Masks per shape, kept up to date: the nodes that accept pods of a shape by their cordon, taints and labels.

The masks of the shapes asked for last are kept; each read costs the nodes that changed since the previous one. Room is
not cached here, because it may be lent for the duration of a question (`Room.lend`): see `node_filters.rows_that_fit`.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import node_filters
from restow.model.cluster.incremental_vector import IncrementalVector
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.rows import Mask, Which

_KEPT = 1024


class NodeMasks:
    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._kept: dict[Shape, IncrementalVector[np.bool_]] = {}

    def eligible(self, shape: Shape) -> Mask:
        """Nodes that exist, are not cordoned, and accept the shape by their taints and labels."""
        mask = self._kept.pop(shape, None) or self._make(shape)
        self._kept[shape] = mask
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return mask.read()

    def _make(self, shape: Shape) -> IncrementalVector[np.bool_]:
        nodes = self._nodes

        def eligible(rows: Which) -> Mask:
            tolerations = shape.fields.tolerations
            return (
                nodes.present[rows]
                & node_filters.schedulable_rows(nodes, tolerations, rows)
                & node_filters.rows_with_tolerated_taints(nodes, tolerations, rows)
                & node_filters.selected_rows(nodes, shape.constraint, rows)
            )

        return IncrementalVector(nodes.rows, (nodes.changes,), eligible)
