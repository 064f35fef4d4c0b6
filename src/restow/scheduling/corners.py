"""Corners: the few nodes that pods of one class may go to and pods like them of other queues may not.

Where nodes are locked for many queues, pods that differ in nothing but their queue share one ranking of the unlocked
nodes, and each queue has a corner of its own beside it. So what a pod of one queue changes is looked at once, and not
once more for every other queue.

Goes in: a cycle of the class, and the NODE and ROW plugins that have a say. Comes out: the best key there, as in
`ranking`. A corner is good until some Node changes, and with it perhaps its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.scheduling.framework import Cycle, FilterPlugin, Reach
from restow.scheduling.ranking import REFUSED, TIE_BITS, NameOrder, Weighted, keys_of


class Corner:
    __slots__ = ("_appraisers", "_best", "_changes", "_judges", "_keys", "_numbers", "_rows", "_seen", "_start")

    def __init__(
        self,
        cycle: Cycle,
        order: NameOrder,
        filters: Sequence[FilterPlugin],
        scores: Sequence[Weighted],
    ) -> None:
        of_nodes = (
            [one for one in filters if one.reach is Reach.NODE],
            [one for one in scores if one[0].reach is Reach.NODE],
        )
        locks, size = cycle.snapshot.locks, cycle.snapshot.rows.size
        rows = self._rows = np.flatnonzero(locks.of_row[:size] == locks.number(cycle.pod_class.tenancy or ""))
        self._numbers: list[int] = rows.tolist()
        self._start: list[int] = keys_of(cycle, order, *of_nodes, rows).tolist()
        """What the Node objects alone decide."""
        self._judges = [one.judge(cycle) for one in filters if one.reach is Reach.ROW]
        self._appraisers = [(one.appraise(cycle), weight) for one, weight in scores if one.reach is Reach.ROW]
        self._changes = cycle.snapshot.room.changes
        self._keys = [self._key(place) for place in range(len(rows))]
        self._best = max(self._keys, default=REFUSED)
        self._seen = self._changes.generation

    def best(self) -> int:
        """The largest key, REFUSED if every row is refused, for the cluster as it is now."""
        generation = self._changes.generation
        if self._seen != generation:
            changed = (self._changes.stamps[self._rows] > self._seen).nonzero()[0].tolist()
            for place in changed:
                self._keys[place] = self._key(place)
            if changed:
                self._best = max(self._keys)
            self._seen = generation
        return self._best

    def _key(self, place: int) -> int:
        start, row = self._start[place], self._numbers[place]
        if start == REFUSED:
            return REFUSED
        for accepts in self._judges:
            if not accepts(row):
                return REFUSED
        total = 0
        for worth, weight in self._appraisers:
            total += weight * worth(row)
        return start + (total << TIE_BITS)
