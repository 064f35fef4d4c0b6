"""Masks per shape, kept fresh: where pods of a shape may go by the node's own word, and where they fit.

The masks of the shapes asked for last are kept; each look costs the rows that changed since the previous one.
"""

from __future__ import annotations

import msgspec
import numpy as np

from restow.model.cluster import filters
from restow.model.cluster.fresh import Fresh
from restow.model.cluster.nodes import NodeTable
from restow.model.cluster.room import Room
from restow.model.cluster.rows import Mask, Which
from restow.model.cluster.shapes import Shape

_KEPT = 1024


class ShapeMasks(msgspec.Struct, frozen=True):
    """The masks of one shape."""

    eligible: Fresh[np.bool_]
    fitting: Fresh[np.bool_]


class Masks:
    def __init__(self, room: Room, nodes: NodeTable) -> None:
        self._room = room
        self._nodes = nodes
        self._kept: dict[Shape, ShapeMasks] = {}

    def eligible(self, shape: Shape) -> Mask:
        """Nodes that exist, are not cordoned, and whose taints and labels suit the shape."""
        return self._of(shape).eligible.read()

    def fitting(self, shape: Shape) -> Mask:
        """Nodes with enough free room for one more pod of the shape."""
        return self._of(shape).fitting.read()

    def _of(self, shape: Shape) -> ShapeMasks:
        masks = self._kept.pop(shape, None) or self._make(shape)
        self._kept[shape] = masks
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return masks

    def _make(self, shape: Shape) -> ShapeMasks:
        room, nodes = self._room, self._nodes

        def eligible(rows: Which) -> Mask:
            tolerations = shape.facts.tolerations
            return (
                nodes.present[rows]
                & filters.schedulable(nodes, tolerations, rows)
                & filters.tolerated(nodes, tolerations, rows)
                & filters.selected(nodes, shape.constraint, rows)
            )

        def fitting(rows: Which) -> Mask:
            return filters.fits(room, shape.amounts, rows)

        return ShapeMasks(
            Fresh(room.rows, (nodes.changes,), eligible),
            Fresh(room.rows, (room.changes,), fitting),
        )
