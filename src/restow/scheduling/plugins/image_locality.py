"""ImageLocality: nodes that already have the pod's images start it sooner.

An image counts with its size times the share of nodes that have it, so that one node with a rare image does not attract
every pod. From 23 MiB (nothing) to 1000 MiB per container (BEST).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from restow.model.cluster import Shape, Which
from restow.model.cluster.node_table import NodeTable
from restow.scheduling.framework import BEST, SKIP_FOR_CLASS, SUCCESS, Cycle, Reach, ScorePlugin, Scores, Verdict

_MIB = 2**20
_NOTHING = 23 * _MIB
_BEST_PER_CONTAINER = 1000 * _MIB


class _Vector(msgspec.Struct, frozen=True):
    """The scores of all rows for one shape, as of a generation of the node table."""

    generation: int
    scores: Scores
    differ: bool


class ImageLocality(ScorePlugin):
    name: ClassVar[str] = "ImageLocality"
    reach: ClassVar[Reach] = Reach.CLUSTER
    """An image that comes to one node changes what it is worth on all others."""

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._images: WeakKeyDictionary[NodeTable, NodeImages] = WeakKeyDictionary()
        self._vectors: WeakKeyDictionary[Shape, _Vector] = WeakKeyDictionary()

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._of(cycle).differ else SKIP_FOR_CLASS

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        return self._of(cycle).scores[rows]

    def _of(self, cycle: Cycle) -> _Vector:
        shape, nodes = cycle.pod_class.shape, cycle.snapshot.nodes
        known = self._vectors.get(shape)
        if known is None or known.generation != nodes.changes.generation or len(known.scores) != nodes.rows.size:
            known = self._vectors[shape] = self._compute(shape, nodes)
        return known

    def _compute(self, shape: Shape, nodes: NodeTable) -> _Vector:
        images = self._images.get(nodes)
        if images is None:
            images = self._images[nodes] = NodeImages()
        images.catch_up(nodes)
        worth = images.worth(shape.fields.images, nodes)
        best = _BEST_PER_CONTAINER * max(shape.fields.containers, 1)
        scores = BEST * (np.clip(worth, _NOTHING, best) - _NOTHING) // (best - _NOTHING)
        present = scores[nodes.present[: len(scores)]]
        return _Vector(nodes.changes.generation, scores, bool(len(present)) and bool(present.max() != present.min()))


class NodeImages:
    """Which rows have which image, and how large it is there."""

    def __init__(self) -> None:
        self._seen = 0
        self._on_row: dict[int, list[str]] = {}
        self._rows: dict[str, dict[int, int]] = {}

    def catch_up(self, nodes: NodeTable) -> None:
        """Look at the nodes that changed since the last time."""
        for row in nodes.changes.since(self._seen).tolist():
            self._forget(row)
            node = nodes.get(row)
            for image in (node.status.images if node else None) or ():
                for name in image.names or ():
                    self._rows.setdefault(name, {}).setdefault(row, image.size_bytes or 0)
                    self._on_row.setdefault(row, []).append(name)
        self._seen = nodes.changes.generation

    def worth(self, images: Iterable[str], nodes: NodeTable) -> Scores:
        """For every row, the sizes of those of these images that are there, each by its share of nodes."""
        worth = np.zeros(nodes.rows.size, np.int64)
        total = int(nodes.present[: nodes.rows.size].sum())
        for image in images:
            holders = self._rows.get(with_tag(image))
            if holders:
                sizes = np.fromiter(holders.values(), np.float64, len(holders))
                worth[list(holders)] += (sizes * (len(holders) / total)).astype(np.int64)
        return worth

    def _forget(self, row: int) -> None:
        for name in self._on_row.pop(row, ()):
            holders = self._rows.get(name, {})
            holders.pop(row, None)
            if not holders:
                self._rows.pop(name, None)


def with_tag(image: str) -> str:
    """The name of an image as nodes report it: without a tag it is the latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
