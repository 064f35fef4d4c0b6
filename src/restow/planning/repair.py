"""Repair: what is left of a plan once the cluster has changed.

Goes in: a snapshot, a plan that was made for another state of it, and what it is asked with now. Comes out: a plan that
can be carried out, every difference as a sentence, and whether it is still worth it.

    a pod that is gone, or may not move (any more)    stays, and so does whoever counted on its room
    a target that does not take its pod (any more)    another one, which costs the objective least; else the pod stays
    more pods at once than a budget lets go           a later wave
    a waiting pod that is gone, or placed             no place; of a gang, all of it has places or none
    moves that gain nothing without the others        are left out

Only plans with an objective get other targets: whoever plans by rules has chosen targets for reasons of its own. A plan
that is still valid is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from restow.model.snapshot import Snapshot
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.measures import pods_on_node, shape_amounts, count_slots, slots_by_row
from restow.planning.places import assign_places
from restow.planning.plan import Move, Place, Plan
from restow.planning.replay import PlanDefect, replay_plan
from restow.planning.plan_request import PlanRequest
from restow.planning.move_ordering import DesiredMove, order_moves

_ROUNDS: Final = 4
_CANDIDATES: Final = 16
"""How many targets at most are tried for a pod that needs another one."""
_NO_GAIN: Final = "it gains nothing without the others"
_TAKEN: Final = "others take the room there"
_WITH_OTHER_TARGETS: Final = ("free-nodes", "slots", "pending")


class RepairedPlan(msgspec.Struct, frozen=True):
    plan: Plan
    changes: tuple[PlanDefect, ...] = ()
    """What is different now; of a plan that was valid, nothing."""
    is_worthwhile: bool = True
    """Whether what is left still gains something."""


def repair_plan(snapshot: Snapshot, plan: Plan, request: PlanRequest, protected_nodes: Iterable[str] = ()) -> RepairedPlan:
    """The plan as it can be carried out now. No pod is newly sent to a node that is `spared`: the plan empties it, or
    gathers room on it. The snapshot is left as it was."""
    replayed = replay_plan(snapshot, plan, request)
    if replayed.valid:
        return RepairedPlan(plan)
    return _Repairing(snapshot, plan, request, frozenset(protected_nodes), replayed.defects).run()


class _Repairing:
    def __init__(
        self, snapshot: Snapshot, plan: Plan, request: PlanRequest, spared: frozenset[str], defects: Sequence[PlanDefect]
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._request = request
        self._why = {one.order: one.reason for one in reversed(defects) if one.order}
        self._why_not_placed = {(one.namespace, one.pod): one.reason for one in defects if not one.order and one.pod}
        self._too_many = {one.wave: one.reason for one in defects if not one.order and not one.pod}
        ends = {move.target for move in plan.moves} | {move.source for move in plan.moves}
        self._touched = sorted(ends | {place.node for place in plan.places})
        self._spared = spared | {move.source for move in plan.moves} | {place.node for place in plan.places}

    def run(self) -> RepairedPlan:
        wanted = self._reachable(self._survivors())
        wanted = self._useful(wanted)
        moves = self._sequenced(wanted)
        places = self._places(moves)
        plan = replace(self._plan, moves=self._renumbered(moves), places=places)
        return RepairedPlan(plan, tuple(self._changes(plan)), self._is_worthwhile(moves, places))

    # --- moves --------------------------------------------------------------------------------------------------------

    def _survivors(self) -> dict[str, str]:
        """Pods that are where a move would take them from and may move, by UID, and where they end."""
        known, found = self._snapshot.pods.known, dict[str, str]()
        for move in sorted(self._plan.moves, key=lambda move: move.order):
            one = known.get(move.uid)
            if one is not None and one.ledger == "requested" and not self._request.eviction_rules.refusal_reason(one.pod):
                found[move.uid] = move.target
        return {uid: target for uid, target in found.items() if known[uid].node != target}

    def _reachable(self, wanted: dict[str, str]) -> dict[str, str]:
        """The same with other targets for those who cannot reach theirs, and without those who can reach none."""
        for _ in range(_ROUNDS):
            moves = self._sequenced(wanted)
            missed = [uid for uid, target in wanted.items() if _ends(moves).get(uid) != target]
            if not missed:
                return wanted
            others = self._other_targets(moves, missed)
            wanted = {
                uid: others.get(uid, target) for uid, target in wanted.items() if uid in others or uid not in missed
            }
        ends = _ends(self._sequenced(wanted))
        return {uid: target for uid, target in wanted.items() if ends.get(uid) == target}

    def _sequenced(self, wanted: Mapping[str, str]) -> tuple[Move, ...]:
        asked = [DesiredMove(uid, target) for uid, target in wanted.items()]
        most = sum(move.uid in wanted for move in self._plan.moves)
        return order_moves(self._snapshot, self._request, asked, max_moves=most).moves

    def _other_targets(self, moves: Sequence[Move], missed: Sequence[str]) -> dict[str, str]:
        if self._plan.objective not in _WITH_OTHER_TARGETS:
            return {}
        found: dict[str, str] = {}
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as bookings:
            simulate_moves(bookings, moves)
            for uid in missed:
                target = self._other_target(bookings, uid)
                if target is not None:
                    bookings.reserve_target(uid, target)
                    found[uid] = target
        return found

    def _other_target(self, bookings: MoveSimulation, uid: str) -> str | None:
        """The node that costs the objective least; of those the one that is then the fullest."""
        occupant = bookings.occupant(uid)
        if occupant is None:
            return None
        left = slots_by_row(self._snapshot, occupant.shape.amounts)
        names = {self._snapshot.rows.name(row) or "": row for row in bookings.feasible_rows(uid).tolist()}
        taken = [name for name in names if name not in self._spared and pods_on_node(self._snapshot, name)]
        nearest = sorted(taken, key=lambda name: (int(left[names[name]]), name))[:_CANDIDATES]
        return max(nearest, key=lambda name: self._figure_with(bookings, uid, name), default=None)

    def _figure_with(self, bookings: MoveSimulation, uid: str, target: str) -> int:
        with bookings.trial():
            bookings.reserve_target(uid, target)
            return self._figure()

    def _useful(self, wanted: dict[str, str]) -> dict[str, str]:
        """The same without the moves off a node that can as well be left where they are, those named last first."""
        if self._plan.objective not in _WITH_OTHER_TARGETS:
            return wanted
        known = self._snapshot.pods.known
        moves = self._sequenced(wanted)
        best = self._value(moves)
        for source in self._doubtful(wanted, moves):
            fewer = {uid: target for uid, target in wanted.items() if known[uid].node != source}
            moves = self._sequenced(fewer)
            if len(_ends(moves)) == len(fewer) and self._value(moves) >= best:
                wanted = fewer
        return wanted

    def _doubtful(self, wanted: dict[str, str], moves: Sequence[Move]) -> list[str]:
        """Nodes that pods leave although they are not better off, or although not all goes as planned; last first."""
        planned = {move.uid: move.target for move in self._plan.moves}
        known = self._snapshot.pods.known
        changed = {uid for uid, target in planned.items() if wanted.get(uid) != target}
        nodes = {move.source for move in self._plan.moves if move.uid in changed}
        better = self._better_off(moves)
        sources = dict.fromkeys(known[uid].node for uid in reversed(wanted))
        return [name for name in sources if name in nodes or name not in better]

    def _better_off(self, moves: Sequence[Move]) -> set[str]:
        """The nodes on which the moves gain something."""
        if self._plan.objective == "pending":
            return {place.node for place in self._places(moves)}
        before = self._figures()
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as bookings:
            simulate_moves(bookings, moves)
            after = self._figures()
        return {name for name, figure in after.items() if figure > before[name]}

    def _figures(self) -> dict[str, int]:
        """What each node that the plan touches contributes."""
        if self._plan.objective == "slots":
            rows = slots_by_row(self._snapshot, shape_amounts(self._snapshot, self._plan.shape))
            found = ((name, self._snapshot.rows.find(name)) for name in self._touched)
            return {name: int(rows[row]) if row is not None else 0 for name, row in found}
        return {name: int(not pods_on_node(self._snapshot, name)) for name in self._touched}

    # --- places -------------------------------------------------------------------------------------------------------

    def _places(self, moves: Sequence[Move]) -> tuple[Place, ...]:
        """Where the waiting pods fit once the moves are done, on the planned nodes or on others."""
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as bookings:
            simulate_moves(bookings, moves)
            return assign_places(self._snapshot, self._request, self._plan.places, allow_other_nodes=True)

    # --- what it is worth ---------------------------------------------------------------------------------------------

    def _is_worthwhile(self, moves: Sequence[Move], places: Sequence[Place]) -> bool:
        if not moves or self._plan.objective not in _WITH_OTHER_TARGETS:
            return bool(moves)
        return bool(places or self._plan.objective != "pending") and self._value(moves) > self._value(())

    def _value(self, moves: Sequence[Move]) -> int:
        """How good the cluster is once the moves are done; comparable only within one plan."""
        if self._plan.objective == "pending":
            return len(self._places(moves))
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as bookings:
            simulate_moves(bookings, moves)
            return self._figure()

    def _figure(self) -> int:
        if self._plan.objective == "slots":
            return count_slots(self._snapshot, self._plan.shape)
        return sum(self._figures().values()) if self._plan.objective == "free-nodes" else 0

    # --- words --------------------------------------------------------------------------------------------------------

    def _renumbered(self, moves: Sequence[Move]) -> tuple[Move, ...]:
        """Moves keep their orders, by which their jobs are known; waves go on from where the plan stands."""
        first = min((move.wave for move in self._plan.moves), default=1)
        orders: dict[str, list[int]] = {}
        for move in sorted(self._plan.moves, key=lambda move: move.order):
            orders.setdefault(move.uid, []).append(move.order)
        spare = count(1 + max((move.order for move in self._plan.moves), default=0))
        made = []
        for move in reversed(moves):
            order = orders[move.uid].pop() if orders[move.uid] else next(spare)
            made.append(replace(move, order=order, wave=first + move.wave - 1))
        return tuple(reversed(made))

    def _changes(self, plan: Plan) -> Iterator[PlanDefect]:
        ends = _ends(plan.moves)
        for uid, move in {move.uid: move for move in self._plan.moves}.items():
            target, why = ends.get(uid), self._why.get(move.order)
            if target is None:
                yield PlanDefect.of_move(move, f"is left out: {why or _NO_GAIN}")
            elif target != move.target:
                yield PlanDefect.of_move(move, f"goes to {target} instead of {move.target}: {why or _TAKEN}")
        there = {(place.namespace, place.pod): place.node for place in plan.places}
        for place in self._plan.places:
            name = (place.namespace, place.pod)
            why = self._why_not_placed.get(name) or "others of its gang have no place"
            if name not in there:
                yield PlanDefect(0, 0, *name, f"gets no place: {why}")
            elif there[name] != place.node:
                yield PlanDefect(0, 0, *name, f"gets a place on {there[name]} instead of {place.node}: {why}")
        for wave, why in self._too_many.items():
            yield PlanDefect(0, wave, "", "", f"{why}: the others wait for a later wave")


def _ends(moves: Iterable[Move]) -> dict[str, str]:
    """Where each pod ends, by UID."""
    return {move.uid: move.target for move in moves}
