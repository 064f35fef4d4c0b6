"""Who has a say in a cycle: PreFilter and PreScore, asked no more often than their answers can change.

Goes in: the plugins of an engine, and a cycle. Comes out: the filters and the scores that did not skip, as bits (the
n-th bit is the n-th plugin), or the verdict that ends the cycle. What was answered once and for all pods of a class is
kept with the class until a Node changes, or what pods ask of each other does; with the class of pods of whatever queue,
because no plugin but the one that is `by_tenancy` tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.model.cluster import PodClass
from restow.scheduling.choice import Say
from restow.scheduling.divided import Divided
from restow.scheduling.framework import (
    NEVER,
    Code,
    Cycle,
    FilterPlugin,
    Plugin,
    Reach,
    ScorePlugin,
    Verdict,
)
from restow.scheduling.ranking import Ranking

_KEPT = 512  # classes

Said = tuple[int, Verdict | None]
"""Who has a say, or why nobody needs to be asked any more."""
_ToAsk = tuple[list[tuple[int, Any]], int]
"""Plugins to ask, by number; and as bits those that have a say without being asked."""


class Asking:
    def __init__(self, filters: Sequence[FilterPlugin], scores: Sequence[ScorePlugin]) -> None:
        self._filters = _to_ask(filters, FilterPlugin, "pre_filter")
        self._scores = _to_ask(scores, ScorePlugin, "pre_score")
        self._kept: dict[tuple[PodClass, bool], Questions] = {}

    def clear(self) -> None:
        """Another snapshot is looked at."""
        self._kept.clear()

    def of(self, cycle: Cycle) -> Questions:
        """Whom to ask about a pod of the cycle's class."""
        snapshot = cycle.snapshot
        nodes, crowd = snapshot.nodes.changes.generation, snapshot.crowd.version
        which = (cycle.pod_class.unlocked, cycle.pod_class.tenancy is None)
        found = self._kept.get(which)
        if found is None or found.nodes != nodes or found.crowd != crowd:
            found = self._kept[which] = Questions(nodes, crowd, self._filters, self._scores)
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found


class Questions:
    """The plugins that still have to be asked for a class, and as bits what is known of the others."""

    __slots__ = ("_filters", "_filters_known", "_scores", "_scores_known", "crowd", "divided", "nodes", "ranked")

    def __init__(self, nodes: int, crowd: int, filters: _ToAsk, scores: _ToAsk) -> None:
        self.nodes = nodes
        self.crowd = crowd
        self._filters, self._filters_known = filters
        self._scores, self._scores_known = scores
        self.ranked: tuple[int, int, Say, Ranking] | None = None
        """Who had a say the last time, as bits and by name, and the ranking by them."""
        self.divided: tuple[int, int, Cycle, Divided] | None = None
        """The same for pods of all queues while nodes are locked, with a cycle of their class whatever is locked."""

    def pre_filter(self, cycle: Cycle) -> Said:
        if not self._filters:
            return self._filters_known, None
        active, known, refused = self._filters_known, self._filters_known, None
        again: list[tuple[int, Any]] = []
        for one in self._filters:
            number, plugin = one
            verdict = plugin.pre_filter(cycle)
            code = verdict.code
            if code is Code.SKIP or code is Code.SUCCESS:
                bit = (code is Code.SUCCESS) << number
                active |= bit
                if verdict is NEVER or plugin.reach is not Reach.CLUSTER:
                    known |= bit
                    continue
            elif code is Code.UNSCHEDULABLE:
                refused = refused or signed(verdict, plugin)
            else:
                return 0, signed(verdict, plugin)
            again.append(one)
        self._filters, self._filters_known = again, known
        return active, refused

    def pre_score(self, cycle: Cycle) -> Said:
        if not self._scores:
            return self._scores_known, None
        active = known = self._scores_known
        again: list[tuple[int, Any]] = []
        for one in self._scores:
            number, plugin = one
            verdict = plugin.pre_score(cycle)
            code = verdict.code
            if code is not Code.SKIP and code is not Code.SUCCESS:
                return 0, Verdict(Code.ERROR, verdict.reasons, plugin.name)
            bit = (code is Code.SUCCESS) << number
            active |= bit
            if verdict is NEVER or plugin.reach is not Reach.CLUSTER:
                known |= bit
            else:
                again.append(one)
        self._scores, self._scores_known = again, known
        return active, None


def _to_ask(plugins: Sequence[Plugin], base: type[Plugin], method: str) -> _ToAsk:
    """The plugins with an answer of their own, and the others."""
    own = [(number, one) for number, one in enumerate(plugins) if overrides(one, base, method)]
    return own, (1 << len(plugins)) - 1 - sum(1 << number for number, _ in own)


def signed(verdict: Verdict, plugin: Plugin) -> Verdict:
    """The verdict with the name of who gave it."""
    return verdict if verdict.plugin else Verdict(verdict.code, verdict.reasons, plugin.name)


def overrides(plugin: Plugin, base: type[Plugin], method: str) -> bool:
    """Whether a plugin has an answer of its own; the default one needs no asking."""
    return getattr(type(plugin), method) is not getattr(base, method)
