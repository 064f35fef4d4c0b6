"""One cycle of a profile: its plugins one after the other, on one snapshot.

Goes in: a profile, a snapshot, a request, and the pods that are over. Comes out: one plan with the moves of all
plugins, and the pods to remove. What one plugin plans is booked before the next is asked, so that nobody plans on a
hole that is taken, and everybody sees the cluster as it will be. Every plugin's plan is replayed first; a plugin whose
plan does not hold, or that breaks, is left out and named.

Limits are of a whole cycle. Moves beyond them are taken out, and the rest is put in order anew. A pod moves once in a
cycle: its successor is a pod that nobody knows yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.model.counted_nouns import counted_noun
from restow.planning.cycle_limits import MoveCounter
from restow.planning.descheduling.framework import Guard, Planner, Removal, Remover
from restow.planning.descheduling.policy import DeschedulerProfile
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.planning.measures import cluster_overview
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.places import assign_places
from restow.planning.plan import Move, Plan, Refusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import DisruptionLimit, PlanRequest
from restow.planning.replay import replay_plan
from restow.planning.strategies import InvalidPlan


class CycleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    planner_of: Mapping[str, str] = {}
    """By UID of a pod that moves: the plugin that wants it."""
    removals: tuple[Removal, ...] = ()
    remover_of: Mapping[str, str] = {}
    failures: Mapping[str, str] = {}
    """By plugin: what went wrong with it."""
    seconds: Mapping[str, float] = {}
    """By plugin: how long it took."""


class GuardedEvictionRules(msgspec.Struct, frozen=True):
    """The rules of eviction, with what the evictors of a profile and migrations under way have to say besides."""

    rules: ConfiguredEvictionRules
    guards: tuple[Guard, ...] = ()
    busy: Mapping[str, str] = {}
    """By UID of a pod that is not to be touched now: why."""

    def is_ours(self, pod: Pod) -> bool:
        return self.rules.is_ours(pod)

    def refusal_reason(self, pod: Pod) -> str:
        busy = self.busy.get(pod.metadata.uid, "")
        return busy or self.rules.refusal_reason(pod) or self._guarded(pod)

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        return self.rules.disruption_limits(pod)

    def _guarded(self, pod: Pod) -> str:
        if not self.guards:
            return ""
        around = self.rules.eviction_context(pod)
        return next((why for guard in self.guards if (why := guard.refusal_reason(pod, around))), "")


_NO_PLUGIN: Final = (
    "the profile enables no plugin: name some under plugins.deschedule.enabled or plugins.balance.enabled"
)


def run_cycle(
    profile: DeschedulerProfile, snapshot: Snapshot, request: PlanRequest, ended: Iterable[Pod] = ()
) -> CycleOutcome:
    """Ask every plugin. The snapshot is left as it was."""
    cycle = _Cycle(profile, snapshot, request)
    with cycle.bookings:
        for planner in profile.planners:
            cycle.ask(planner.name, partial(cycle.plan, planner))
    for remover in profile.removers:
        cycle.ask(remover.name, partial(cycle.remove, remover, tuple(ended)))
    return cycle.outcome()


class _Cycle:
    def __init__(self, profile: DeschedulerProfile, snapshot: Snapshot, request: PlanRequest) -> None:
        self.bookings = MoveSimulation(snapshot, request.engine, request.now)
        self._profile = profile
        self._snapshot = snapshot
        self._request = request
        self._most = request.max_moves if profile.limits.total is None else profile.limits.total
        self._tally = MoveCounter(profile.limits)
        self._plans: list[Plan] = []
        self._planners: dict[str, str] = {}
        self._removals: dict[str, Removal] = {}
        self._removers: dict[str, str] = {}
        self._unremoved: list[Refusal] = []
        self._failures: dict[str, str] = {}
        self._seconds: dict[str, float] = {}

    def ask(self, name: str, question: Callable[[], None]) -> None:
        """Ask one plugin; what goes wrong with it is its own misfortune."""
        began, mark = self._request.clock(), self._snapshot.mark()
        try:
            question()
            self._snapshot.keep(mark)
        except Exception as problem:
            self._snapshot.undo_to(mark)
            self._failures[name] = str(problem) or type(problem).__name__
        self._seconds[name] = round(self._request.clock() - began, 3)

    # --- moves --------------------------------------------------------------------------------------------------------

    def plan(self, planner: Planner) -> None:
        request = self._asked(planner.name)
        made = planner.plan(self._snapshot, request)
        replayed = replay_plan(self._snapshot, made, request)
        if not replayed.valid:
            raise InvalidPlan(f"{planner.name}: {replayed.defects[0]}")
        kept = self._within_limits(made, request)
        simulate_moves(self.bookings, kept.moves)
        kept = replace(kept, places=assign_places(self._snapshot, request, kept.places))
        self._plans.append(kept)
        self._planners |= {move.uid: planner.name for move in kept.moves}

    def _asked(self, name: str) -> PlanRequest:
        left = max(self._most - len(self._planners) - len(self._removals), 0)
        use = self._request.measured_usage
        placed = self._snapshot.pods.known
        return replace(
            self._request,
            pending=tuple(pod for pod in self._request.pending if pod.metadata.uid not in placed),
            arguments=self._profile.arguments.get(name, {}),
            max_moves=left,
            measured_usage=use.after_moves(move for plan in self._plans for move in plan.moves) if use else None,
            move_counter=self._tally,
            allow_stops=False,
        )

    def _within_limits(self, made: Plan, request: PlanRequest) -> Plan:
        """The plan without moves beyond the limits, and without stops on the way."""
        targets = {move.uid: move.target for move in made.moves}
        refusals: list[Refusal] = []
        wanted: list[DesiredMove] = []
        for move in made.moves:
            if move.uid not in targets:
                continue
            if why := self._tally.limit_reached(move.namespace, move.source):
                refusals.append(Refusal(namespace=move.namespace, pod=move.pod, reason=why))
            else:
                self._tally.count_move(move.namespace, move.source)
                wanted.append(DesiredMove(move.uid, targets[move.uid]))
            del targets[move.uid]
        if len(wanted) == len(made.moves):
            return made
        ordered = order_moves(self._snapshot, request, wanted, max_moves=len(wanted))
        return replace(made, moves=ordered.moves, refusals=(*made.refusals, *refusals, *ordered.dropped))

    # --- removals -----------------------------------------------------------------------------------------------------

    def remove(self, remover: Remover, ended: Iterable[Pod]) -> None:
        request = self._asked(remover.name)
        for one in remover.choose(ended, request):
            meta = one.pod.metadata
            if meta.uid in self._removals:
                continue
            where = meta.namespace or "default", one.pod.spec.node_name or ""
            why = request.eviction_rules.refusal_reason(one.pod) or self._beyond() or self._tally.limit_reached(*where)
            if why:
                self._unremoved.append(Refusal(namespace=where[0], pod=meta.name, reason=why))
                continue
            self._tally.count_move(*where)
            self._removals[meta.uid] = one
            self._removers[meta.uid] = remover.name

    def _beyond(self) -> str:
        """Why there are to be no more removals; empty if there may be."""
        if len(self._planners) + len(self._removals) < self._most:
            return ""
        return f"a cycle moves and removes {counted_noun(self._most, 'pod')} at most"

    # ------------------------------------------------------------------------------------------------------------------

    def outcome(self) -> CycleOutcome:
        plan = self._joined()
        return CycleOutcome(
            plan=replace(plan, refusals=(*plan.refusals, *self._unremoved)),
            planner_of=self._planners,
            removals=tuple(self._removals.values()),
            remover_of=self._removers,
            failures=self._failures,
            seconds=self._seconds,
        )

    def _joined(self) -> Plan:
        """The moves of all plugins as one plan, wave after wave."""
        if len(self._plans) == 1:
            return self._plans[0]
        moves = tuple(self._renumbered())
        places = tuple(place for plan in self._plans for place in plan.places)
        return Plan(
            strategy=self._profile.name,
            moves=moves,
            places=places,
            before=cluster_overview(self._snapshot),
            after=measures_after(self._snapshot, self._request, moves, cluster_overview, places),
            refusals=tuple(self._refusals()),
            versions=object_versions(self._snapshot, moves, places),
        )

    def _renumbered(self) -> Iterator[Move]:
        order = wave = 0
        for plan in self._plans:
            for number, moves in plan.waves():
                for move in moves:
                    order += 1
                    yield replace(move, order=order, wave=wave + number)
            wave += max((move.wave for move in plan.moves), default=0)

    def _refusals(self) -> Iterator[Refusal]:
        """What plugins said of pods that no other plugin moves; the same thing once."""
        if not self._profile.planners and not self._profile.removers:
            return iter((Refusal(namespace="", pod="", reason=_NO_PLUGIN),))
        moving = {(move.namespace, move.pod) for plan in self._plans for move in plan.moves}
        told = dict.fromkeys(one for plan in self._plans for one in plan.refusals)
        return (one for one in told if (one.namespace, one.pod) not in moving)
