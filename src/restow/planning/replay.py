"""Replay: is this plan valid? Step by step, as it would be carried out, through the scheduler's own filters.

Goes in: a snapshot, a plan (of whatever origin) and what it was asked with. Comes out: every defect as a sentence, with
the move it belongs to. A move that is found wrong is not made, and the rest is looked at as if it were not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Self

import msgspec

from restow.model.cluster import Occupant, Snapshot
from restow.model.pods import full_name
from restow.model.words import number_of
from restow.planning.bookings import Bookings
from restow.planning.plan import Move, Place, Plan
from restow.planning.request import Request

Name = tuple[str, str]


class Defect(msgspec.Struct, frozen=True):
    """One thing that is wrong with a plan; order and wave are 0 where no single move is to blame."""

    order: int
    wave: int
    namespace: str
    pod: str
    reason: str

    @classmethod
    def of(cls, move: Move, reason: str) -> Self:
        return cls(move.order, move.wave, move.namespace, move.pod, reason)

    def __str__(self) -> str:
        """It, or what was done about it, in one sentence."""
        whom = f"{self.namespace}/{self.pod} " if self.pod else ""
        return f"move {self.order} of {whom}{self.reason}" if self.order else f"{whom}{self.reason}"


class Replay(msgspec.Struct, frozen=True):
    valid: bool
    moves: int
    waves: int
    places: int
    defects: tuple[Defect, ...]


def replay(snapshot: Snapshot, plan: Plan, request: Request) -> Replay:
    """Carry a plan out on the snapshot, which is left as it was."""
    with Bookings(snapshot, request.engine, request.now) as bookings:
        replaying = _Replaying(bookings, request)
        defects = [*_order_defects(plan), *replaying.moves(plan), *replaying.places(plan)]
    waves = len({move.wave for move in plan.moves})
    return Replay(not defects, len(plan.moves), waves, len(plan.places), tuple(defects))


def _order_defects(plan: Plan) -> Iterator[Defect]:
    """Orders are from 1 and unique; a move of a later wave has a larger one."""
    seen: dict[int, Move] = {}
    latest: Move | None = None
    for move in sorted(plan.moves, key=lambda each: (each.wave, each.order)):
        if move.order < 1 or move.wave < 1:
            yield Defect.of(move, f"order and wave count from 1, here they are {move.order} and {move.wave}")
        if move.order in seen:
            other = seen[move.order]
            yield Defect.of(move, f"has the order {move.order}, as {other.namespace}/{other.pod} has")
        elif latest is not None and move.wave > latest.wave and move.order < latest.order:
            yield Defect.of(
                move, f"is in wave {move.wave} and comes before move {latest.order}, which is in wave {latest.wave}"
            )
        seen.setdefault(move.order, move)
        latest = move if latest is None or move.order > latest.order else latest


class _Replaying:
    def __init__(self, bookings: Bookings, request: Request) -> None:
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._bookings = bookings
        self._uids = {full_name(one.pod): uid for uid, one in snapshot.pods.known.items()}
        self._pending = {full_name(pod): pod for pod in request.pending}

    def moves(self, plan: Plan) -> Iterator[Defect]:
        for _, moves in plan.waves():
            under_way: Counter[str] = Counter()
            allowed: dict[str, int] = {}
            moved: set[Name] = set()
            for move in moves:
                name = (move.namespace, move.pod)
                reason = "moves twice in one wave" if name in moved else self._why_not(move)
                if reason:
                    yield Defect.of(move, reason)
                    continue
                moved.add(name)
                uid = self._uids[name]
                for allowance in self._request.mobility.allowances(self._on(uid).pod):
                    under_way[allowance.name] += 1
                    allowed[allowance.name] = allowance.most
                self._bookings.hold(uid, move.target)
            yield from _too_many(moves[0].wave, under_way, allowed)
            self._bookings.end_wave()

    def places(self, plan: Plan) -> Iterator[Defect]:
        """Pending pods take the room that is left once all moves are done."""
        taken: set[Name] = set()
        for place in plan.places:
            name = (place.namespace, place.pod)
            reason = "is placed twice" if name in taken else self._why_not_there(place)
            taken.add(name)
            if reason:
                yield Defect(0, 0, place.namespace, place.pod, reason)
            else:
                pod = self._pending[name]
                self._snapshot.assume(pod, place.node, at=self._request.now)

    # ------------------------------------------------------------------------------------------------------------------

    def _why_not(self, move: Move) -> str:
        uid = self._uids.get((move.namespace, move.pod))
        if uid is None:
            return "there is no such pod on any node"
        if move.uid and move.uid != uid:
            return f"has the UID {uid}, the plan was made for {move.uid}"
        occupant = self._on(uid)
        if occupant.node != move.source:
            return f"is on {occupant.node}, not on {move.source}"
        if self._snapshot.node(move.target) is None:
            return f"cannot go to {move.target}: there is no such node"
        if move.target == move.source:
            return f"is on {move.target} already"
        protected = self._request.mobility.why_not(occupant.pod) if occupant.key == uid else ""
        if protected:
            return f"may not move: {protected}"
        refused = self._bookings.why_not(uid, move.target)
        return f"cannot go to {move.target}: {refused}" if refused else ""

    def _why_not_there(self, place: Place) -> str:
        name = (place.namespace, place.pod)
        pod = self._pending.get(name)
        if pod is None:
            on = self._bookings.occupant(self._uids.get(name, ""))
            return f"is on {on.node}, not pending" if on else "there is no such pending pod"
        refused = self._bookings.why_not_placed(pod, place.node)
        return f"cannot be placed on {place.node}: {refused}" if refused else ""

    def _on(self, uid: str) -> Occupant:
        occupant = self._bookings.occupant(uid)
        if occupant is None:
            raise LookupError(f"the pod with the UID {uid} was lost on the way")
        return occupant


def _too_many(wave: int, under_way: Counter[str], allowed: dict[str, int]) -> Iterator[Defect]:
    for name in sorted(under_way):
        if under_way[name] > allowed[name]:
            moved = number_of(under_way[name], "pod")
            reason = f"wave {wave} moves {moved} of {name}, which lets {allowed[name]} go at once"
            yield Defect(0, wave, "", "", reason)
