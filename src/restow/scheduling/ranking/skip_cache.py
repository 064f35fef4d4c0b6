"""Runs PreFilter and PreScore, and caches per class of pods which plugins skip.

Goes in: the plugins of an engine, and a cycle. Comes out: the filters and the scores that did not skip, as bits (the
n-th bit is the n-th plugin), or the verdict that ends the cycle. A NODE or ROW plugin is asked once per class, until a
Node changes or what pods ask of each other does (`AffinityIndex.version`); a CLUSTER plugin is asked for each pod,
unless it said SKIP_FOR_CLASS. Classes that differ only in the queue share an entry, because no plugin but the
`QueueLockFilter` reads the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.model.cluster import PodClass
from restow.scheduling.framework import (
    SKIP_FOR_CLASS,
    Code,
    Cycle,
    FilterPlugin,
    Plugin,
    Reach,
    ScorePlugin,
    Verdict,
    overrides,
)
from restow.scheduling.ranking.queue_ranking import QueueRanking
from restow.scheduling.ranking.ranking import Ranking
from restow.scheduling.ranking.selection import ActivePlugins

_MOST_CLASSES = 512

Active = tuple[int, Verdict | None]
"""The active plugins as bits; or the verdict because of which no plugin is asked any more."""
_Unasked = tuple[list[tuple[int, Any]], int]
"""The plugins to ask, by number; and as bits the ones that are active without being asked."""


class SkipCache:
    def __init__(self, filters: Sequence[FilterPlugin], scores: Sequence[ScorePlugin]) -> None:
        self._filters = _unasked(filters, FilterPlugin, "pre_filter")
        self._scores = _unasked(scores, ScorePlugin, "pre_score")
        self._entries: dict[tuple[PodClass, bool], ClassSkips] = {}

    def clear(self) -> None:
        """Another snapshot is looked at."""
        self._entries.clear()

    def skips_of(self, cycle: Cycle) -> ClassSkips:
        """The entry of the cycle's class, a fresh one if the cluster has changed since."""
        snapshot = cycle.snapshot
        nodes, affinity = snapshot.nodes.changes.generation, snapshot.affinity.version
        key = (cycle.pod_class.unlocked, cycle.pod_class.queue_lock_class is None)
        skips = self._entries.get(key)
        if skips is None or skips.nodes != nodes or skips.affinity != affinity:
            skips = self._entries[key] = ClassSkips(nodes, affinity, self._filters, self._scores)
            if len(self._entries) > _MOST_CLASSES:
                del self._entries[next(iter(self._entries))]
        return skips


class ClassSkips:
    """The plugins that still have to be asked for a class, and as bits what is known of the others."""

    __slots__ = (
        "_filters",
        "_filters_known",
        "_scores",
        "_scores_known",
        "affinity",
        "last_queue_ranking",
        "last_ranking",
        "nodes",
    )

    def __init__(self, nodes: int, affinity: int, filters: _Unasked, scores: _Unasked) -> None:
        self.nodes = nodes
        self.affinity = affinity
        self._filters, self._filters_known = filters
        self._scores, self._scores_known = scores
        self.last_ranking: tuple[int, int, ActivePlugins, Ranking] | None = None
        """The filters and scores that were active the last time, as bits and by name, and the ranking by them."""
        self.last_queue_ranking: tuple[int, int, Cycle, QueueRanking] | None = None
        """The same for pods of all queues while nodes are locked, with a cycle of their class without locks."""

    def pre_filter(self, cycle: Cycle) -> Active:
        if not self._filters:
            return self._filters_known, None
        active, known, refused = self._filters_known, self._filters_known, None
        again: list[tuple[int, Any]] = []
        for entry in self._filters:
            number, plugin = entry
            verdict = plugin.pre_filter(cycle)
            code = verdict.code
            if code is Code.SKIP or code is Code.SUCCESS:
                bit = (code is Code.SUCCESS) << number
                active |= bit
                if verdict is SKIP_FOR_CLASS or plugin.reach is not Reach.CLUSTER:
                    known |= bit
                    continue
            elif code is Code.UNSCHEDULABLE:
                # As in kube-scheduler: the first refusal stands, and the other PreFilters still run, because one of
                # them may say that the pod is unresolvable.
                refused = refused or with_plugin_name(verdict, plugin)
            else:
                return 0, with_plugin_name(verdict, plugin)
            again.append(entry)
        self._filters, self._filters_known = again, known
        return active, refused

    def pre_score(self, cycle: Cycle) -> Active:
        if not self._scores:
            return self._scores_known, None
        active = known = self._scores_known
        again: list[tuple[int, Any]] = []
        for entry in self._scores:
            number, plugin = entry
            verdict = plugin.pre_score(cycle)
            code = verdict.code
            if code is not Code.SKIP and code is not Code.SUCCESS:
                return 0, Verdict(Code.ERROR, verdict.reasons, plugin.name)
            bit = (code is Code.SUCCESS) << number
            active |= bit
            if verdict is SKIP_FOR_CLASS or plugin.reach is not Reach.CLUSTER:
                known |= bit
            else:
                again.append(entry)
        self._scores, self._scores_known = again, known
        return active, None


def _unasked(plugins: Sequence[Plugin], base: type[Plugin], method: str) -> _Unasked:
    """The plugins that define the method; all others are active without being asked."""
    own = [(number, plugin) for number, plugin in enumerate(plugins) if overrides(plugin, base, method)]
    return own, (1 << len(plugins)) - 1 - sum(1 << number for number, _ in own)


def with_plugin_name(verdict: Verdict, plugin: Plugin) -> Verdict:
    """The verdict with the name of the plugin that gave it."""
    return verdict if verdict.plugin else Verdict(verdict.code, verdict.reasons, plugin.name)
