"""The sequence: moves in waves, such that every pod finds its new seat held before it leaves the old one.

Goes in: who shall go where. Comes out: moves with their wave and order, and those that no order makes possible, with
the reason. A move waits for a later wave while its target lacks room that others are still to leave, while a filter
of the scheduler refuses it, or while too many pods of one budget or workload would be on the move at once: limits shape
waves and drop no move.

Where everybody waits for everybody (two pods that swap full nodes), one pod makes a stop at a third place, which costs
one move more; without such a place the moves of that ring are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from restow.model.cluster import Snapshot
from restow.planning.bookings import Bookings
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


def sequence(snapshot: Snapshot, request: Request, wanted: Iterable[Wanted], *, most: int | None = None) -> Sequenced:
    """Order moves, those named first preferably first. `most` limits how many there may be, stops included."""
    wanted = tuple(wanted)
    spare = 0 if not request.stops else len(wanted) if most is None else most - len(wanted)
    eager = _settled(snapshot, request, wanted, spare, in_order=False)
    if not eager.dropped:
        return eager
    patient = _settled(snapshot, request, wanted, spare, in_order=True)
    return patient if len(patient.dropped) < len(eager.dropped) else eager


def _settled(
    snapshot: Snapshot, request: Request, wanted: Sequence[Wanted], spare: int, *, in_order: bool
) -> Sequenced:
    """The first attempt in which every stop led somewhere."""
    stranded: set[str] = set()
    while True:
        attempt = _Attempt(snapshot, request, wanted, stranded, spare)
        with attempt.bookings:
            result = attempt.run(in_order=in_order)
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
        self._left = list(wanted)
        self._unstoppable = unstoppable
        self._stopped: set[str] = set()
        self._spare = spare
        self._moves: list[Move] = []
        self._drawn_on: dict[str, Sequence[Allowance]] = {}
        self._wave = 1

    def run(self, *, in_order: bool) -> Sequenced:
        """With `in_order` no move starts before one that was named earlier and lacks a seat."""
        dropped: tuple[Refusal, ...] = ()
        while self._left:
            if not self._fill_wave(in_order) and not self._make_stop():
                dropped = tuple(self._why_dropped(one) for one in self._left)
                self.stranded = {one.uid for one in self._left} & self._stopped
                break
            self.bookings.end_wave()
            self._wave += 1
        return Sequenced(tuple(self._moves), dropped)

    def _fill_wave(self, in_order: bool) -> bool:
        """Start every move that can start now; False if none can."""
        under_way: Counter[str] = Counter()
        waiting: list[Wanted] = []
        for number, one in enumerate(self._left):
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

    def _make_stop(self) -> bool:
        """Move one pod, whose node somebody waits for, out of the way; False if that is possible for none."""
        awaited = Counter(one.target for one in self._left)
        for one in self._left if self._spare > 0 else ():
            occupant = self.bookings.occupant(one.uid)
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
        occupant = self.bookings.occupant(one.uid)
        none = next((each.name for each in self._allowances(one.uid) if each.most < 1), None)
        why = f"{none} lets none of its pods go" if none else self._why_not(one)
        metadata = occupant.pod.metadata if occupant else None
        return Refusal(
            namespace=(metadata.namespace or "default") if metadata else "",
            pod=metadata.name if metadata else one.uid,
            reason=f"no order of moves brings it to {one.target}: {why}",
        )
