"""Divided rankings: one ranking for the pods of all queues that are alike but for their queue, while nodes are locked.

Goes in: what a `Ranking` is made of, and which rows are locked for whom. Comes out: the best of the rows that are not
locked, kept up to date as in any ranking, and the best of those that are locked for one queue, by a look at these few.
So what a pod of one queue changes is looked at once, and not once more for every other queue.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Snapshot, Which
from restow.model.cluster.locks import UNLOCKED
from restow.scheduling.framework import Cycle, FilterPlugin
from restow.scheduling.ranking import REFUSED, NameOrder, Ranking, Weighted

_FEW = 64
"""So many rows are sooner looked at one by one."""


class Divided(Ranking):
    """To be refreshed by cycles of a class that locks are nothing to."""

    def __init__(
        self, snapshot: Snapshot, order: NameOrder, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]
    ) -> None:
        super().__init__(snapshot, order, [one for one in filters if not one.by_tenancy], scores)
        self._locks = snapshot.locks
        self._whole: NDArray[np.int64] = np.zeros(0, np.int64)
        """The keys of all rows, whoever they are locked for."""

    def best_for(self, tenancy: str) -> int:
        """The largest key of the rows that pods of a tenancy may go to."""
        own = self._locks.rows_of(tenancy)
        if len(own) > _FEW:
            return max(self.best(), int(self._whole.take(own).max()))
        best, whole = self.best(), self._whole_at
        for row in own.tolist():
            if whole[row] > best:
                best = whole[row]
        return best

    def _rebuild(self, cycle: Cycle) -> None:
        self._whole = np.full(self._rows.capacity, REFUSED, np.int64)
        self._whole_at = self._whole.data
        super()._rebuild(cycle)

    def _keys_of(self, cycle: Cycle, rows: Which) -> NDArray[np.int64]:
        keys = super()._keys_of(cycle, rows)
        self._whole[rows] = keys
        holders = self._locks.of_row[rows] if isinstance(rows, slice) else self._locks.of_row.take(rows)
        unlocked: NDArray[np.int64] = np.where(holders == UNLOCKED, keys, REFUSED)
        return unlocked

    def _key_of(self, row: int) -> int:
        key = self._whole_at[row] = super()._key_of(row)
        return key if self._locks.of_row.item(row) == UNLOCKED else REFUSED
