"""One ranking for pods that are alike but for their queue, while nodes are locked for queues.

Goes in: what a `Ranking` is made of, and which rows are locked for which queue. Comes out: the best of the rows that
are not locked, kept up to date as in any ranking, and the best of those that are locked for one queue, by a look at
these few. So a row that changes is looked at once, and not once more for every queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex, Which
from restow.model.cluster.queue_locks import UNLOCKED
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import QueueLockFilter
from restow.scheduling.framework import Cycle, FilterPlugin
from restow.scheduling.ranking.key_blocks import REFUSED
from restow.scheduling.ranking.ranking import NodeNameOrder, Ranking
from restow.scheduling.ranking.score_cache import Weighted

_FEW = 64
"""Up to so many rows it is faster to look at one by one."""


class QueueRanking(Ranking):
    """To be refreshed by cycles of a class that ignores locks (`PodClass.unlocked`)."""

    def __init__(
        self, snapshot: Snapshot, order: NodeNameOrder, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]
    ) -> None:
        others = [plugin for plugin in filters if not isinstance(plugin, QueueLockFilter)]
        super().__init__(snapshot, order, others, scores)
        self._locks = snapshot.locks
        self._all_keys: NDArray[np.int64] = np.zeros(0, np.int64)
        """The keys of all rows, as if none were locked."""
        self._lock_bits: NDArray[np.int64] = np.zeros(0, np.int64)
        """Per row 0, or REFUSED (all bits set) if it is locked: a key or-ed with it is itself, or REFUSED."""
        self._best_locked: dict[str, Callable[[], int]] = {}
        """By queue lock class: the largest key of the rows that are locked for it."""

    def best_for_queue(self, queue_lock_class: str) -> int:
        """The largest key of the rows that pods of a queue lock class may go to."""
        best_locked = self._best_locked.get(queue_lock_class)
        if best_locked is None:
            rows = self._locks.rows_of(queue_lock_class)
            best_locked = self._best_locked[queue_lock_class] = self._largest_key_of(rows)
        return max(self.best(), best_locked())

    def _largest_key_of(self, rows: RowIndex) -> Callable[[], int]:
        all_keys, all_keys_at = self._all_keys, self._all_keys_at
        if not len(rows):
            return lambda: REFUSED
        if len(rows) > _FEW:
            return lambda: int(all_keys.take(rows).max())
        keys = itemgetter(*rows.tolist(), rows.item(0))  # one row twice: with a single index it would give no tuple
        return lambda: max(keys(all_keys_at))

    def _rebuild(self, cycle: Cycle) -> None:
        self._all_keys = np.full(self._rows.capacity, REFUSED, np.int64)
        self._lock_bits = np.zeros(self._rows.capacity, np.int64)
        self._all_keys_at, self._lock_bits_at = self._all_keys.data, self._lock_bits.data
        super()._rebuild(cycle)

    def _update_node_part(self, cycle: Cycle, rows: Which) -> None:
        super()._update_node_part(cycle, rows)
        self._lock_bits[rows] = np.where(self._locks.of_row[rows] == UNLOCKED, 0, REFUSED)
        self._best_locked.clear()

    def _keys_of(self, cycle: Cycle, rows: Which) -> NDArray[np.int64]:
        keys = super()._keys_of(cycle, rows)
        self._all_keys[rows] = keys
        keys |= self._lock_bits[rows] if isinstance(rows, slice) else self._lock_bits.take(rows)
        return keys

    def _key_of(self, row: int) -> int:
        key = self._all_keys_at[row] = super()._key_of(row)
        return key | self._lock_bits_at[row]
