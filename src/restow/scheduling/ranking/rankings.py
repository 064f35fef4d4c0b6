"""All rankings of an engine: one per class of pods and set of active plugins, for the snapshot that was seen last.

Goes in: a cycle, and the plugins that did not skip it, as bits. Comes out: the largest key of all rows that every
filter accepts. Each step is taken only if the one before has not settled it:

    1  the best key of the ranking, if no CLUSTER plugin is active or the cluster filters accept its row
    2  the mask cache, if the cluster filters decide node by node and no cluster score is active
    3  the best row of each topology bucket, if few buckets tell all rows apart
    4  all feasible rows, if cluster scores are active; else the best block of keys, then every row that could be better
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from restow.model.cluster import PodClass, RowIndex
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import QueueLockFilter, row_filter_of
from restow.scheduling.framework import Cycle, FilterPlugin, Reach
from restow.scheduling.ranking.key_blocks import BLOCK, REFUSED
from restow.scheduling.ranking.queue_ranking import QueueRanking
from restow.scheduling.ranking.ranking import NodeNameOrder, Ranking
from restow.scheduling.ranking.score_cache import Weighted
from restow.scheduling.ranking.selection import (
    ActivePlugins,
    RowFilterMaker,
    best_accepted_key,
    best_by_cluster_scores,
    buckets_of,
    filter_row,
    filter_rows,
    mask_cache_of,
)
from restow.scheduling.ranking.skip_cache import ClassSkips, SkipCache

RankingKey = tuple[PodClass, int, int]
"""A class, and the active filters and scores as bits."""
R = TypeVar("R", bound=Ranking)

_MOST_RANKINGS = 512  # the least recently used one is dropped
_FEW = 4  # less than one row in so many is worth picking them out


class Rankings:
    """The rankings for one snapshot; another snapshot starts them anew."""

    def __init__(self, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]) -> None:
        self.order: NodeNameOrder
        self._filters = filters
        self._scores = scores
        self._skips = SkipCache(filters, [plugin for plugin, _ in scores])
        self._filters_of: dict[int, Sequence[FilterPlugin]] = {}
        self._row_filters_of: dict[int, Sequence[RowFilterMaker]] = {}
        self._active: dict[tuple[int, int], ActivePlugins] = {}
        self._snapshot: Snapshot | None = None
        self._rankings: dict[RankingKey, Ranking] = {}
        self._queue_rankings: dict[RankingKey, QueueRanking] = {}

    def begin(self, cycle: Cycle) -> ClassSkips:
        """Bring the order of nodes up to date; what PreFilter and PreScore said for the cycle's class."""
        if cycle.snapshot is not self._snapshot:
            self._start_over(cycle.snapshot)
        self.order.refresh()
        return self._skips.skips_of(cycle)

    # --- the active plugins -------------------------------------------------------------------------------------------

    def filters(self, filtering: int) -> Sequence[FilterPlugin]:
        """The active filters, in order."""
        filters = self._filters_of.get(filtering)
        if filters is None:
            filters = [plugin for number, plugin in enumerate(self._filters) if filtering >> number & 1]
            self._filters_of[filtering] = filters
        return filters

    def accepts_row(self, cycle: Cycle, filtering: int, row: int) -> bool:
        """Whether all active filters accept one row."""
        row_filters = self._row_filters_of.get(filtering)
        if row_filters is None:
            row_filters = self._row_filters_of[filtering] = [*map(row_filter_of, self.filters(filtering))]
        return filter_row(cycle, row_filters, row)

    def _active_plugins(self, filtering: int, scoring: int) -> ActivePlugins:
        active = self._active.get((filtering, scoring))
        if active is None:
            scores = [pair for number, pair in enumerate(self._scores) if scoring >> number & 1]
            active = self._active[filtering, scoring] = ActivePlugins.of(self.filters(filtering), scores)
        return active

    # --- rows ---------------------------------------------------------------------------------------------------------

    def feasible_rows(self, cycle: Cycle, filtering: int) -> RowIndex:
        """The rows that all active filters accept."""
        active = self._active_plugins(filtering, 0)
        ranking = self._ranking(cycle, active, filtering, 0)
        ranking.refresh(cycle)
        rows = np.flatnonzero(ranking.all_keys() != REFUSED)
        return rows[filter_rows(cycle, active.cluster_filters, rows)] if active.cluster_filters else rows

    def best_key(self, cycle: Cycle, skips: ClassSkips, filtering: int, scoring: int) -> int:
        """The key of the best feasible row, REFUSED if there is none."""
        if cycle.pod_class.queue_lock_class is not None:
            return self._best_unlocked(cycle, skips, filtering, scoring)
        last = skips.last_ranking
        if last is None or last[0] != filtering or last[1] != scoring:
            active = self._active_plugins(filtering, scoring)
            last = skips.last_ranking = (filtering, scoring, active, self._ranking(cycle, active, filtering, scoring))
        return self._best(cycle, last[2], last[3])

    def _best(self, cycle: Cycle, active: ActivePlugins, ranking: Ranking) -> int:
        # 1. The best key is final unless a CLUSTER plugin is active.
        ranking.refresh(cycle)
        best = ranking.best()
        if best == REFUSED:
            return REFUSED
        if not active.cluster_scores:
            row_filters = active.cluster_row_filters
            if not row_filters:
                return best
            # A ranking with a mask cache has been refused here before, and likely is again: use the cache at once.
            if not ranking.has_mask_cache and filter_row(cycle, row_filters, self.order.row(best)):
                return best
            # 2. Domains of one node each: the cache knows the best accepted row.
            mask_cache = mask_cache_of(cycle, ranking, active)
            if mask_cache is not None:
                return mask_cache.best()
        # 3. Few topology domains: one row stands for each bucket.
        buckets = buckets_of(cycle, ranking, active)
        if buckets is not None:
            keys = buckets.maxima[buckets.maxima != REFUSED]
            return best_by_cluster_scores(cycle, ranking, active, keys, self.order.rows(keys))
        # 4. Otherwise the rows themselves.
        if active.cluster_scores:
            rows = np.flatnonzero(ranking.all_keys() != REFUSED)
            return best_by_cluster_scores(cycle, ranking, active, ranking.keys[rows], rows)
        return self._best_accepted(cycle, ranking, active.cluster_filters)

    def _best_accepted(self, cycle: Cycle, ranking: Ranking, filters: Sequence[FilterPlugin]) -> int:
        """The best block first; if another one can hold a better row, all rows that could be better."""
        every = cycle.snapshot.rows.every
        first = int(ranking.maxima.argmax()) * BLOCK
        best = best_accepted_key(cycle, ranking, filters, np.arange(first, min(first + BLOCK, every.stop)))
        if best != REFUSED and np.count_nonzero(ranking.maxima > best) == 1:
            return best
        better = ranking.all_keys() > best
        few = np.count_nonzero(better) * _FEW < every.stop
        return max(best, best_accepted_key(cycle, ranking, filters, np.flatnonzero(better) if few else every))

    def _best_unlocked(self, cycle: Cycle, skips: ClassSkips, filtering: int, scoring: int) -> int:
        """While nodes are locked for queues: pods that differ in their queue alone share a `QueueRanking`, unless a
        CLUSTER plugin has to see all rows that one of them may go to."""
        last = skips.last_queue_ranking
        if last is None or last[0] != filtering or last[1] != scoring:
            active = self._active_plugins(filtering, scoring)
            has_lock_filter = any(isinstance(plugin, QueueLockFilter) for plugin in active.filters)
            if active.cluster_scores or active.cluster_filters or not has_lock_filter:
                return self._best(cycle, active, self._ranking(cycle, active, filtering, scoring))
            # The shared ranking is refreshed by a cycle of the class without locks, so that no lock is written into it.
            unlocked = Cycle(cycle.pod, cycle.snapshot, cycle.now, cycle.pod_class.unlocked)
            queue_ranking = self._queue_ranking(unlocked, active, filtering, scoring)
            last = skips.last_queue_ranking = (filtering, scoring, unlocked, queue_ranking)
        _, _, unlocked, ranking = last
        ranking.refresh(unlocked)
        return ranking.best_for_queue(cycle.pod_class.queue_lock_class or "")

    # --- the rankings -------------------------------------------------------------------------------------------------

    def _start_over(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.order = NodeNameOrder(snapshot)
        self._rankings.clear()
        self._queue_rankings.clear()
        self._skips.clear()

    def _ranking(self, cycle: Cycle, active: ActivePlugins, filtering: int, scoring: int) -> Ranking:
        key = (cycle.pod_class.base, filtering, scoring)
        ranking = self._rankings.pop(key, None)
        if ranking is None:
            raw = [plugin for plugin, _ in active.cluster_scores if plugin.reach is not Reach.CLUSTER]
            ranking = Ranking(cycle.snapshot, self.order, active.filters, active.scores, raw)
        _keep_most_recent(self._rankings, key, ranking)
        return ranking

    def _queue_ranking(self, cycle: Cycle, active: ActivePlugins, filtering: int, scoring: int) -> QueueRanking:
        key = (cycle.pod_class.base, filtering, scoring)
        ranking = self._queue_rankings.pop(key, None)
        if ranking is None:
            ranking = QueueRanking(cycle.snapshot, self.order, active.filters, active.scores)
        _keep_most_recent(self._queue_rankings, key, ranking)
        return ranking


def _keep_most_recent(kept: dict[RankingKey, R], key: RankingKey, ranking: R) -> None:
    kept[key] = ranking
    if len(kept) > _MOST_RANKINGS:
        del kept[next(iter(kept))]
