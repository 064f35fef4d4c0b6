"""One cycle of a profile: its plugins, one after the other, on one snapshot.

Goes in: a profile, a snapshot, a request, and the finished pods. Comes out: one plan with the moves of all plugins, and
the pods to remove. The moves of a plugin are simulated before the next plugin plans, so that no two plugins use the
same room. Each plan is replayed first: a plugin with an invalid plan, or that raises, is left out and named.

Limits hold for the whole cycle. Moves beyond them are dropped, and the rest is put in order again. A pod moves once in
a cycle: its successor does not exist yet, so it cannot be moved on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from restow.model.counted_nouns import counted_noun
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.planning.cycle_limits import MoveCounter
from restow.planning.descheduling.framework import Guard, Planner, PodRemoval, Remover
from restow.planning.descheduling.policy import DeschedulerProfile
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.planning.measures import cluster_overview
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.places import assign_places
from restow.planning.plan import Move, Plan, PlanRefusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import DisruptionLimit, PlanRequest
from restow.planning.replay import replay_plan
from restow.planning.strategies import InvalidPlan


class CycleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    planner_of: Mapping[str, str] = {}
    """By UID of a pod that moves: the plugin that moves it."""
    removals: tuple[PodRemoval, ...] = ()
    remover_of: Mapping[str, str] = {}
    """By UID of a pod to remove: the plugin that removes it."""
    failures: Mapping[str, str] = {}
    """By plugin: why it was left out."""
    seconds: Mapping[str, float] = {}
    """By plugin: how long it took."""


class GuardedEvictionRules(msgspec.Struct, frozen=True):
    """The rules of eviction, together with the guards of a profile and with the pods that are being migrated."""

    rules: ConfiguredEvictionRules
    guards: tuple[Guard, ...] = ()
    busy_pods: Mapping[str, str] = {}
    """By UID of a pod that must not be planned now: why."""

    def is_ours(self, pod: Pod) -> bool:
        return self.rules.is_ours(pod)

    def refusal_reason(self, pod: Pod) -> str:
        busy = self.busy_pods.get(pod.metadata.uid, "")
        return busy or self.rules.refusal_reason(pod) or self._guard_reason(pod)

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        return self.rules.disruption_limits(pod)

    def _guard_reason(self, pod: Pod) -> str:
        if not self.guards:
            return ""
        context = self.rules.eviction_context(pod)
        reasons = (guard.refusal_reason(pod, context) for guard in self.guards)
        return next((reason for reason in reasons if reason), "")


_NO_PLUGIN: Final = (
    "the profile enables no plugin: name some under plugins.deschedule.enabled or plugins.balance.enabled"
)


def run_cycle(
    profile: DeschedulerProfile, snapshot: Snapshot, request: PlanRequest, finished: Iterable[Pod] = ()
) -> CycleOutcome:
    """Run every plugin of a profile. The snapshot is left as it was."""
    cycle = _ProfileCycle(profile, snapshot, request)
    with cycle.simulation:
        for planner in profile.planners:
            cycle.run_plugin(planner.name, partial(cycle.plan_moves, planner))
    for remover in profile.removers:
        cycle.run_plugin(remover.name, partial(cycle.plan_removals, remover, tuple(finished)))
    return cycle.outcome()


class _ProfileCycle:
    def __init__(self, profile: DeschedulerProfile, snapshot: Snapshot, request: PlanRequest) -> None:
        self.simulation = MoveSimulation(snapshot, request.engine, request.now)
        self._profile = profile
        self._snapshot = snapshot
        self._request = request
        self._max_total = request.max_moves if profile.limits.total is None else profile.limits.total
        self._counter = MoveCounter(profile.limits)
        self._plans: list[Plan] = []
        self._planner_of: dict[str, str] = {}
        self._removals: dict[str, PodRemoval] = {}
        self._remover_of: dict[str, str] = {}
        self._removal_refusals: list[PlanRefusal] = []
        self._failures: dict[str, str] = {}
        self._seconds: dict[str, float] = {}

    def run_plugin(self, name: str, run: Callable[[], None]) -> None:
        """Run one plugin. If it raises, its changes to the snapshot are undone, and the others go on."""
        began, mark = self._request.clock(), self._snapshot.mark()
        try:
            run()
            self._snapshot.keep(mark)
        except Exception as error:
            self._snapshot.undo_to(mark)
            self._failures[name] = str(error) or type(error).__name__
        self._seconds[name] = round(self._request.clock() - began, 3)

    # --- moves --------------------------------------------------------------------------------------------------------

    def plan_moves(self, planner: Planner) -> None:
        # 1. Let the plugin plan, and check its plan as that of a stranger.
        request = self._plugin_request(planner.name)
        plan = planner.plan(self._snapshot, request)
        replayed = replay_plan(self._snapshot, plan, request)
        if not replayed.valid:
            raise InvalidPlan(f"{planner.name}: {replayed.defects[0]}")
        # 2. Drop what is beyond the limits of the cycle.
        plan = self._within_limits(plan, request)
        # 3. Simulate its moves and places, so that the next plugin sees the cluster after them.
        simulate_moves(self.simulation, plan.moves)
        plan = replace(plan, places=assign_places(self._snapshot, request, plan.places))
        self._plans.append(plan)
        self._planner_of |= {move.uid: planner.name for move in plan.moves}

    def _plugin_request(self, name: str) -> PlanRequest:
        """The request for a plugin, after the plugins before it."""
        usage = self._request.measured_usage
        bound = self._snapshot.pods.known
        return replace(
            self._request,
            pending=tuple(pod for pod in self._request.pending if pod.metadata.uid not in bound),
            arguments=self._profile.arguments.get(name, {}),
            max_moves=max(self._max_total - len(self._planner_of) - len(self._removals), 0),
            measured_usage=usage.after_moves(move for plan in self._plans for move in plan.moves) if usage else None,
            move_counter=self._counter,
            allow_stops=False,
        )

    def _within_limits(self, plan: Plan, request: PlanRequest) -> Plan:
        """The plan without moves beyond the limits of the cycle, and without stops on the way: every pod moves once,
        straight to its last target."""
        last_targets = {move.uid: move.target for move in plan.moves}
        refusals: list[PlanRefusal] = []
        desired: list[DesiredMove] = []
        for move in plan.moves:
            target = last_targets.pop(move.uid, None)
            if target is None:  # a later move of the same pod
                continue
            if reason := self._counter.limit_reached(move.namespace, move.source):
                refusals.append(PlanRefusal(namespace=move.namespace, pod=move.pod, reason=reason))
            else:
                self._counter.count_move(move.namespace, move.source)
                desired.append(DesiredMove(move.uid, target))
        if len(desired) == len(plan.moves):
            return plan
        ordered = order_moves(self._snapshot, request, desired, max_moves=len(desired))
        return replace(plan, moves=ordered.moves, refusals=(*plan.refusals, *refusals, *ordered.dropped))

    # --- removals -----------------------------------------------------------------------------------------------------

    def plan_removals(self, remover: Remover, finished: Iterable[Pod]) -> None:
        request = self._plugin_request(remover.name)
        for removal in remover.choose(finished, request):
            meta = removal.pod.metadata
            if meta.uid in self._removals:
                continue
            namespace, node = meta.namespace or "default", removal.pod.spec.node_name or ""
            reason = (
                request.eviction_rules.refusal_reason(removal.pod)
                or self._total_reached()
                or self._counter.limit_reached(namespace, node)
            )
            if reason:
                self._removal_refusals.append(PlanRefusal(namespace=namespace, pod=meta.name, reason=reason))
                continue
            self._counter.count_move(namespace, node)
            self._removals[meta.uid] = removal
            self._remover_of[meta.uid] = remover.name

    def _total_reached(self) -> str:
        """Why no more pods may be removed in this cycle; empty if more may."""
        if len(self._planner_of) + len(self._removals) < self._max_total:
            return ""
        return f"a cycle moves and removes {counted_noun(self._max_total, 'pod')} at most"

    # --- the outcome --------------------------------------------------------------------------------------------------

    def outcome(self) -> CycleOutcome:
        plan = self._joined_plan()
        return CycleOutcome(
            plan=replace(plan, refusals=(*plan.refusals, *self._removal_refusals)),
            planner_of=self._planner_of,
            removals=tuple(self._removals.values()),
            remover_of=self._remover_of,
            failures=self._failures,
            seconds=self._seconds,
        )

    def _joined_plan(self) -> Plan:
        """The moves of all plugins as one plan, wave after wave."""
        if len(self._plans) == 1:
            return self._plans[0]
        moves = tuple(self._renumbered_moves())
        places = tuple(place for plan in self._plans for place in plan.places)
        return Plan(
            strategy=self._profile.name,
            moves=moves,
            places=places,
            before=cluster_overview(self._snapshot),
            after=measures_after(self._snapshot, self._request, moves, cluster_overview, places),
            refusals=tuple(self._joined_refusals()),
            versions=object_versions(self._snapshot, moves, places),
        )

    def _renumbered_moves(self) -> Iterator[Move]:
        """The moves of all plans, with consecutive numbers: the waves of a plan come after those of the plan before."""
        order = waves_before = 0
        for plan in self._plans:
            for number, moves in plan.waves():
                for move in moves:
                    order += 1
                    yield replace(move, order=order, wave=waves_before + number)
            waves_before += max((move.wave for move in plan.moves), default=0)

    def _joined_refusals(self) -> Iterator[PlanRefusal]:
        """The refusals of pods that no plugin moves, without repetitions."""
        if not self._profile.planners and not self._profile.removers:
            return iter((PlanRefusal(namespace="", pod="", reason=_NO_PLUGIN),))
        moving = {(move.namespace, move.pod) for plan in self._plans for move in plan.moves}
        refusals = dict.fromkeys(refusal for plan in self._plans for refusal in plan.refusals)
        return (refusal for refusal in refusals if (refusal.namespace, refusal.pod) not in moving)
