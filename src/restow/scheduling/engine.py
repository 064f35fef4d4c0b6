"""The story of one pod's scheduling cycle: which node is best for it, or why there is none.

Goes in: the plugins in order, with weights, and a `Cycle`. Comes out: `NodeFound` or `NoNodeFound`, both values;
nothing is changed. Then, once the caller has assumed the pod: `reserve`, `permit`, and `unreserve` after any failure.

    1  PreFilter     each plugin once: skip, go on, or refuse (`ranking.skip_cache`)
    2  the nominated node, if there is one, alone and with every filter
    3  Filter and Score of NODE and ROW plugins: a `Ranking` per class of pods, updated for the rows that changed
    4  Filter of CLUSTER plugins: the best rows first, as many as needed
    5  scores of CLUSTER plugins and of plugins with NormalizeScore: all rows that are left
    6  no row left: every node's first refusal (`node_diagnosis`), then PostFilter

The package `ranking` does 3 to 5; its docstring says which cache applies when. Codes mean what they mean in
kube-scheduler: UNRESOLVABLE from PreFilter ends the cycle at once, UNSCHEDULABLE is remembered while the other
PreFilters still run, an ERROR ends it as an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.model.cluster.resource_columns import Amounts
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.accelerated import ClassFilter, ResourceFilter
from restow.scheduling.explain import count_reasons, fit_error_message, join_reasons, unexplained_refusal
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
    ReservePlugin,
    ScorePlugin,
    Verdict,
    error,
)
from restow.scheduling.node_diagnosis import diagnose_rows, present_rows
from restow.scheduling.ranking.key_blocks import REFUSED
from restow.scheduling.ranking.rankings import Rankings
from restow.scheduling.ranking.score_cache import TIE_BITS
from restow.scheduling.ranking.selection import filter_rows
from restow.scheduling.ranking.skip_cache import ClassSkips, with_plugin_name
from restow.scheduling.schedule_result import PERMITTED, Diagnosis, NodeFound, NoNodeFound, PermitResult

_LONGEST_WAIT = 15 * 60.0


class Engine:
    """Runs the plugins. It remembers rankings for the snapshot it saw last, and nothing else."""

    def __init__(self, plugins: Sequence[Plugin], weights: Mapping[str, int] | None = None) -> None:
        self.plugins = tuple(plugins)
        self.sort = next((plugin for plugin in plugins if isinstance(plugin, QueueSortPlugin)), None)
        """The plugin that decides the order of the queue, if there is one."""
        self.scores = [
            (plugin, (weights or {}).get(plugin.name, 1)) for plugin in plugins if isinstance(plugin, ScorePlugin)
        ]
        self._resource_filters = [plugin for plugin in plugins if isinstance(plugin, ResourceFilter)]
        self._post_filters = [plugin for plugin in plugins if isinstance(plugin, PostFilterPlugin)]
        self._reserves = [plugin for plugin in plugins if isinstance(plugin, ReservePlugin)]
        self._permits = [plugin for plugin in plugins if isinstance(plugin, PermitPlugin)]
        filters = [plugin for plugin in plugins if isinstance(plugin, FilterPlugin)]
        cluster_filters = [plugin for plugin in filters if plugin.reach is Reach.CLUSTER]
        self.per_pod_filters = frozenset(
            cluster_filter.name for cluster_filter in cluster_filters if not isinstance(cluster_filter, ClassFilter)
        )
        """The plugins that may refuse one pod of a class and accept another."""
        self._rankings = Rankings(filters, self.scores)

    # --- the scheduling cycle -----------------------------------------------------------------------------------------

    def find_node(self, cycle: Cycle, *, explain: bool = True) -> NodeFound | NoNodeFound:
        """The best node; the pod's nominated one is tried alone first. Without `explain` a `NoNodeFound` carries no
        refusals by node and PostFilter does not run."""
        # 1. PreFilter.
        rankings = self._rankings
        skips = rankings.begin(cycle)
        filtering, stopped = skips.pre_filter(cycle)
        if stopped is not None:
            unplaced = NoNodeFound(stopped, rankings.order.count)
            return self._post_filter(cycle, unplaced) if explain else unplaced
        # 2. The nominated node: as in kube-scheduler it is not compared with others.
        nominated = cycle.pod.status.nominated_node_name
        if nominated:
            node_found = self._place_on(cycle, nominated, filtering)
            if node_found is not None:
                return node_found
        # 3. to 5. PreScore, then the best row of all.
        scoring, failed = skips.pre_score(cycle)
        if failed is not None:
            return NoNodeFound(failed, rankings.order.count)
        key = rankings.best_key(cycle, skips, filtering, scoring)
        if key != REFUSED:
            row = rankings.order.row(key)
            return NodeFound(cycle.snapshot.rows.name(row) or "", row, key >> TIE_BITS)
        # 6. Why not, and whether a PostFilter can do anything about it.
        if not explain:
            return NoNodeFound(Verdict(Code.UNSCHEDULABLE), rankings.order.count)
        return self._post_filter(cycle, self._refused_everywhere(cycle, filtering))

    def fits(self, cycle: Cycle, node: str) -> bool:
        """Whether every filter accepts this one node."""
        filtering, stopped = self._pre_filter(cycle)
        return stopped is None and self._place_on(cycle, node, filtering) is not None

    def why_node_refuses(self, cycle: Cycle, node: str) -> str:
        """What keeps a pod from one node; empty if nothing does, and only then."""
        filtering, stopped = self._pre_filter(cycle)
        if stopped is not None:
            return join_reasons(stopped.reasons) or unexplained_refusal(stopped.plugin)
        row = cycle.snapshot.rows.find_row(node)
        if row is None or not cycle.snapshot.nodes.present[row]:
            return "there is no such node"
        left, refused = diagnose_rows(cycle, self._rankings.filters(filtering), np.array([row]))
        return "" if left.size else join_reasons(sorted(count_reasons(refused))) or unexplained_refusal(*refused)

    def diagnose(self, cycle: Cycle, rows: RowIndex | None = None) -> Diagnosis:
        """The answer of every node, or of the nodes on some rows."""
        filtering, stopped = self._pre_filter(cycle)
        if stopped is not None:
            return Diagnosis((), {}, NoNodeFound(stopped, self._rankings.order.count).message)
        asked = present_rows(cycle) if rows is None else rows
        left, refused = diagnose_rows(cycle, self._rankings.filters(filtering), asked)
        names = sorted(cycle.snapshot.rows.name(row) or "" for row in left.tolist())
        return Diagnosis(tuple(names), refused, "" if names else fit_error_message(len(asked), count_reasons(refused)))

    # --- sets of rows -------------------------------------------------------------------------------------------------

    def feasible_rows(self, cycle: Cycle) -> RowIndex:
        """The rows that every filter accepts, for callers that choose by other rules than scores."""
        filtering, stopped = self._pre_filter(cycle)
        return self._rankings.feasible_rows(cycle, filtering) if stopped is None else np.zeros(0, np.intp)

    def statically_feasible(self, cycle: Cycle) -> Mask:
        """Of all rows, those that no NODE filter refuses: what their Node objects are would let the pod run there,
        whatever pods are on the nodes."""
        filtering, _ = self._pre_filter(cycle)
        every = cycle.snapshot.rows.every
        mask = cycle.snapshot.nodes.present[every].copy()
        node_filters = [plugin for plugin in self._rankings.filters(filtering) if plugin.reach is Reach.NODE]
        return mask & filter_rows(cycle, node_filters, every) if node_filters else mask

    def resolvable_rows(self, cycle: Cycle) -> tuple[RowIndex, Mask]:
        """The rows that no filter calls unresolvable, so that pods leaving could help; and a mask over these of those
        that no filter refuses now."""
        filtering, stopped = self._pre_filter(cycle)
        rows = present_rows(cycle) if stopped is None else np.zeros(0, np.intp)
        accepted: Mask = np.ones(len(rows), np.bool_)
        unresolvable: Mask = ~accepted
        for plugin in self._rankings.filters(filtering) if len(rows) else ():
            mask = plugin.filter(cycle, rows)
            accepted &= mask
            for refusal in plugin.refusals(cycle, rows) if not mask.all() else ():
                unresolvable |= refusal.rows & ~mask & (not refusal.resolvable)
        return rows[~unresolvable], accepted[~unresolvable]

    # --- resources ----------------------------------------------------------------------------------------------------

    def counted_resources(self, cycle: Cycle) -> Amounts:
        """How much of each resource of a node the filters count for a pod."""
        each = [plugin.counted_resources(cycle) for plugin in self._resource_filters]
        return each[0] if len(each) == 1 else tuple(dict(sorted(chain.from_iterable(each))).items())

    def is_overcommitted(self, cycle: Cycle, node: str, seat: SeatName | None = None) -> bool:
        """Whether the node of a pod that is assumed there lacks anything that the filters count for the pod.

        Unguaranteed seats hope for room that other pods are leaving. They are not counted against a pod until that room
        is free, and never against the pod that takes `seat`; nor is what is kept of that seat in case the pod does not
        come."""
        snapshot, amounts = cycle.snapshot, self.counted_resources(cycle)
        row = snapshot.rows.find_row(node)
        if row is None or not snapshot.room.lacks(row, amounts):
            return row is None
        if seat is None and snapshot.room.lacks(row, amounts, after_leaving=True):
            return True
        with snapshot.without_unguaranteed_seats(node, seat):
            return snapshot.room.lacks(row, amounts)

    # --- after the caller has assumed the pod -------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        """Reserve in order; the first that does not succeed stops it. The caller then runs `unreserve`, once."""
        for plugin in self._reserves:
            verdict = plugin.reserve(cycle, node)
            if verdict.code is not Code.SUCCESS:
                return with_plugin_name(verdict, plugin)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Every Unreserve in reverse, also of plugins whose Reserve never ran, and behind one that breaks: the first
        exception is raised when all have run."""
        broken: Exception | None = None
        for plugin in reversed(self._reserves):
            try:
                plugin.unreserve(cycle, node)
            except Exception as error:
                broken = broken or error
        if broken is not None:
            raise broken

    def permit(self, cycle: Cycle, node: str) -> PermitResult | Verdict:
        """Permit of all plugins; a refusal or an error stops it."""
        if not self._permits:
            return PERMITTED
        waits: dict[str, float] = {}
        for plugin in self._permits:
            verdict, seconds = plugin.permit(cycle, node)
            if verdict.code is Code.WAIT:
                waits[plugin.name] = max(min(_LONGEST_WAIT, seconds), 0.0)  # NaN becomes the longest
            elif verdict.code is not Code.SUCCESS:
                return with_plugin_name(verdict, plugin)
        return PermitResult(waits) if waits else PERMITTED

    # ------------------------------------------------------------------------------------------------------------------

    def _pre_filter(self, cycle: Cycle) -> tuple[int, Verdict | None]:
        """The active filters as bits; or the verdict that stops the cycle."""
        skips: ClassSkips = self._rankings.begin(cycle)
        return skips.pre_filter(cycle)

    def _place_on(self, cycle: Cycle, node: str, filtering: int) -> NodeFound | None:
        """The node, if it exists and every active filter accepts it."""
        row = cycle.snapshot.rows.find_row(node)
        if row is None or not cycle.snapshot.nodes.present[row]:
            return None
        return NodeFound(node, row, 0) if self._rankings.accepts_row(cycle, filtering, row) else None

    def _refused_everywhere(self, cycle: Cycle, filtering: int) -> NoNodeFound:
        _, refused = diagnose_rows(cycle, self._rankings.filters(filtering), present_rows(cycle))
        resolvable = any(refusal.resolvable for refusals in refused.values() for refusal in refusals)
        code = Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE
        return NoNodeFound(Verdict(code), self._rankings.order.count, refused)

    def _post_filter(self, cycle: Cycle, unplaced: NoNodeFound) -> NoNodeFound:
        """PostFilter in order, until one did something, failed, or says that nothing can be done."""
        if unplaced.verdict.code is Code.ERROR:
            return unplaced
        reasons: list[str] = []
        for plugin in self._post_filters:
            verdict, node = plugin.post_filter(cycle, unplaced.refusals)
            if node and cycle.snapshot.node(node) is None:
                verdict = error(f"nominated to node {node}, which does not exist")
            if verdict.code is Code.ERROR:
                return NoNodeFound(with_plugin_name(verdict, plugin), unplaced.node_count)
            reasons += verdict.reasons
            if verdict.code is Code.SUCCESS:
                return msgspec.structs.replace(unplaced, post_filter_message=join_reasons(reasons), nominated=node)
            if verdict.code is Code.UNRESOLVABLE:
                break
        return msgspec.structs.replace(unplaced, post_filter_message=join_reasons(reasons)) if reasons else unplaced
