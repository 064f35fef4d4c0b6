"""NodeResourcesFit: nodes need room for what the pod requests of every resource, and for one more pod.

Arguments, as kube-scheduler's: `ignoredResources` and `ignoredResourceGroups` name extended resources that another
component looks after; `scoringStrategy` says how fullness is scored (see `allocation`), cpu and memory alike by
default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from restow.model.cluster import Mask, Shape, Which, node_filters
from restow.model.cluster.resource_columns import Amounts, ResourceColumns
from restow.model.resources import PODS, is_extended
from restow.scheduling.accelerated import ResourceFilter, RoomOnly, RowFilter, RowScore
from restow.scheduling.framework import (
    BEST,
    SKIP,
    SUCCESS,
    ArgumentError,
    Cycle,
    FilterPlugin,
    Refusal,
    ScorePlugin,
    Scores,
    Verdict,
)
from restow.scheduling.plugins.allocation import (
    AllocationStrategy,
    MostAllocated,
    RequestedResources,
    RequestedToCapacityRatio,
    ResourceWeight,
    allocation_score,
    allocation_scores,
    default_weights,
    requested_resources,
    scoring_ledgers,
    weight_problems,
)
from restow.scheduling.plugins.few_rows import few_rows
from restow.scheduling.plugins.plugin_arguments import read_arguments
from restow.scheduling.plugins.refusals import refusals_of

_BEST_POINT = 10
"""The highest score a point of a line can have in a configuration."""


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    utilization: int
    score: int


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shape: list[Point] = []


class ScoringStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: str = "LeastAllocated"
    resources: list[ResourceWeight] = msgspec.field(default_factory=default_weights)
    requested_to_capacity_ratio: Line | None = None


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesFit(FilterPlugin, ScorePlugin, RowFilter, RowScore, RoomOnly, ResourceFilter):
    name: ClassVar[str] = "NodeResourcesFit"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = read_arguments(NodeResourcesFitArgs, arguments)
        problems = list(_problems(given))
        if problems:
            raise ArgumentError(problems)
        self._ignored = frozenset(given.ignored_resources)
        self._ignored_groups = frozenset(given.ignored_resource_groups)
        self._strategy = _strategy(given.scoring_strategy)
        self._weights = given.scoring_strategy.resources
        self._filtered: WeakKeyDictionary[Shape, tuple[Amounts, Amounts]] = WeakKeyDictionary()
        """By shape: its requests, and those of them that count."""
        self._scored: WeakKeyDictionary[Shape, RequestedResources] = WeakKeyDictionary()

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        room, requests, few = cycle.snapshot.room, self.counted_resources(cycle), few_rows(rows)
        if few is None:
            return node_filters.rows_that_fit(room, requests, rows)
        return np.array([node_filters.fits_on_row(room, requests, row) for row in few], np.bool_)

    def row_filter(self, cycle: Cycle) -> Callable[[int], bool]:
        return partial(node_filters.fits_on_row, cycle.snapshot.room, self.counted_resources(cycle))

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        """A node that is too small even when empty is unresolvable: no pod that leaves helps."""
        room, refusals = cycle.snapshot.room, list[Refusal]()
        requests = {room.resources.name(column): (column, amount) for column, amount in self.counted_resources(cycle)}
        for name, short in node_filters.rows_short_of(room, tuple(requests.values()), rows).items():
            column, amount = requests[name]
            if name == PODS:
                refusals += refusals_of("Too many pods", short, resolvable=True)
                continue
            too_small = short & ~node_filters.rows_that_offer(room, column, amount, rows)
            refusals += refusals_of(f"Insufficient {name}", short & ~too_small, resolvable=True)
            refusals += refusals_of(f"Insufficient {name}", too_small, resolvable=False)
        return refusals

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._requested(cycle) else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        room = cycle.snapshot.room
        return allocation_scores(self._strategy, room, scoring_ledgers(room), self._requested(cycle), rows)

    def row_score(self, cycle: Cycle) -> Callable[[int], int]:
        room = cycle.snapshot.room
        return partial(allocation_score, self._strategy, room, scoring_ledgers(room), self._requested(cycle))

    def counted_resources(self, cycle: Cycle) -> Amounts:
        shape = cycle.pod_class.shape
        if not self._ignored and not self._ignored_groups:
            return shape.amounts
        known = self._filtered.get(shape)
        if known is None or known[0] is not shape.amounts:
            counted = self._without_ignored(shape.amounts, cycle.snapshot.room.resources)
            known = self._filtered[shape] = (shape.amounts, counted)
        return known[1]

    def _without_ignored(self, amounts: Amounts, resources: ResourceColumns) -> Amounts:
        return tuple((column, amount) for column, amount in amounts if not self._ignores(resources.name(column)))

    def _ignores(self, name: str) -> bool:
        return is_extended(name) and (name in self._ignored or name.split("/")[0] in self._ignored_groups)

    def _requested(self, cycle: Cycle) -> RequestedResources:
        shape = cycle.pod_class.shape
        known = self._scored.get(shape)
        if known is None:
            known = self._scored[shape] = requested_resources(cycle.snapshot.room, shape.fields.scored, self._weights)
        return known


def _strategy(given: ScoringStrategy) -> AllocationStrategy:
    match given.type:
        case "MostAllocated":
            return MostAllocated()
        case "RequestedToCapacityRatio":
            points = given.requested_to_capacity_ratio.shape if given.requested_to_capacity_ratio else []
            return RequestedToCapacityRatio(
                [(point.utilization, point.score * BEST // _BEST_POINT) for point in points]
            )
        case _:
            return AllocationStrategy()


def _problems(given: NodeResourcesFitArgs) -> Iterator[str]:
    for index, name in enumerate(given.ignored_resources):
        if not is_extended(name):
            yield f"ignoredResources[{index}]: {name!r} is not an extended resource"
    for index, group in enumerate(given.ignored_resource_groups):
        if "/" in group:
            yield f"ignoredResourceGroups[{index}]: {group!r} must not contain a slash"
    strategy, path = given.scoring_strategy, "scoringStrategy"
    yield from weight_problems(strategy.resources, f"{path}.resources")
    if strategy.type not in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"):
        yield f"{path}.type: expected LeastAllocated, MostAllocated or RequestedToCapacityRatio, got {strategy.type!r}"
    if strategy.type == "RequestedToCapacityRatio":
        yield from _line_problems(strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio.shape")


def _line_problems(line: Line | None, path: str) -> Iterator[str]:
    points = line.shape if line else []
    if not points:
        yield f"{path}: at least one point is needed"
    for index, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            yield f"{path}[{index}].utilization: expected 0 to 100, got {point.utilization}"
        if index and point.utilization <= points[index - 1].utilization:
            yield f"{path}[{index}].utilization: must be larger than the one before"
        if not 0 <= point.score <= _BEST_POINT:
            yield f"{path}[{index}].score: expected 0 to {_BEST_POINT}, got {point.score}"
