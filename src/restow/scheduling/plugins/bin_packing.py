"""BinPacking: the fuller a node would be in what the pod asks for, the better, so that other nodes stay whole.

Every resource the pod requests counts, extended ones too, each with the weight that the argument `weights` gives its
name (1 where it gives none, 0 to leave it out).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec

from restow.model.cluster import Shape, Which
from restow.model.cluster.resource_columns import Amounts
from restow.model.problems import join
from restow.scheduling.accelerated import RoomOnly, RowScore
from restow.scheduling.framework import SKIP, SUCCESS, ArgumentError, Cycle, ScorePlugin, Scores, Verdict
from restow.scheduling.plugins.allocation import (
    MostAllocated,
    Requested,
    ResourceWeight,
    allocation_score,
    allocation_scores,
    asked_of,
    real_books,
)
from restow.scheduling.plugins.plugin_arguments import read_arguments


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weights: dict[str, int] = {}


class BinPacking(ScorePlugin, RowScore, RoomOnly):
    name: ClassVar[str] = "BinPacking"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        self._weights = read_arguments(Arguments, arguments).weights
        wrong = {name: weight for name, weight in self._weights.items() if not 0 <= weight <= 100}
        if wrong:
            raise ArgumentError([f"{join('weights', name)}: expected 0 to 100, got {wrong[name]}" for name in wrong])
        self._strategy = MostAllocated()
        self._asked: WeakKeyDictionary[Shape, tuple[Amounts, Requested]] = WeakKeyDictionary()

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._of(cycle) else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        room = cycle.snapshot.room
        return allocation_scores(self._strategy, room, real_books(room), self._of(cycle), rows)

    def row_score(self, cycle: Cycle) -> Callable[[int], int]:
        room = cycle.snapshot.room
        return partial(allocation_score, self._strategy, room, real_books(room), self._of(cycle))

    def _of(self, cycle: Cycle) -> Requested:
        shape, room = cycle.pod_class.shape, cycle.snapshot.room
        known = self._asked.get(shape)
        if known is None or known[0] is not shape.amounts:
            requests = shape.fields.requests
            offered = [name for name in sorted(requests) if requests[name] and room.resources.find(name) is not None]
            weights = [ResourceWeight(name, self._weights.get(name, 1)) for name in offered]
            counted = [one for one in weights if one.weight]
            known = self._asked[shape] = (shape.amounts, asked_of(room, requests, counted))
        return known[1]
