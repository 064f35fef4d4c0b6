"""The sequence: moves in waves, such that every pod finds its new seat held before it leaves the old one.

Goes in: who shall go where. Comes out: moves with their wave and order, and those that no order makes possible, with
the reason. A move waits for a later wave while its target lacks room that others are still to leave, while a filter
of the scheduler refuses it, or while too many pods of one budget or workload would be on the move at once: limits shape
waves and drop no move.

Where everybody waits for everybody (two pods that swap full nodes), one pod makes a stop at a third place, which costs
one move more; without such a place the moves of that ring are dropped.

When time is up, what is in order so far stands, but for stops that have not led anywhere and all that came after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

import msgspec

from restow.model.cluster import Snapshot
from restow.planning.bookings import Bookings
from restow.planning.lateness import Late, never
from restow.planning.measures import slots_by_row
from restow.planning.plan import Move, Refusal
from restow.planning.request import Allowance, Request


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """A pod, by its UID, shall go to a node."""

    uid: str
    target: str


class Sequenced(msgspec.Struct, frozen=True):
    moves: tuple[Move, ...]
    dropped: tuple[Refusal, ...] = ()
    """Pods that stay where they are, and why."""


def sequence(
    snapshot: Snapshot, request: Request, wanted: Iterable[Wanted], *, most: int | None = None, late: Late = never
) -> Sequenced:
    """Order moves, those named first preferably first. `most` limits how many there may be, stops included."""
    wanted = tuple(wanted)
    spare = 0 if not request.stops else len(wanted) if most is None else most - len(wanted)
    eager = _settled(snapshot, request, wanted, spare, late, in_order=False)
    if not eager.dropped or late():
        return eager
    patient = _settled(snapshot, request, wanted, spare, late, in_order=True)
    return patient if len(patient.dropped) < len(eager.dropped) else eager


def _settled(
    snapshot: Snapshot, request: Request, wanted: Sequence[Wanted], spare: int, late: Late, *, in_order: bool
) -> Sequenced:
    """The first attempt in which every stop led somewhere."""
    stranded: set[str] = set()
    while True:
        attempt = _Attempt(snapshot, request, wanted, stranded, spare)
        with attempt.bookings:
            result = attempt.run(late, in_order=in_order)
        if not attempt.stranded:
            return result
        stranded |= attempt.stranded


class _Attempt:
    def __init__(
        self, snapshot: Snapshot, request: Request, wanted: Sequence[Wanted], unstoppable: Collection[str], spare: int
    ) -> None:
        self.bookings = Bookings(snapshot, request.engine, request.now)
        self.stranded: set[str] = set()
        """Pods that made a stop and never reached their target."""
        self._mobility = request.mobility
        self._wanted = wanted
        self._left = list(wanted)
        self._unstoppable = unstoppable
        self._stopped: set[str] = set()
        self._spare = spare
        self._moves: list[Move] = []
        self._drawn_on: dict[str, Sequence[Allowance]] = {}
        self._wave = 1

    def run(self, late: Late, *, in_order: bool) -> Sequenced:
        """With `in_order` no move starts before one that was named earlier and lacks a seat."""
        while self._left and not late():
            if not self._fill_wave(late, in_order) and not self._make_stop(late):
                break
            self.bookings.end_wave()
            self._wave += 1
        if late():
            return self._cut_short()
        self.stranded = {one.uid for one in self._left} & self._stopped
        return Sequenced(tuple(self._moves), tuple(self._why_dropped(one) for one in self._left))

    def _cut_short(self) -> Sequenced:
        """The moves before the first stop that has not led anywhere yet."""
        under_way = {one.uid for one in self._left} & self._stopped
        moves = tuple(takewhile(lambda move: move.uid not in under_way, self._moves))
        arrived = {(move.uid, move.target) for move in moves}
        left = [one for one in self._wanted if (one.uid, one.target) not in arrived]
        return Sequenced(moves, tuple(self._refused(one, "there was no time to look for one") for one in left))

    def _fill_wave(self, late: Late, in_order: bool) -> bool:
        """Start every move that can start now; False if none can."""
        under_way: Counter[str] = Counter()
        waiting: list[Wanted] = []
        for number, one in enumerate(self._left):
            if late():
                waiting += self._left[number:]
                break
            allowances = self._allowances(one.uid)
            if any(under_way[each.name] >= each.most for each in allowances):
                waiting.append(one)
            elif self.bookings.has_room(one.uid, one.target) and not self._why_not(one):
                self._book(one.uid, one.target)
                under_way.update(each.name for each in allowances)
            elif in_order:
                waiting += self._left[number:]
                break
            else:
                waiting.append(one)
        started = len(waiting) < len(self._left)
        self._left = waiting
        return started

    def _make_stop(self, late: Late) -> bool:
        """Move one pod, whose node somebody waits for, out of the way; False if that is possible for none."""
        awaited = Counter(one.target for one in self._left)
        for one in self._left if self._spare > 0 else ():
            occupant = self.bookings.occupant(one.uid)
            if late():
                return False
            if occupant is None or one.uid in self._stopped or one.uid in self._unstoppable:
                continue
            if awaited[occupant.node] <= (one.target == occupant.node):
                continue
            third = self._third_place(one, awaited)
            if third is not None:
                self._book(one.uid, third)
                self._stopped.add(one.uid)
                self._spare -= 1
                return True
        return False

    def _third_place(self, one: Wanted, awaited: Collection[str]) -> str | None:
        """Where the pod is least in the way: the node with most room for its kind that nobody waits for."""
        snapshot, occupant = self.bookings.snapshot, self.bookings.occupant(one.uid)
        if occupant is None or any(each.most < 1 for each in self._allowances(one.uid)):
            return None
        rows = self.bookings.choices(one.uid)
        names = {snapshot.rows.name(row) or "": row for row in rows.tolist()}
        slots = slots_by_row(snapshot, occupant.shape.amounts)
        free = sorted(names.keys() - set(awaited), key=lambda name: (-int(slots[names[name]]), name))
        return free[0] if free else None

    # ------------------------------------------------------------------------------------------------------------------

    def _book(self, uid: str, target: str) -> None:
        occupant = self.bookings.occupant(uid)
        if occupant is None:
            raise LookupError(f"no pod with the UID {uid} is on any node")
        metadata = occupant.pod.metadata
        self.bookings.hold(uid, target)
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

    def _why_not(self, one: Wanted) -> str:
        occupant = self.bookings.occupant(one.uid)
        if occupant is None:
            return "is on no node"
        if occupant.node == one.target:
            return f"is on {one.target} already"
        return self.bookings.why_not(one.uid, one.target)

    def _allowances(self, uid: str) -> Sequence[Allowance]:
        found = self._drawn_on.get(uid)
        if found is None:
            occupant = self.bookings.occupant(uid)
            found = self._drawn_on[uid] = self._mobility.allowances(occupant.pod) if occupant else ()
        return found

    def _why_dropped(self, one: Wanted) -> Refusal:
        none = next((each.name for each in self._allowances(one.uid) if each.most < 1), None)
        return self._refused(one, f"{none} lets none of its pods go" if none else self._why_not(one))

    def _refused(self, one: Wanted, why: str) -> Refusal:
        occupant = self.bookings.occupant(one.uid)
        metadata = occupant.pod.metadata if occupant else None
        return Refusal(
            namespace=(metadata.namespace or "default") if metadata else "",
            pod=metadata.name if metadata else one.uid,
            reason=f"no order of moves brings it to {one.target}: {why}",
        )
