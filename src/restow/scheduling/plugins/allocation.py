"""How full a node would be with the pod on it, as a score: the strategies NodeResourcesFit and BinPacking share.

A node's score is the weighted mean of its resources' scores. A resource the node does not have is left out, weight and
all. Every formula is written once, in operations that plain integers and arrays have in common, and rounds towards
zero as kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Which
from restow.model.cluster.room import Room
from restow.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Vector, is_scheduled
from restow.scheduling.framework import BEST, Scores
from restow.scheduling.plugins.few import few_rows

Number = Any
"""An integer, or an array of them."""

Asked = tuple[tuple[int, int, int], ...]
"""(resource column, amount the pod asks for, weight)."""

_SAFE = (2**63 - 1) // BEST
"""The largest amount whose hundredfold fits an array; larger ones are scored as plain integers."""


class ResourceWeight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 1


DEFAULT_WEIGHTS = (ResourceWeight(CPU), ResourceWeight(MEMORY))


def weight_problems(weights: Sequence[ResourceWeight], path: str) -> Iterator[str]:
    for index, one in enumerate(weights):
        if not 1 <= one.weight <= 100:
            yield f"{path}[{index}].weight: expected 1 to 100, got {one.weight}"


class Strategy:
    """LeastAllocated, the default: the emptier the better."""

    def of_resource(self, requested: Number, allocatable: Number) -> Number:
        """0..BEST for one resource, of which a node has some."""
        return (allocatable - requested) * BEST // allocatable * (requested <= allocatable)

    def counts(self, score: Number) -> Number:
        """Whether a resource with this score is part of the mean."""
        return True

    def mean(self, total: Number, weights: Number) -> Number:
        return total // weights

    def of_node(self, resources: Iterable[tuple[Number, Number, int]]) -> Number:
        """The score of a node, or of many, from (requested with the pod, allocatable, weight) of each resource."""
        total: Number = 0
        weights: Number = 0
        for requested, allocatable, weight in resources:
            score = self.of_resource(requested, allocatable + (allocatable == 0))
            counted = (allocatable > 0) & self.counts(score)
            total = total + score * weight * counted
            weights = weights + weight * counted
        return self.mean(total, weights + (weights == 0))


class MostAllocated(Strategy):
    """The fuller the better."""

    def of_resource(self, requested: Number, allocatable: Number) -> Number:
        return _capped(requested, allocatable) * BEST // allocatable


class RequestedToCapacityRatio(Strategy):
    """As good as a broken line through given points says; what scores nothing is not counted."""

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        self._line = np.array([_on_line(points, percent) for percent in range(101)], np.int64)

    def of_resource(self, requested: Number, allocatable: Number) -> Number:
        return self._line[_capped(requested, allocatable) * 100 // allocatable]

    def counts(self, score: Number) -> Number:
        return score > 0

    def mean(self, total: Number, weights: Number) -> Number:
        return (2 * total + weights) // (2 * weights)  # to the nearest, halves up


def asked_of(room: Room, requests: Vector, weights: Sequence[ResourceWeight]) -> Asked:
    """What counts for a pod: cpu, memory and ephemeral storage always, other resources where it asks for them."""
    always = (CPU, MEMORY, EPHEMERAL_STORAGE)
    return tuple(
        (room.resources.column(one.name), requests.get(one.name, 0), one.weight)
        for one in weights
        if one.name in always or (is_scheduled(one.name) and requests.get(one.name, 0))
    )


def scored_use(room: Room, column: int, which: Which | int) -> Number:
    """What pods and seats ask for, with the stand-ins for missing cpu and memory."""
    return cells_of(room.nonzero.cells, column, which)


def real_use(room: Room, column: int, which: Which | int) -> Number:
    """What pods and seats ask for."""
    return cells_of(room.allocatable.cells, column, which) - cells_of(room.free, column, which)


def cells_of(cells: NDArray[np.int64], column: int, which: Which | int) -> Number:
    return cells.item(column, which) if isinstance(which, int) else cells[column][which]


def allocation_scores(
    room: Room, use: Callable[[Room, int, Which | int], Number], strategy: Strategy, asked: Asked, rows: Which
) -> Scores:
    """The scores of these rows for a pod that asks for this."""
    known = [one for one in asked if one[0] < len(room.free)]  # nobody has or asks for the others yet

    def score(which: Which | int) -> Number:
        return strategy.of_node(
            (use(room, column, which) + amount, cells_of(room.allocatable.cells, column, which), weight)
            for column, amount, weight in known
        )

    one_by_one = few_rows(rows)
    if one_by_one is None and any(room.allocatable.cells[column].max() > _SAFE for column, _, _ in known):
        one_by_one = room.rows.numbers(rows)
    if one_by_one is not None:
        return np.array([score(row) for row in one_by_one], np.int64)
    return np.broadcast_to(score(rows), room.free[0][rows].shape).astype(np.int64)


def _capped(requested: Number, allocatable: Number) -> Number:
    return requested + (allocatable - requested) * (requested > allocatable)


def _on_line(points: Sequence[tuple[int, int]], percent: int) -> int:
    """Between two points in proportion, rounding towards the left one; outside level."""
    left = points[0]
    for right in points:
        if percent <= right[0]:
            rise, run = (right[1] - left[1]) * (percent - left[0]), right[0] - left[0]
            return left[1] + (abs(rise) // run if rise >= 0 else -(abs(rise) // run)) if run else right[1]
        left = right
    return left[1]
