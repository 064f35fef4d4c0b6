"""NodeResourcesBalancedAllocation: nodes with evenly used resources, or that the pod makes so, are better.

    deviation   of the requested shares of the resources, 0 (even) to 0.5
    balance     100 * (1 - deviation), towards zero
    score       50 + (50 + balance with the pod - balance without it) / 2

Arguments: `resources` to look at, cpu and memory by default; `formula: Balance` scores the balance with the pod itself,
as schedulers before Kubernetes 1.36 do. Only explicit requests count here, and pods that request none of the resources
are not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import sqrt
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, Shape, Which
from restow.model.cluster.room import Room
from restow.scheduling.accelerated import RoomOnly, RowScore
from restow.scheduling.framework import BEST, SKIP, SUCCESS, ArgumentError, Cycle, ScorePlugin, Scores, Verdict
from restow.scheduling.plugins.allocation import (
    RequestedResources,
    ResourceWeight,
    default_weights,
    requested_resources,
    weight_problems,
)
from restow.scheduling.plugins.few_rows import few_rows
from restow.scheduling.plugins.plugin_arguments import read_arguments

HALF = BEST // 2

Shares = NDArray[np.float64]


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    resources: list[ResourceWeight] = msgspec.field(default_factory=default_weights)
    formula: str = "Change"


class NodeResourcesBalancedAllocation(ScorePlugin, RowScore, RoomOnly):
    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = read_arguments(NodeResourcesBalancedAllocationArgs, arguments)
        problems = [*weight_problems(given.resources, "resources")]
        if given.formula not in ("Change", "Balance"):
            problems.append(f"formula: expected Change or Balance, got {given.formula!r}")
        if problems:
            raise ArgumentError(problems)
        self._resources = given.resources
        self._change = given.formula == "Change"
        self._requested_by_shape: WeakKeyDictionary[Shape, RequestedResources] = WeakKeyDictionary()

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._requested(cycle) else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        room, requested, few = cycle.snapshot.room, self._requested(cycle), few_rows(rows)
        if few is not None:
            return np.array([self._score_row(room, requested, row) for row in few], np.int64)
        return self._score_rows(room, requested, rows)

    def row_score(self, cycle: Cycle) -> Callable[[int], int]:
        return partial(self._score_row, cycle.snapshot.room, self._requested(cycle))

    def _score_row(self, room: Room, requested: RequestedResources, row: int) -> int:
        offered, free = room.allocatable.at, room.free_at
        before, after = [], []
        for column, amount, _ in requested.each:
            allocatable = offered[column][row]
            if allocatable:
                left, of = free[column][row], float(allocatable)
                used = allocatable - left
                before.append(used / of if left > 0 else 1.0)
                after.append((used + amount) / of if left > amount else 1.0)
        balanced = balance(after)
        return HALF + (HALF + balanced - balance(before)) // 2 if self._change else balanced

    def _score_rows(self, room: Room, requested: RequestedResources, rows: Which) -> Scores:
        part = room.excerpt(rows)
        allocatable = part.of(room.allocatable.cells)[requested.columns]
        everywhere = requested.offered(room)[0] > 0
        shares = allocatable - part.of(room.free)[requested.columns] + requested.both  # what is used
        shares = shares / (allocatable if everywhere else np.maximum(allocatable, 1))
        before, after = balances(np.minimum(shares, 1.0, out=shares), None if everywhere else allocatable > 0)
        scores: Scores = HALF + (HALF + after - before >> 1) if self._change else after
        return scores

    def _requested(self, cycle: Cycle) -> RequestedResources:
        shape = cycle.pod_class.shape
        known = self._requested_by_shape.get(shape)
        if known is None:
            requested = requested_resources(cycle.snapshot.room, shape.fields.requests, self._resources)
            known = self._requested_by_shape[shape] = requested if requested.amounts.any() else RequestedResources(())
        return known


def balance(shares: Sequence[float]) -> int:
    """How evenly one node is used, from the share of each resource it has. Sums are plain, in order, as in Go."""
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * BEST)
    if len(shares) < 2:
        return BEST
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return int((1 - sqrt(squares / len(shares))) * BEST)


def balances(shares: Shares, has: Mask | None) -> Scores:
    """`balance` of many nodes, from shares[..., resource, node] and which node has which resource, None for all."""
    if shares.shape[-2] == 2:
        deviation = np.abs(shares[..., 0, :] - shares[..., 1, :])
        deviation /= 2
        if has is not None:
            deviation *= has[0] & has[1]
    else:
        has = np.ones(shares.shape[-2:], np.bool_) if has is None else has
        deviation = _deviation(shares, has, has.sum(axis=0))
    np.subtract(1, deviation, out=deviation)
    deviation *= BEST
    scores: Scores = deviation.astype(np.int64)
    return scores


def _deviation(shares: Shares, has: Mask, count: NDArray[np.int64]) -> Shares:
    total = squares = np.zeros((*shares.shape[:-2], shares.shape[-1]))
    divisor = np.maximum(count, 1)
    for resource, there in enumerate(has):
        total = total + shares[..., resource, :] * there
    mean = total / divisor
    for resource, there in enumerate(has):
        apart = shares[..., resource, :] - mean
        squares = squares + apart * apart * there
    highest = np.where(has, shares, -np.inf).max(axis=-2, initial=0.0)
    lowest = np.where(has, shares, np.inf).min(axis=-2, initial=1.0)
    return np.select([count > 2, count == 2], [np.sqrt(squares / divisor), (highest - lowest) / 2], 0.0)
