"""Orders moves in waves, so that the target of every move can be reserved before its pod leaves the old node.

Goes in: pods and the nodes they shall go to. Comes out: moves with their wave and order, and the moves that no order
makes possible, each with the reason. A move waits for a later wave
- while its target lacks resources that other pods have yet to free,
- while a filter of the scheduler refuses the target,
- while too many pods of one budget or workload would be moving at once.
So limits shape waves; they drop no move.

Where moves wait for each other in a ring (two pods that swap full nodes), one pod stops at a third node on its way,
which costs one move more. Without such a node the moves of the ring are dropped.

When the time is up, the moves ordered so far are the result, up to the first stop of a pod that has not reached its
target yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

import msgspec

from restow.model.snapshot import Snapshot
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.measures import slots_by_row
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Move, PlanRefusal
from restow.planning.plan_request import DisruptionLimit, PlanRequest


class DesiredMove(msgspec.Struct, frozen=True, gc=False):
    """A pod, by its UID, shall go to a node."""

    uid: str
    target: str


class OrderedMoves(msgspec.Struct, frozen=True):
    moves: tuple[Move, ...]
    dropped: tuple[PlanRefusal, ...] = ()
    """Pods that stay where they are, and why."""


def order_moves(
    snapshot: Snapshot,
    request: PlanRequest,
    desired: Iterable[DesiredMove],
    *,
    max_moves: int | None = None,
    is_late: DeadlineCheck = no_deadline,
) -> OrderedMoves:
    """Order moves, the first ones first where that is possible. There are at most `max_moves`, stops included."""
    desired = tuple(desired)
    spare = 0 if not request.allow_stops else len(desired) if max_moves is None else max_moves - len(desired)
    # 1. Start each move as soon as it can start. That is fast, but a small pod may take the room of a large one.
    eager = _without_useless_stops(snapshot, request, desired, spare, is_late, in_order=False)
    if not eager.dropped or is_late():
        return eager
    # 2. If that drops moves, keep strictly to the given order, and use the result that drops fewer.
    patient = _without_useless_stops(snapshot, request, desired, spare, is_late, in_order=True)
    return patient if len(patient.dropped) < len(eager.dropped) else eager


def _without_useless_stops(
    snapshot: Snapshot,
    request: PlanRequest,
    desired: Sequence[DesiredMove],
    spare: int,
    is_late: DeadlineCheck,
    *,
    in_order: bool,
) -> OrderedMoves:
    """The first attempt in which every pod that stops at a third node also reaches its target. A pod that does not is
    not allowed to stop in the next attempt; so there are at most as many attempts as pods."""
    no_stops_for: set[str] = set()
    while True:
        attempt = _Attempt(snapshot, request, desired, no_stops_for, spare)
        with attempt.simulation:
            result = attempt.run(is_late, in_order=in_order)
        if not attempt.stopped_for_nothing:
            return result
        no_stops_for |= attempt.stopped_for_nothing


class _Attempt:
    def __init__(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        desired: Sequence[DesiredMove],
        no_stops_for: Collection[str],
        spare: int,
    ) -> None:
        self.simulation = MoveSimulation(snapshot, request.engine, request.now)
        self.stopped_for_nothing: set[str] = set()
        """Pods that stopped at a third node and did not reach their target."""
        self._eviction_rules = request.eviction_rules
        self._desired = desired
        self._left = list(desired)
        self._no_stops_for = no_stops_for
        self._stopped: set[str] = set()
        self._spare = spare
        """How many stops the limit of moves still allows."""
        self._moves: list[Move] = []
        self._limits: dict[str, Sequence[DisruptionLimit]] = {}
        self._wave = 1

    def run(self, is_late: DeadlineCheck, *, in_order: bool) -> OrderedMoves:
        """With `in_order` no move starts before an earlier one that cannot start yet."""
        while self._left and not is_late():
            if not self._fill_wave(is_late, in_order) and not self._make_stop(is_late):
                break
            self.simulation.end_wave()
            self._wave += 1
        if is_late():
            return self._result_so_far()
        self.stopped_for_nothing = {move.uid for move in self._left} & self._stopped
        return OrderedMoves(tuple(self._moves), tuple(self._drop_refusal(move) for move in self._left))

    def _result_so_far(self) -> OrderedMoves:
        """The moves before the first stop of a pod that has not reached its target yet. Moves after that stop may rely
        on the room that the stop made."""
        on_the_way = {move.uid for move in self._left} & self._stopped
        moves = tuple(takewhile(lambda move: move.uid not in on_the_way, self._moves))
        arrived = {(move.uid, move.target) for move in moves}
        left = [move for move in self._desired if (move.uid, move.target) not in arrived]
        return OrderedMoves(moves, tuple(self._refusal(move, "the time limit was reached") for move in left))

    def _fill_wave(self, is_late: DeadlineCheck, in_order: bool) -> bool:
        """Start every move that can start now; False if none can."""
        moving: Counter[str] = Counter()
        waiting: list[DesiredMove] = []
        for number, move in enumerate(self._left):
            if is_late():
                waiting += self._left[number:]
                break
            limits = self._disruption_limits(move.uid)
            if any(moving[limit.name] >= limit.max_moving for limit in limits):
                waiting.append(move)
            elif self.simulation.has_room(move.uid, move.target) and not self._move_refusal(move):
                self._add_move(move.uid, move.target)
                moving.update(limit.name for limit in limits)
            elif in_order:
                waiting += self._left[number:]
                break
            else:
                waiting.append(move)
        started = len(waiting) < len(self._left)
        self._left = waiting
        return started

    def _make_stop(self, is_late: DeadlineCheck) -> bool:
        """Move one pod to a third node if its present node is the target of another move; False if no pod can."""
        moves_to = Counter(move.target for move in self._left)
        for move in self._left if self._spare > 0 else ():
            occupant = self.simulation.occupant(move.uid)
            if is_late():
                return False
            if occupant is None or move.uid in self._stopped or move.uid in self._no_stops_for:
                continue
            # A pod that already is on its target counts in `moves_to` itself: another move has to wait for the node.
            if moves_to[occupant.node] <= (move.target == occupant.node):
                continue
            node = self._third_node(move, moves_to)
            if node is not None:
                self._add_move(move.uid, node)
                self._stopped.add(move.uid)
                self._spare -= 1
                return True
        return False

    def _third_node(self, move: DesiredMove, targets: Collection[str]) -> str | None:
        """The node with most room for pods like this one that is not the target of another move."""
        snapshot, occupant = self.simulation.snapshot, self.simulation.occupant(move.uid)
        if occupant is None or any(limit.max_moving < 1 for limit in self._disruption_limits(move.uid)):
            return None
        rows = self.simulation.feasible_rows(move.uid)
        row_of = {snapshot.rows.name(row) or "": row for row in rows.tolist()}
        slots = slots_by_row(snapshot, occupant.shape.amounts)
        free = sorted(row_of.keys() - set(targets), key=lambda name: (-int(slots[row_of[name]]), name))
        return free[0] if free else None

    # ------------------------------------------------------------------------------------------------------------------

    def _add_move(self, uid: str, target: str) -> None:
        occupant = self.simulation.occupant(uid)
        if occupant is None:
            raise LookupError(f"no pod with the UID {uid} is on any node")
        metadata = occupant.pod.metadata
        self.simulation.reserve_target(uid, target)
        self._moves.append(
            Move(
                order=len(self._moves) + 1,
                wave=self._wave,
                namespace=metadata.namespace or "default",
                pod=metadata.name,
                source=occupant.node,
                target=target,
                uid=uid,
            )
        )

    def _move_refusal(self, move: DesiredMove) -> str:
        occupant = self.simulation.occupant(move.uid)
        if occupant is None:
            return "is on no node"
        if occupant.node == move.target:
            return f"is on {move.target} already"
        return self.simulation.move_refusal(move.uid, move.target)

    def _disruption_limits(self, uid: str) -> Sequence[DisruptionLimit]:
        limits = self._limits.get(uid)
        if limits is None:
            occupant = self.simulation.occupant(uid)
            limits = self._limits[uid] = self._eviction_rules.disruption_limits(occupant.pod) if occupant else ()
        return limits

    def _drop_refusal(self, move: DesiredMove) -> PlanRefusal:
        exhausted = next((limit.name for limit in self._disruption_limits(move.uid) if limit.max_moving < 1), None)
        return self._refusal(move, f"{exhausted} allows no disruption" if exhausted else self._move_refusal(move))

    def _refusal(self, move: DesiredMove, reason: str) -> PlanRefusal:
        occupant = self.simulation.occupant(move.uid)
        metadata = occupant.pod.metadata if occupant else None
        return PlanRefusal(
            namespace=(metadata.namespace or "default") if metadata else "",
            pod=metadata.name if metadata else move.uid,
            reason=f"cannot move to {move.target} in any order of moves: {reason}",
        )
