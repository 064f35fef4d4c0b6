"""Replays a plan: is it valid, step by step, as it would be carried out, by the scheduler's own filters?

Goes in: a snapshot, a plan from anywhere, and the request with its rules and limits. Comes out: every defect as one
sentence, with the move it belongs to. A move with a defect is not made; the moves after it are checked without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Self

import msgspec

from restow.model.cluster import Occupant
from restow.model.counted_nouns import counted_noun
from restow.model.pods import namespaced_name
from restow.model.snapshot import Snapshot
from restow.planning.move_simulation import MoveSimulation, shortage_message
from restow.planning.plan import Move, Place, Plan
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Cycle

PodName = tuple[str, str]
"""Namespace and name."""


class PlanDefect(msgspec.Struct, frozen=True):
    """One thing that is wrong with a plan, or that a repair changed in it. Order and wave are 0 where it is not about
    a single move."""

    order: int
    wave: int
    namespace: str
    pod: str
    reason: str

    @classmethod
    def of_move(cls, move: Move, reason: str) -> Self:
        return cls(move.order, move.wave, move.namespace, move.pod, reason)

    def __str__(self) -> str:
        """One sentence with the move and the pod it is about."""
        subject = f"{self.namespace}/{self.pod} " if self.pod else ""
        return f"move {self.order} of {subject}{self.reason}" if self.order else f"{subject}{self.reason}"


class ReplayResult(msgspec.Struct, frozen=True):
    valid: bool
    moves: int
    waves: int
    places: int
    defects: tuple[PlanDefect, ...]


def replay_plan(snapshot: Snapshot, plan: Plan, request: PlanRequest) -> ReplayResult:
    """Check a plan by carrying it out on the snapshot, which is left as it was."""
    with MoveSimulation(snapshot, request.engine, request.now) as simulation:
        replaying = _Replay(simulation, request)
        # The places are checked last: pending pods take the room that is free once all moves are done.
        defects = [*_order_defects(plan), *replaying.move_defects(plan), *replaying.place_defects(plan)]
    waves = len({move.wave for move in plan.moves})
    return ReplayResult(not defects, len(plan.moves), waves, len(plan.places), tuple(defects))


def _order_defects(plan: Plan) -> Iterator[PlanDefect]:
    """Orders count from 1 and are unique; a move of a later wave has a larger order."""
    seen: dict[int, Move] = {}
    latest: Move | None = None
    for move in sorted(plan.moves, key=lambda each: (each.wave, each.order)):
        if move.order < 1 or move.wave < 1:
            yield PlanDefect.of_move(move, f"order and wave count from 1, here they are {move.order} and {move.wave}")
        if move.order in seen:
            other = seen[move.order]
            yield PlanDefect.of_move(move, f"has the order {move.order}, as {other.namespace}/{other.pod} has")
        elif latest is not None and move.wave > latest.wave and move.order < latest.order:
            yield PlanDefect.of_move(
                move, f"is in wave {move.wave} and comes before move {latest.order}, which is in wave {latest.wave}"
            )
        seen.setdefault(move.order, move)
        latest = move if latest is None or move.order > latest.order else latest


class _Replay:
    def __init__(self, simulation: MoveSimulation, request: PlanRequest) -> None:
        self._snapshot = snapshot = simulation.snapshot
        self._request = request
        self._simulation = simulation
        self._uids = {namespaced_name(occupant.pod): uid for uid, occupant in snapshot.pods.known.items()}
        self._pending = {namespaced_name(pod): pod for pod in request.pending}

    def move_defects(self, plan: Plan) -> Iterator[PlanDefect]:
        for _, moves in plan.waves():
            moving: Counter[str] = Counter()
            limits: dict[str, int] = {}
            moved: set[PodName] = set()
            for move in moves:
                name = (move.namespace, move.pod)
                reason = "moves twice in one wave" if name in moved else self._move_refusal(move)
                if reason:
                    yield PlanDefect.of_move(move, reason)
                    continue
                moved.add(name)
                uid = self._uids[name]
                for limit in self._request.eviction_rules.disruption_limits(self._occupant(uid).pod):
                    moving[limit.name] += 1
                    limits[limit.name] = limit.max_moving
                self._simulation.reserve_target(uid, move.target)
            yield from _limit_defects(moves[0].wave, moving, limits)
            self._simulation.end_wave()

    def place_defects(self, plan: Plan) -> Iterator[PlanDefect]:
        placed: set[PodName] = set()
        for place in plan.places:
            name = (place.namespace, place.pod)
            reason = "is placed twice" if name in placed else self._place_refusal(place)
            placed.add(name)
            if reason:
                yield PlanDefect(0, 0, place.namespace, place.pod, reason)
            else:
                self._snapshot.assume(self._pending[name], place.node, at=self._request.now)

    # ------------------------------------------------------------------------------------------------------------------

    def _move_refusal(self, move: Move) -> str:
        uid = self._uids.get((move.namespace, move.pod))
        if uid is None:
            return "there is no such pod on any node"
        if move.uid and move.uid != uid:
            return f"has the UID {uid}, the plan was made for {move.uid}"
        occupant = self._occupant(uid)
        if occupant.node != move.source:
            return f"is on {occupant.node}, not on {move.source}"
        if self._snapshot.node(move.target) is None:
            return f"cannot go to {move.target}: there is no such node"
        if move.target == move.source:
            return f"is on {move.target} already"
        # The rules of eviction hold for the pod as it is now. After its first move the occupant is its successor.
        protected = self._request.eviction_rules.refusal_reason(occupant.pod) if occupant.key == uid else ""
        if protected:
            return f"may not move: {protected}"
        refused = self._simulation.move_refusal(uid, move.target)
        return f"cannot go to {move.target}: {refused}" if refused else ""

    def _place_refusal(self, place: Place) -> str:
        name = (place.namespace, place.pod)
        pod = self._pending.get(name)
        if pod is None:
            occupant = self._simulation.occupant(self._uids.get(name, ""))
            return f"is on {occupant.node}, not pending" if occupant else "there is no such pending pod"
        cycle = Cycle(pod, self._snapshot, self._request.now)
        refused = self._request.engine.why_node_refuses(cycle, place.node)
        if not refused:
            return ""
        shortage = shortage_message(self._snapshot, cycle.pod_class.shape, place.node)
        return f"cannot be placed on {place.node}: {shortage or refused}"

    def _occupant(self, uid: str) -> Occupant:
        occupant = self._simulation.occupant(uid)
        if occupant is None:
            raise LookupError(f"the pod with the UID {uid} was lost on the way")
        return occupant


def _limit_defects(wave: int, moving: Counter[str], limits: dict[str, int]) -> Iterator[PlanDefect]:
    """Budgets and workloads of which a wave moves more pods at once than they allow."""
    for name in sorted(moving):
        if moving[name] > limits[name]:
            reason = (
                f"wave {wave} moves {counted_noun(moving[name], 'pod')} of {name}, which allows {limits[name]} at once"
            )
            yield PlanDefect(0, wave, "", "", reason)
