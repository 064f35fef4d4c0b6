"""How full a node would be with the pod on it, as a score: the strategies that NodeResourcesFit and BinPacking share.

A node's score is the weighted mean of its resources' scores. A resource the node does not have is left out, with its
weight. Every formula is written once, in operations that plain integers and arrays have in common; integers are divided
as in kube-scheduler, towards zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import floordiv
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Which
from restow.model.cluster.room import LIMIT, Ledger, Room, columns_of
from restow.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Vector, is_scheduled
from restow.scheduling.framework import BEST, Scores
from restow.scheduling.plugins.few_rows import few_rows

Number = Any
"""An integer, or an array of them."""

Divide = Callable[[Number, Number], Number]
"""Divides integers, towards zero."""

Cells = NDArray[np.int64]
Ledgers = tuple[Ledger, ...]
"""Ledgers of what is taken, to be added up."""

_SAFE = (2**63 - 1) // BEST
"""The largest amount that can be multiplied by BEST in an int64; larger ones are scored as plain integers."""
_EXACT = 2**46
"""The largest amount for which floating point division gives the right integer, in a fraction of the time: a quotient
that is not a whole number differs from one by 1 / _EXACT at least, and float64 tells numbers up to BEST that far
apart."""


class RequestedResources:
    """What a pod requests, resource by resource, and as arrays with one line per resource."""

    __slots__ = ("amounts", "both", "columns", "each", "numbers", "weight", "weights")

    def __init__(self, each: tuple[tuple[int, int, int], ...]) -> None:
        """`each` is (resource column, amount, weight)."""
        self.each = each
        self.numbers = [column for column, _, _ in each]
        self.columns = columns_of(self.numbers)
        table = np.array([(min(amount, LIMIT), weight) for _, amount, weight in each], np.int64)
        self.amounts, self.weights = table.reshape(-1, 2, 1).transpose(1, 0, 2)
        self.weight = sum(weight for _, _, weight in each)
        """The sum of the weights."""
        self.both = np.stack([np.zeros_like(self.amounts), self.amounts])
        """The amounts without the pod (zero) and with it."""

    def __bool__(self) -> bool:
        return bool(self.each)

    def offered(self, room: Room) -> tuple[int, int]:
        """The least and the most of any of these resources that any row offers."""
        least, most = room.offered_range()
        return min(map(least.__getitem__, self.numbers), default=0), max(map(most.__getitem__, self.numbers), default=0)


class ResourceWeight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 1


def default_weights() -> list[ResourceWeight]:
    return [ResourceWeight(CPU), ResourceWeight(MEMORY)]


def weight_problems(weights: Sequence[ResourceWeight], path: str) -> Iterator[str]:
    for index, weight in enumerate(weights):
        if not 1 <= weight.weight <= 100:
            yield f"{path}[{index}].weight: expected 1 to 100, got {weight.weight}"


class AllocationStrategy:
    """The base of all strategies, and LeastAllocated, the default: the emptier the better."""

    least: ClassVar[int] = 0
    """A resource that scores less is not part of the mean."""

    def of_resource(self, requested: Number, allocatable: Number, divide: Divide) -> Number:
        """0..BEST for one resource, of which a node has some."""
        return divide((allocatable - requested) * BEST, allocatable) * (requested <= allocatable)

    def mean(self, total: Number, weights: Number) -> Number:
        return total // weights


class MostAllocated(AllocationStrategy):
    """The fuller the better."""

    def of_resource(self, requested: Number, allocatable: Number, divide: Divide) -> Number:
        return divide(_capped(requested, allocatable) * BEST, allocatable)


class RequestedToCapacityRatio(AllocationStrategy):
    """As good as a broken line through given points says; what scores nothing is not counted."""

    least: ClassVar[int] = 1

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        self._line = np.array([_on_line(points, percent) for percent in range(101)], np.int64)

    def of_resource(self, requested: Number, allocatable: Number, divide: Divide) -> Number:
        return self._line[divide(_capped(requested, allocatable) * 100, allocatable)]

    def mean(self, total: Number, weights: Number) -> Number:
        return (2 * total + weights) // (2 * weights)  # to the nearest, halves up


def requested_resources(room: Room, requests: Vector, weights: Sequence[ResourceWeight]) -> RequestedResources:
    """The resources that count for a pod: cpu, memory and ephemeral storage always, others if it requests them."""
    always = (CPU, MEMORY, EPHEMERAL_STORAGE)
    counted = [
        weight
        for weight in weights
        if weight.name in always or (is_scheduled(weight.name) and requests.get(weight.name, 0))
    ]
    return RequestedResources(
        tuple((room.column(weight.name), requests.get(weight.name, 0), weight.weight) for weight in counted)
    )


def scoring_ledgers(room: Room) -> Ledgers:
    """The requests of pods and seats, with kube-scheduler's default amounts for missing cpu and memory requests."""
    return (room.nonzero,)


def usage_ledgers(room: Room) -> Ledgers:
    """The requests of pods and seats."""
    return room.requested, room.reserved


def allocation_scores(
    strategy: AllocationStrategy, room: Room, ledgers: Ledgers, requested_by_pod: RequestedResources, rows: Which
) -> Scores:
    """The scores of these rows for a pod with these requests, on top of what is in the ledgers."""
    few = few_rows(rows)
    if few is None:
        least, most = requested_by_pod.offered(room)
        if most <= _SAFE:
            part = room.excerpt(rows)
            available = part.of(room.allocatable.cells)[requested_by_pod.columns]
            requested = requested_by_pod.amounts
            for ledger in ledgers:
                requested = requested + part.of(ledger.cells)[requested_by_pod.columns]
            divide = _quotient if most <= _EXACT else floordiv
            return _of_rows(strategy, requested, available, requested_by_pod, divide, everywhere=least > 0)
        few = room.rows.numbers(rows)
    return np.array([allocation_score(strategy, room, ledgers, requested_by_pod, row) for row in few], np.int64)


def allocation_score(
    strategy: AllocationStrategy, room: Room, ledgers: Ledgers, requested_by_pod: RequestedResources, row: int
) -> int:
    """`allocation_scores` of a single row."""
    allocatable, least = room.allocatable.at, strategy.least
    total = weights = 0
    for column, requested, weight in requested_by_pod.each:
        available = allocatable[column][row]
        if available > 0:
            for ledger in ledgers:
                requested += ledger.at[column][row]
            score = strategy.of_resource(requested, available, floordiv)
            if score >= least:
                total += score * weight
                weights += weight
    return strategy.mean(total, weights) if weights else 0


def _of_rows(
    strategy: AllocationStrategy,
    requested: Cells,
    available: Cells,
    requested_by_pod: RequestedResources,
    divide: Divide,
    *,
    everywhere: bool,
) -> Scores:
    """`everywhere`: no node lacks any of the resources."""
    score = strategy.of_resource(requested, available if everywhere else np.maximum(available, 1), divide)
    if strategy.least <= 0 and everywhere:
        weighted = score if requested_by_pod.weight == len(score) else score * requested_by_pod.weights
        every: Scores = strategy.mean(np.add.reduce(weighted), max(requested_by_pod.weight, 1))
        return every
    weights = requested_by_pod.weights * ((available > 0) & (score >= strategy.least))
    mean: Scores = strategy.mean(np.add.reduce(score * weights), np.maximum(np.add.reduce(weights), 1))
    return mean


def _quotient(dividend: Cells, divisor: Cells) -> Cells:
    """For amounts up to _EXACT."""
    whole: Cells = (dividend / divisor).astype(np.int64)
    return whole


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
