"""The story of one pod's scheduling cycle: which node is best for it, or why there is none.

Goes in: the plugins in order, with weights, and a `Cycle`. Comes out: `Placed` or `Unplaced`, both values; nothing is
changed. Then, once the caller has assumed the pod: `reserve`, `permit`, and `unreserve` after any failure.

    1  PreFilter     each plugin once: skip, go on, or refuse
    2  the nominated node, if there is one, alone and with every filter
    3  Filter and Score of NODE and ROW plugins: a `Ranking` per class of pods, updated for the rows that changed
    4  Filter of CLUSTER plugins: the best rows first, as many as needed
    5  scores that are of CLUSTER plugins or must be normalised: all rows that are left
    6  nobody left: every node's first refusal, then PostFilter

Codes mean what they mean in kube-scheduler: UNRESOLVABLE from PreFilter ends the cycle at once, UNSCHEDULABLE is
remembered while the other PreFilters still run, an ERROR ends it as an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar

import msgspec
import numpy as np

from restow.model.cluster import Mask, PodClass, RowIndex, SeatName, Snapshot
from restow.model.cluster.listing import Amounts
from restow.scheduling.answers import GO, Granted, Placed, Survey, Unplaced
from restow.scheduling.asking import Asking, Questions, overrides, signed
from restow.scheduling.blocks import BLOCK, REFUSED
from restow.scheduling.choice import Say, accepts, accepts_row, best_compared, best_of, cells_of, screen_of
from restow.scheduling.divided import Divided
from restow.scheduling.explain import complete, counted, joined, sentence, without_a_reason
from restow.scheduling.framework import (
    SUCCESS,
    Code,
    Cycle,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    QueueSortPlugin,
    Reach,
    Refusal,
    ReservePlugin,
    ScorePlugin,
    Verdict,
    error,
)
from restow.scheduling.ranking import NameOrder, Ranking
from restow.scheduling.worths import TIE_BITS

Key = tuple[PodClass, int, int]
"""A class, and as bits the filters and the scores that have a say."""
R = TypeVar("R", bound=Ranking)

_KEPT = 512  # rankings, least recently used first to go
_FEW = 4  # less than one row in so many is worth picking them out
_LONGEST_WAIT = 15 * 60.0


class Engine:
    """Runs the plugins. It remembers rankings for the snapshot it saw last, and nothing else."""

    def __init__(self, plugins: Sequence[Plugin], weights: Mapping[str, int] | None = None) -> None:
        self.plugins = tuple(plugins)
        self.sort = next((one for one in plugins if isinstance(one, QueueSortPlugin)), None)
        """What decides the order of the queue, if a plugin does."""
        self._filters = [one for one in plugins if isinstance(one, FilterPlugin)]
        self._counting = [one for one in self._filters if type(one).demanded is not FilterPlugin.demanded]
        self.scores = [(one, (weights or {}).get(one.name, 1)) for one in plugins if isinstance(one, ScorePlugin)]
        self._post_filters = [one for one in plugins if isinstance(one, PostFilterPlugin)]
        self._reserves = [one for one in plugins if isinstance(one, ReservePlugin)]
        self._permits = [one for one in plugins if isinstance(one, PermitPlugin)]
        self._asking = Asking(self._filters, [one for one, _ in self.scores])
        self._filters_of: dict[int, Sequence[FilterPlugin]] = {}
        self._says: dict[tuple[int, int], Say] = {}
        self._snapshot: Snapshot | None = None
        self._order: NameOrder
        self._rankings: dict[Key, Ranking] = {}
        self._divisions: dict[Key, Divided] = {}

    # --- the scheduling cycle -----------------------------------------------------------------------------------------

    def place(self, cycle: Cycle, *, explain: bool = True) -> Placed | Unplaced:
        """The best node; the pod's nominated one is tried alone first. Without `explain` an Unplaced carries no
        refusals by node and PostFilter is not asked."""
        asked = self._begin(cycle)
        filtering, stopped = asked.pre_filter(cycle)
        if stopped is not None:
            return self._post_filter(cycle, self._stopped(cycle, stopped)) if explain else self._stopped(cycle, stopped)
        nominated = cycle.pod.status.nominated_node_name
        if nominated:
            found = self._alone(cycle, nominated, filtering)
            if found is not None:
                return found
        scoring, failed = asked.pre_score(cycle)
        if failed is not None:
            return self._stopped(cycle, failed)
        key = self._best(cycle, asked, filtering, scoring)
        if key != REFUSED:
            row = self._order.row(key)
            return Placed(cycle.snapshot.rows.name(row) or "", row, key >> TIE_BITS)
        if not explain:
            return Unplaced(Verdict(Code.UNSCHEDULABLE), self._order.count)
        return self._post_filter(cycle, self._refused(cycle, filtering))

    def fits(self, cycle: Cycle, node: str) -> bool:
        """Whether every filter accepts this one node."""
        filtering, stopped = self._begin(cycle).pre_filter(cycle)
        return stopped is None and self._alone(cycle, node, filtering) is not None

    def is_overfull(self, cycle: Cycle, node: str, seat: SeatName | None = None) -> bool:
        """Whether the node of a pod that is counted there lacks something that the filters count. Who hopes for room
        that others are leaving has it then, and takes none from a pod until then; none at all from one in its seat. Nor
        does what is kept of that seat in case the pod does not come."""
        snapshot, amounts = cycle.snapshot, self.counted(cycle)
        row = snapshot.rows.find(node)
        if row is None or not snapshot.room.lacks(row, amounts):
            return row is None
        if seat is None and snapshot.room.lacks(row, amounts, after_leaving=True):
            return True
        with snapshot.without_hopes(node, seat):
            return snapshot.room.lacks(row, amounts)

    def counted(self, cycle: Cycle) -> Amounts:
        """What of a node's resources the filters count for a pod."""
        each = [plugin.demanded(cycle) for plugin in self._counting]
        return each[0] if len(each) == 1 else tuple(dict(sorted(chain.from_iterable(each))).items())

    def why_not(self, cycle: Cycle, node: str) -> str:
        """What keeps a pod from one node; empty if nothing does, and only then."""
        filtering, stopped = self._begin(cycle).pre_filter(cycle)
        if stopped is not None:
            return joined(stopped.reasons) or without_a_reason(stopped.plugin)
        row = cycle.snapshot.rows.find(node)
        if row is None or not cycle.snapshot.nodes.present[row]:
            return "there is no such node"
        left, refused = self._ask_all(cycle, filtering, np.array([row]))
        return "" if left.size else joined(sorted(counted(refused))) or without_a_reason(*refused)

    def acceptable(self, cycle: Cycle) -> RowIndex:
        """The rows that every filter accepts, for those who choose by other rules than scores."""
        filtering, stopped = self._begin(cycle).pre_filter(cycle)
        if stopped is not None:
            return np.zeros(0, np.intp)
        say = self._say(filtering, 0)
        ranking = self._ranking(cycle, say, filtering, 0)
        ranking.refresh(cycle)
        rows = np.flatnonzero(ranking.every() != REFUSED)
        return rows[accepts(cycle, say.cluster_filters, rows)] if say.cluster_filters else rows

    def suited(self, cycle: Cycle) -> Mask:
        """Of all rows, those that no filter refuses for what their Node is, whoever is on it or elsewhere."""
        filtering, _ = self._begin(cycle).pre_filter(cycle)
        every = cycle.snapshot.rows.every
        mask = cycle.snapshot.nodes.present[every].copy()
        lasting = [plugin for plugin in self._asked(filtering) if plugin.reach is Reach.NODE]
        return mask & accepts(cycle, lasting, every) if lasting else mask

    def hopeful(self, cycle: Cycle) -> tuple[RowIndex, Mask]:
        """The rows that no filter refuses for good, whoever leaves; and which of them none refuses now."""
        filtering, stopped = self._begin(cycle).pre_filter(cycle)
        rows = _every_node(cycle) if stopped is None else np.zeros(0, np.intp)
        accepted: Mask = np.ones(len(rows), np.bool_)
        hopeless: Mask = ~accepted
        for plugin in self._asked(filtering) if len(rows) else ():
            mask = plugin.filter(cycle, rows)
            accepted &= mask
            for one in plugin.refusals(cycle, rows) if not mask.all() else ():
                hopeless |= one.rows & ~mask & (not one.resolvable)
        return rows[~hopeless], accepted[~hopeless]

    def survey(self, cycle: Cycle, rows: RowIndex | None = None) -> Survey:
        """The answer of every node, or of those on some rows, for people who want to know more than the best one."""
        filtering, stopped = self._begin(cycle).pre_filter(cycle)
        if stopped is not None:
            return Survey((), {}, self._stopped(cycle, stopped).message)
        asked = _every_node(cycle) if rows is None else rows
        left, refused = self._ask_all(cycle, filtering, asked)
        names = sorted(cycle.snapshot.rows.name(row) or "" for row in left.tolist())
        return Survey(tuple(names), refused, "" if names else sentence(len(asked), counted(refused)))

    # --- after the caller has assumed the pod -------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        """Reserve in order; the first that does not succeed stops it. The caller then runs `unreserve`, once."""
        for plugin in self._reserves:
            verdict = plugin.reserve(cycle, node)
            if verdict.code is not Code.SUCCESS:
                return signed(verdict, plugin)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Every Unreserve in reverse, also of plugins whose Reserve never ran, and behind one that breaks: the first
        exception is raised when all have been asked."""
        broken: Exception | None = None
        for plugin in reversed(self._reserves):
            try:
                plugin.unreserve(cycle, node)
            except Exception as error:
                broken = broken or error
        if broken is not None:
            raise broken

    def permit(self, cycle: Cycle, node: str) -> Granted | Verdict:
        """All plugins are asked; a refusal or an error stops it."""
        if not self._permits:
            return GO
        waits: dict[str, float] = {}
        for plugin in self._permits:
            verdict, seconds = plugin.permit(cycle, node)
            if verdict.code is Code.WAIT:
                waits[plugin.name] = max(min(_LONGEST_WAIT, seconds), 0.0)  # what is no number is the longest
            elif verdict.code is not Code.SUCCESS:
                return signed(verdict, plugin)
        return Granted(waits) if waits else GO

    def _begin(self, cycle: Cycle) -> Questions:
        if cycle.snapshot is not self._snapshot:
            self._look_at(cycle.snapshot)
        self._order.refresh()
        return self._asking.of(cycle)

    # --- 2: one node alone --------------------------------------------------------------------------------------------

    def _alone(self, cycle: Cycle, node: str, filtering: int) -> Placed | None:
        row = cycle.snapshot.rows.find(node)
        if row is None or not cycle.snapshot.nodes.present[row]:
            return None
        return Placed(node, row, 0) if accepts_row(cycle, self._asked(filtering), row) else None

    # --- 3 to 5: the best of all --------------------------------------------------------------------------------------

    def _best(self, cycle: Cycle, asked: Questions, filtering: int, scoring: int) -> int:
        if cycle.pod_class.tenancy is not None:
            return self._best_of_tenant(cycle, asked, filtering, scoring)
        ranked = asked.ranked
        if ranked is None or ranked[0] != filtering or ranked[1] != scoring:
            say = self._say(filtering, scoring)
            ranked = asked.ranked = (filtering, scoring, say, self._ranking(cycle, say, filtering, scoring))
        return self._best_ranked(cycle, ranked[2], ranked[3])

    def _best_ranked(self, cycle: Cycle, say: Say, ranking: Ranking) -> int:
        ranking.refresh(cycle)
        best = ranking.best()
        if best == REFUSED:
            return REFUSED
        if not say.compared:
            filters = say.cluster_filters
            if not filters or (not ranking.is_screened and accepts_row(cycle, filters, self._order.row(best))):
                return best
            screen = screen_of(cycle, ranking, say)
            if screen is not None:
                return screen.best()
        cells = cells_of(cycle, ranking, say)
        if cells is not None:
            keys = cells.maxima[cells.maxima != REFUSED]
            return best_compared(cycle, ranking, say, keys, self._order.rows(keys))
        if say.compared:
            rows = np.flatnonzero(ranking.every() != REFUSED)
            return best_compared(cycle, ranking, say, ranking.keys[rows], rows)
        return self._best_accepted(cycle, ranking, say.cluster_filters)

    def _best_of_tenant(self, cycle: Cycle, asked: Questions, filtering: int, scoring: int) -> int:
        """While nodes are locked, pods that differ in their queue alone share a ranking, unless all rows that one of
        them may go to have to be looked at together."""
        divided = asked.divided
        if divided is None or divided[0] != filtering or divided[1] != scoring:
            say = self._say(filtering, scoring)
            if say.compared or say.cluster_filters or not any(one.by_tenancy for one in say.filters):
                return self._best_ranked(cycle, say, self._ranking(cycle, say, filtering, scoring))
            whoever = Cycle(cycle.pod, cycle.snapshot, cycle.now, cycle.pod_class.unlocked)
            divided = asked.divided = (filtering, scoring, whoever, self._divided(whoever, say, filtering, scoring))
        _, _, whoever, ranking = divided
        ranking.refresh(whoever)
        return ranking.best_for(cycle.pod_class.tenancy or "")

    def _best_accepted(self, cycle: Cycle, ranking: Ranking, filters: Sequence[FilterPlugin]) -> int:
        """The best block first; if another one can hold a better row, all rows that could be better."""
        every = cycle.snapshot.rows.every
        first = int(ranking.maxima.argmax()) * BLOCK
        best = best_of(cycle, ranking, filters, np.arange(first, min(first + BLOCK, every.stop)))
        if best != REFUSED and np.count_nonzero(ranking.maxima > best) == 1:
            return best
        better = ranking.every() > best
        few = np.count_nonzero(better) * _FEW < every.stop
        return max(best, best_of(cycle, ranking, filters, np.flatnonzero(better) if few else every))

    # --- 6: why not ---------------------------------------------------------------------------------------------------

    def _stopped(self, cycle: Cycle, verdict: Verdict) -> Unplaced:
        return Unplaced(verdict, self._order.count)

    def _refused(self, cycle: Cycle, filtering: int) -> Unplaced:
        _, refused = self._ask_all(cycle, filtering, _every_node(cycle))
        resolvable = any(one.resolvable for refusals in refused.values() for one in refusals)
        code = Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE
        return Unplaced(Verdict(code), self._order.count, refused)

    def _ask_all(self, cycle: Cycle, filtering: int, left: RowIndex) -> tuple[RowIndex, dict[str, list[Refusal]]]:
        """Ask the filters in order, each about the rows that all before it accepted: who is left, and why not."""
        asked = self._asked(filtering)
        refused: dict[str, list[Refusal]] = {}
        for plugin in asked:
            out = plugin.ruled_out(cycle, left)
            if out is not None:
                left = self._note(cycle, plugin, left, ~out, refused)
        for plugin in asked:
            left = self._note(cycle, plugin, left, plugin.filter(cycle, left), refused)
        return left, refused

    def _note(
        self, cycle: Cycle, plugin: FilterPlugin, rows: RowIndex, mask: Mask, refused: dict[str, list[Refusal]]
    ) -> RowIndex:
        """Write down why a plugin refuses the rows outside of the mask; the others are left."""
        if mask.all():
            return rows
        failing = rows[~mask]
        refusals = complete(plugin, plugin.refusals(cycle, failing), len(failing))
        spread = [self._over_all(cycle.snapshot, one, failing) for one in refusals]
        refused.setdefault(plugin.name, []).extend(one for one in spread if one.rows.any())
        return rows[mask]

    def _over_all(self, snapshot: Snapshot, refusal: Refusal, rows: RowIndex) -> Refusal:
        over: Mask = np.zeros(snapshot.rows.size, np.bool_)
        over[rows[refusal.rows]] = True
        return Refusal(refusal.reason, over, refusal.resolvable)

    def _post_filter(self, cycle: Cycle, unplaced: Unplaced) -> Unplaced:
        """Until one did something, failed, or says that nothing can be done."""
        if unplaced.verdict.code is Code.ERROR:
            return unplaced
        said: list[str] = []
        for plugin in self._post_filters:
            verdict, node = plugin.post_filter(cycle, unplaced.refusals)
            if node and cycle.snapshot.node(node) is None:
                verdict = error(f"nominated to node {node}, which does not exist")
            if verdict.code is Code.ERROR:
                return Unplaced(signed(verdict, plugin), unplaced.nodes)
            said += verdict.reasons
            if verdict.code is Code.SUCCESS:
                return msgspec.structs.replace(unplaced, tried=joined(said), nominated=node)
            if verdict.code is Code.UNRESOLVABLE:
                break
        return msgspec.structs.replace(unplaced, tried=joined(said)) if said else unplaced

    # ------------------------------------------------------------------------------------------------------------------

    def _look_at(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._order = NameOrder(snapshot)
        self._rankings.clear()
        self._divisions.clear()
        self._asking.clear()

    def _asked(self, filtering: int) -> Sequence[FilterPlugin]:
        """The filters that have a say, in order."""
        found = self._filters_of.get(filtering)
        if found is None:
            found = [plugin for number, plugin in enumerate(self._filters) if filtering >> number & 1]
            self._filters_of[filtering] = found
        return found

    def _say(self, filtering: int, scoring: int) -> Say:
        found = self._says.get((filtering, scoring))
        if found is None:
            filters = self._asked(filtering)
            scores = [pair for number, pair in enumerate(self.scores) if scoring >> number & 1]
            found = self._says[filtering, scoring] = Say(
                tuple(plugin for plugin in filters if plugin.reach is not Reach.CLUSTER),
                tuple(pair for pair in scores if not _is_compared(pair[0])),
                tuple(plugin for plugin in filters if plugin.reach is Reach.CLUSTER),
                tuple(pair for pair in scores if _is_compared(pair[0])),
            )
        return found

    def _ranking(self, cycle: Cycle, say: Say, filtering: int, scoring: int) -> Ranking:
        key = (cycle.pod_class.base, filtering, scoring)
        ranking = self._rankings.pop(key, None)
        if ranking is None:
            raw = [plugin for plugin, _ in say.compared if plugin.reach is not Reach.CLUSTER]
            ranking = Ranking(cycle.snapshot, self._order, say.filters, say.scores, raw)
        _keep(self._rankings, key, ranking)
        return ranking

    def _divided(self, cycle: Cycle, say: Say, filtering: int, scoring: int) -> Divided:
        key = (cycle.pod_class.base, filtering, scoring)
        ranking = self._divisions.pop(key, None)
        if ranking is None:
            ranking = Divided(cycle.snapshot, self._order, say.filters, say.scores)
        _keep(self._divisions, key, ranking)
        return ranking


def _keep(kept: dict[Key, R], key: Key, ranking: R) -> None:
    kept[key] = ranking
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _every_node(cycle: Cycle) -> RowIndex:
    return np.flatnonzero(cycle.snapshot.nodes.present[: cycle.snapshot.rows.size])


def _is_compared(plugin: ScorePlugin) -> bool:
    return plugin.reach is Reach.CLUSTER or overrides(plugin, ScorePlugin, "normalize")
