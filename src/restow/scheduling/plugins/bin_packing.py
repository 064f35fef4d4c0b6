"""BinPacking: the fuller a node would be in what the pod requests, the better, so that other nodes stay free.

Every resource that the pod requests counts, extended ones too, each with the weight that the argument `weights` gives
its name (1 by default, 0 to leave it out).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec

from restow.model.cluster import Shape, Which
from restow.model.cluster.resource_columns import Amounts
from restow.model.problems import member_path
from restow.scheduling.accelerated import RoomOnly, RowScore
from restow.scheduling.framework import SKIP, SUCCESS, ArgumentError, Cycle, ScorePlugin, Scores, Verdict
from restow.scheduling.plugins.allocation import (
    MostAllocated,
    RequestedResources,
    ResourceWeight,
    allocation_score,
    allocation_scores,
    requested_resources,
    usage_ledgers,
)
from restow.scheduling.plugins.plugin_arguments import read_arguments


class BinPackingArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weights: dict[str, int] = {}


class BinPacking(ScorePlugin, RowScore, RoomOnly):
    name: ClassVar[str] = "BinPacking"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        self._weights = read_arguments(BinPackingArgs, arguments).weights
        wrong = {name: weight for name, weight in self._weights.items() if not 0 <= weight <= 100}
        if wrong:
            raise ArgumentError(
                [f"{member_path('weights', name)}: expected 0 to 100, got {wrong[name]}" for name in wrong]
            )
        self._strategy = MostAllocated()
        self._requested_by_shape: WeakKeyDictionary[Shape, tuple[Amounts, RequestedResources]] = WeakKeyDictionary()

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._requested(cycle) else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        room = cycle.snapshot.room
        return allocation_scores(self._strategy, room, usage_ledgers(room), self._requested(cycle), rows)

    def row_score(self, cycle: Cycle) -> Callable[[int], int]:
        room = cycle.snapshot.room
        return partial(allocation_score, self._strategy, room, usage_ledgers(room), self._requested(cycle))

    def _requested(self, cycle: Cycle) -> RequestedResources:
        shape, room = cycle.pod_class.shape, cycle.snapshot.room
        known = self._requested_by_shape.get(shape)
        if known is None or known[0] is not shape.amounts:
            requests = shape.fields.requests
            offered = [name for name in sorted(requests) if requests[name] and room.resources.find(name) is not None]
            weights = [ResourceWeight(name, self._weights.get(name, 1)) for name in offered]
            counted = [weight for weight in weights if weight.weight]
            known = self._requested_by_shape[shape] = (shape.amounts, requested_resources(room, requests, counted))
        return known[1]
