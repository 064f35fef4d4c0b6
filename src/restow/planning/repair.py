"""Repairs a plan after the cluster has changed: what can still be carried out, and is it still worth it?

Goes in: a snapshot, a plan that was made for an earlier state of the cluster, and a request as of now. Comes out: a
plan that can be carried out, every change as one sentence, and whether the rest still gains something.

    what has changed                                  what becomes of it
    a pod is gone, or may no longer move              no move for it, nor for pods that need its room
    a target no longer has room for its pod           another target, the one that costs the objective least; or no move
    a budget allows fewer pods at once                a later wave
    a pending pod is gone, or has a node              no place for it; a gang has places for all its pods, or none
    a move gains nothing without the others           no move

Only plans with an objective get other targets. A strategy that plans by rules chose its targets by those rules. A plan
that is still valid stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from restow.model.cluster import Occupant
from restow.model.snapshot import Snapshot
from restow.planning.measures import count_slots, pods_on_node, shape_amounts, slots_by_row
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.places import assign_places
from restow.planning.plan import Move, Place, Plan
from restow.planning.plan_request import PlanRequest
from restow.planning.replay import PlanDefect, replay_plan

_ROUNDS: Final = 4
"""How often other targets are looked for at most; another target may take the room that a third pod needs."""
_TRIED_TARGETS: Final = 16
"""How many other targets are tried at most for one pod."""
_NO_GAIN: Final = "it gains nothing without the other moves"
_ROOM_TAKEN: Final = "other pods take the room there"
_WITH_OTHER_TARGETS: Final = ("free-nodes", "slots", "pending")


class RepairedPlan(msgspec.Struct, frozen=True):
    plan: Plan
    changes: tuple[PlanDefect, ...] = ()
    """The differences to the original plan; none if it was valid."""
    is_worthwhile: bool = True
    """Whether the plan still gains something."""


def repair_plan(
    snapshot: Snapshot, plan: Plan, request: PlanRequest, protected_nodes: Iterable[str] = ()
) -> RepairedPlan:
    """The plan as it can be carried out now. No pod gets one of the `protected_nodes` as a new target: the plan empties
    them or gathers room on them. The snapshot is left as it was."""
    replayed = replay_plan(snapshot, plan, request)
    if replayed.valid:
        return RepairedPlan(plan)
    return _PlanRepair(snapshot, plan, request, frozenset(protected_nodes), replayed.defects).run()


class _PlanRepair:
    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        request: PlanRequest,
        protected_nodes: frozenset[str],
        defects: Sequence[PlanDefect],
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._request = request
        # reversed: of several defects of one move, the first one is the reason
        self._move_reasons = {defect.order: defect.reason for defect in reversed(defects) if defect.order}
        self._place_reasons = {
            (defect.namespace, defect.pod): defect.reason for defect in defects if not defect.order and defect.pod
        }
        self._wave_reasons = {defect.wave: defect.reason for defect in defects if not defect.order and not defect.pod}
        sources, targets = ({move.source for move in plan.moves}, {move.target for move in plan.moves})
        place_nodes = {place.node for place in plan.places}
        self._plan_nodes = sorted(sources | targets | place_nodes)
        self._protected_nodes = protected_nodes | sources | place_nodes

    def run(self) -> RepairedPlan:
        # 1. Keep the moves of pods that may still move, with other targets where theirs have no room.
        targets = self._reachable_targets(self._remaining_targets())
        # 2. Drop the moves that gain nothing now.
        targets = self._useful_targets(targets)
        # 3. Put the rest in order, and see which pending pods then find room.
        moves = self._order(targets)
        places = self._places_after(moves)
        plan = replace(self._plan, moves=self._renumbered(moves), places=places)
        return RepairedPlan(plan, tuple(self._changes(plan)), self._is_worthwhile(moves, places))

    # --- moves --------------------------------------------------------------------------------------------------------

    def _remaining_targets(self) -> dict[str, str]:
        """By UID: the last target of each pod that may still move and is not there yet."""
        known, targets = self._snapshot.pods.known, dict[str, str]()
        for move in sorted(self._plan.moves, key=lambda move: move.order):
            pod = known.get(move.uid)
            if pod is not None and pod.ledger == "requested" and not self._refusal_reason(pod):
                targets[move.uid] = move.target
        return {uid: target for uid, target in targets.items() if known[uid].node != target}

    def _refusal_reason(self, pod: Occupant) -> str:
        return self._request.eviction_rules.refusal_reason(pod.pod)

    def _reachable_targets(self, targets: dict[str, str]) -> dict[str, str]:
        """The same, with other targets for pods that cannot reach theirs, and without pods that can reach none."""
        for _ in range(_ROUNDS):
            moves = self._order(targets)
            missed = [uid for uid, target in targets.items() if _final_targets(moves).get(uid) != target]
            if not missed:
                return targets
            others = self._other_targets(moves, missed)
            targets = {
                uid: others.get(uid, target) for uid, target in targets.items() if uid in others or uid not in missed
            }
        reached = _final_targets(self._order(targets))
        return {uid: target for uid, target in targets.items() if reached.get(uid) == target}

    def _order(self, targets: Mapping[str, str]) -> tuple[Move, ...]:
        desired = [DesiredMove(uid, target) for uid, target in targets.items()]
        # A repaired plan may have as many moves for these pods as the plan had: repairs do not raise the number.
        max_moves = sum(move.uid in targets for move in self._plan.moves)
        return order_moves(self._snapshot, self._request, desired, max_moves=max_moves).moves

    def _other_targets(self, moves: Sequence[Move], missed: Sequence[str]) -> dict[str, str]:
        if self._plan.objective not in _WITH_OTHER_TARGETS:
            return {}
        targets: dict[str, str] = {}
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as simulation:
            simulate_moves(simulation, moves)
            for uid in missed:
                target = self._other_target(simulation, uid)
                if target is not None:
                    simulation.reserve_target(uid, target)
                    targets[uid] = target
        return targets

    def _other_target(self, simulation: MoveSimulation, uid: str) -> str | None:
        """The node that costs the objective least; of equal ones the fullest. Never a node without pods: a free node is
        what the plan wants to gain."""
        occupant = simulation.occupant(uid)
        if occupant is None:
            return None
        slots = slots_by_row(self._snapshot, occupant.shape.amounts)
        row_of = {self._snapshot.rows.name(row) or "": row for row in simulation.feasible_rows(uid).tolist()}
        used = [name for name in row_of if name not in self._protected_nodes and pods_on_node(self._snapshot, name)]
        fullest = sorted(used, key=lambda name: (int(slots[row_of[name]]), name))[:_TRIED_TARGETS]
        return max(fullest, key=lambda name: self._objective_with(simulation, uid, name), default=None)

    def _objective_with(self, simulation: MoveSimulation, uid: str, target: str) -> int:
        with simulation.trial():
            simulation.reserve_target(uid, target)
            return self._objective()

    def _useful_targets(self, targets: dict[str, str]) -> dict[str, str]:
        """The same without the moves off a node that gain nothing; the last ones of the plan are tried first."""
        if self._plan.objective not in _WITH_OTHER_TARGETS:
            return targets
        known = self._snapshot.pods.known
        moves = self._order(targets)
        best = self._objective_after(moves)
        for source in self._doubtful_sources(targets, moves):
            fewer = {uid: target for uid, target in targets.items() if known[uid].node != source}
            moves = self._order(fewer)
            if len(_final_targets(moves)) == len(fewer) and self._objective_after(moves) >= best:
                targets = fewer
        return targets

    def _doubtful_sources(self, targets: dict[str, str], moves: Sequence[Move]) -> list[str]:
        """Sources that gain nothing by the moves, or have moves that have changed; the last ones first."""
        planned = {move.uid: move.target for move in self._plan.moves}
        known = self._snapshot.pods.known
        changed = {uid for uid, target in planned.items() if targets.get(uid) != target}
        changed_sources = {move.source for move in self._plan.moves if move.uid in changed}
        improved = self._improved_nodes(moves)
        sources = dict.fromkeys(known[uid].node for uid in reversed(targets))
        return [name for name in sources if name in changed_sources or name not in improved]

    def _improved_nodes(self, moves: Sequence[Move]) -> set[str]:
        """The nodes that contribute more to the objective after the moves."""
        if self._plan.objective == "pending":
            return {place.node for place in self._places_after(moves)}
        before = self._contributions()
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as simulation:
            simulate_moves(simulation, moves)
            after = self._contributions()
        return {name for name, contribution in after.items() if contribution > before[name]}

    def _contributions(self) -> dict[str, int]:
        """What each node of the plan contributes to the objective."""
        if self._plan.objective == "slots":
            slots = slots_by_row(self._snapshot, shape_amounts(self._snapshot, self._plan.shape))
            rows = ((name, self._snapshot.rows.find_row(name)) for name in self._plan_nodes)
            return {name: int(slots[row]) if row is not None else 0 for name, row in rows}
        return {name: int(not pods_on_node(self._snapshot, name)) for name in self._plan_nodes}

    # --- places -------------------------------------------------------------------------------------------------------

    def _places_after(self, moves: Sequence[Move]) -> tuple[Place, ...]:
        """Where the pending pods fit once the moves are done, on the planned nodes or on others."""
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as simulation:
            simulate_moves(simulation, moves)
            return assign_places(self._snapshot, self._request, self._plan.places, allow_other_nodes=True)

    # --- the objective ------------------------------------------------------------------------------------------------

    def _is_worthwhile(self, moves: Sequence[Move], places: Sequence[Place]) -> bool:
        if not moves or self._plan.objective not in _WITH_OTHER_TARGETS:
            return bool(moves)
        gains = self._objective_after(moves) > self._objective_after(())
        return bool(places or self._plan.objective != "pending") and gains

    def _objective_after(self, moves: Sequence[Move]) -> int:
        """The objective once the moves are done; comparable within one plan only."""
        if self._plan.objective == "pending":
            return len(self._places_after(moves))
        with MoveSimulation(self._snapshot, self._request.engine, self._request.now) as simulation:
            simulate_moves(simulation, moves)
            return self._objective()

    def _objective(self) -> int:
        if self._plan.objective == "slots":
            return count_slots(self._snapshot, self._plan.shape)
        return sum(self._contributions().values()) if self._plan.objective == "free-nodes" else 0

    # --- the result ---------------------------------------------------------------------------------------------------

    def _renumbered(self, moves: Sequence[Move]) -> tuple[Move, ...]:
        """The moves with the orders they had in the plan, because their jobs are named by them. Waves go on counting
        from the first wave of the plan."""
        first_wave = min((move.wave for move in self._plan.moves), default=1)
        orders: dict[str, list[int]] = {}
        for move in sorted(self._plan.moves, key=lambda move: move.order):
            orders.setdefault(move.uid, []).append(move.order)
        new_orders = count(1 + max((move.order for move in self._plan.moves), default=0))
        renumbered = []
        # From the end: of a pod that stopped on its way, the last move keeps the last order.
        for move in reversed(moves):
            order = orders[move.uid].pop() if orders[move.uid] else next(new_orders)
            renumbered.append(replace(move, order=order, wave=first_wave + move.wave - 1))
        return tuple(reversed(renumbered))

    def _changes(self, plan: Plan) -> Iterator[PlanDefect]:
        targets = _final_targets(plan.moves)
        for uid, move in {move.uid: move for move in self._plan.moves}.items():
            target, reason = targets.get(uid), self._move_reasons.get(move.order)
            if target is None:
                yield PlanDefect.of_move(move, f"is left out: {reason or _NO_GAIN}")
            elif target != move.target:
                yield PlanDefect.of_move(move, f"goes to {target} instead of {move.target}: {reason or _ROOM_TAKEN}")
        nodes = {(place.namespace, place.pod): place.node for place in plan.places}
        for place in self._plan.places:
            name = (place.namespace, place.pod)
            reason = self._place_reasons.get(name) or "other pods of its gang have no place"
            if name not in nodes:
                yield PlanDefect(0, 0, *name, f"gets no place: {reason}")
            elif nodes[name] != place.node:
                yield PlanDefect(0, 0, *name, f"gets a place on {nodes[name]} instead of {place.node}: {reason}")
        for wave, reason in self._wave_reasons.items():
            yield PlanDefect(0, wave, "", "", f"{reason}: the others wait for a later wave")


def _final_targets(moves: Iterable[Move]) -> dict[str, str]:
    """By UID: the last target of each pod."""
    return {move.uid: move.target for move in moves}
