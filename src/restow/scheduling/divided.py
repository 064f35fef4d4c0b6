"""Divided rankings: one ranking for the pods of all queues that are alike but for their queue, while nodes are locked.

Goes in: what a `Ranking` is made of, and which rows are locked for whom. Comes out: the best of the rows that are not
locked, kept up to date as in any ranking, and the best of those that are locked for one queue, by a look at these few.
So what a pod of one queue changes is looked at once, and not once more for every other queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex, Snapshot, Which
from restow.model.cluster.locks import UNLOCKED
from restow.scheduling.blocks import REFUSED
from restow.scheduling.framework import Cycle, FilterPlugin
from restow.scheduling.ranking import NameOrder, Ranking
from restow.scheduling.worths import Weighted

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
        self._barred: NDArray[np.int64] = np.zeros(0, np.int64)
        """What makes REFUSED of any key of a row that is locked, bit by bit, and leaves the others as they are."""
        self._own: dict[str, Callable[[], int]] = {}
        """By tenancy: the largest key of the rows that are locked for it."""

    def best_for(self, tenancy: str) -> int:
        """The largest key of the rows that pods of a tenancy may go to."""
        own = self._own.get(tenancy)
        if own is None:
            own = self._own[tenancy] = self._best_of(self._locks.rows_of(tenancy))
        return max(self.best(), own())

    def _best_of(self, rows: RowIndex) -> Callable[[], int]:
        whole, whole_at = self._whole, self._whole_at
        if not len(rows):
            return lambda: REFUSED
        if len(rows) > _FEW:
            return lambda: int(whole.take(rows).max())
        keys = itemgetter(*rows.tolist(), rows.item(0))  # of a single row it would give no tuple
        return lambda: max(keys(whole_at))

    def _rebuild(self, cycle: Cycle) -> None:
        self._whole = np.full(self._rows.capacity, REFUSED, np.int64)
        self._barred = np.zeros(self._rows.capacity, np.int64)
        self._whole_at, self._barred_at = self._whole.data, self._barred.data
        super()._rebuild(cycle)

    def _ask_nodes(self, cycle: Cycle, rows: Which) -> None:
        super()._ask_nodes(cycle, rows)
        self._barred[rows] = np.where(self._locks.of_row[rows] == UNLOCKED, 0, REFUSED)
        self._own.clear()

    def _keys_of(self, cycle: Cycle, rows: Which) -> NDArray[np.int64]:
        keys = super()._keys_of(cycle, rows)
        self._whole[rows] = keys
        keys |= self._barred[rows] if isinstance(rows, slice) else self._barred.take(rows)
        return keys

    def _key_of(self, row: int) -> int:
        key = self._whole_at[row] = super()._key_of(row)
        return key | self._barred_at[row]
