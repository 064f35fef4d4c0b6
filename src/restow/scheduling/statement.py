"""A statement: changes to a snapshot that stand or fall together.

Goes in: what to try, step by step; each step is seen by everything that reads the snapshot from then on. Comes out: on
`commit` the decisions in the order they were made, on `discard` the snapshot exactly as it was before.

    step        takes effect as                                   its inverse
    allocate    assumed, then Reserve and Permit                  unallocate: every Unreserve in reverse, forgotten
    pipeline    assumed, on room that others are still leaving    unallocate
    occupy      a seat let go and the pod allocated in its place  unallocate: the seat is held again
    reserve     seats of a reservation held                       release
    evict       a pod that is there is gone                       discard
    vacate      a seat that was held before is free               discard

The last two only suppose something: a scheduler evicts nobody and ends no reservation, it asks what would fit then. A
statement that supposes anything can be discarded, and not be committed.

Statements nest like brackets: the one begun last ends first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import replace

from restow.model.cluster import Occupant
from restow.model.object_key import Key, key_of
from restow.model.objects import Placement, Pod, Reservation
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.decisions import Assign, Decision, HoldSeats, Nominate
from restow.scheduling.engine import Engine
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict, unschedulable
from restow.scheduling.schedule_result import PermitResult


class _Holding(msgspec.Struct):
    """A Hold that may get more placements: of a reservation with many seats each is found by itself."""

    reservation: Reservation
    placements: list[Placement]
    waiting: bool = False

    def decision(self) -> HoldSeats:
        return HoldSeats(self.reservation, tuple(self.placements), self.waiting)


class Statement:
    """Use as a context: what is not committed when it ends is discarded, whatever ended it."""

    def __init__(self, snapshot: Snapshot, engine: Engine, now: float) -> None:
        self._snapshot = snapshot
        self._engine = engine
        self._now = now
        self._mark = snapshot.mark()
        self._open = True
        self._supposes = False
        self._steps: list[Decision | _Holding] = []
        self._holdings: dict[Key, _Holding] = {}
        self._cycles: dict[str, tuple[Cycle, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.discard()

    @property
    def steps(self) -> tuple[Decision, ...]:
        """What was decided so far and stands."""
        return tuple(one.decision() if isinstance(one, _Holding) else one for one in self._steps)

    # --- steps --------------------------------------------------------------------------------------------------------

    def allocate(self, cycle: Cycle, node: str, seat: SeatName | None = None) -> Verdict:
        """Put a pod on a node; on anything but SUCCESS nothing has changed. Raises UnknownNode, AlreadyPlaced."""
        assigned = assign(self._engine, cycle, node, seat)
        return assigned if isinstance(assigned, Verdict) else self._stands(assigned)

    def occupy(self, cycle: Cycle, seat: Seat) -> Verdict:
        """Put a pod in a seat: every filter is asked about the node as it is without what the seat holds. On anything
        but SUCCESS nothing has changed."""
        assigned = occupy(self._engine, cycle, seat)
        return assigned if isinstance(assigned, Verdict) else self._stands(assigned)

    def pipeline(self, cycle: Cycle, node: str) -> None:
        """Keep room for a pod on a node where others are leaving; nothing is reserved yet."""
        self._snapshot.assume(cycle.pod, node, at=self._now, shape=cycle.pod_class.shape)
        self._steps.append(Nominate(cycle.pod, node))

    def unallocate(self, pod: Pod) -> None:
        """The inverse of `allocate` and `pipeline`. Raises KeyError for a pod that this statement has not placed."""
        for position in range(len(self._steps) - 1, -1, -1):
            step = self._steps[position]
            if isinstance(step, Assign | Nominate) and step.pod.metadata.uid == pod.metadata.uid:
                del self._steps[position]
                try:
                    self._unreserve(pod.metadata.uid)
                finally:
                    self._snapshot.forget(pod)
                return
        raise KeyError(pod.metadata.uid)

    def reserve(self, reservation: Reservation, placements: Iterable[Placement], *, waiting: bool = False) -> None:
        """Hold seats of a reservation, besides those that it was given before: that is one decision. `waiting` if
        others are still leaving the room."""
        key, placed = key_of(reservation), tuple(placements)
        self._snapshot.assume_placements(reservation, placed, at=self._now)
        if key not in self._holdings:
            self._holdings[key] = _Holding(reservation, [])
            self._steps.append(self._holdings[key])
        holding = self._holdings[key]
        holding.placements += placed
        holding.waiting |= waiting

    def release(self, reservation: Reservation) -> None:
        """The inverse of `reserve`. Raises KeyError for a reservation of which this statement holds nothing."""
        holding = self._holdings.pop(key_of(reservation))
        self._snapshot.forget_placements(reservation)
        self._steps = [step for step in self._steps if step is not holding]

    # --- suppositions -------------------------------------------------------------------------------------------------

    def evict(self, occupants: Iterable[Occupant]) -> None:
        """Suppose that these pods are gone."""
        self._supposes = True
        for one in occupants:
            unversioned = replace(one.pod.metadata, resource_version="")  # it is no news that could be outdated
            self._snapshot.remove_pod(replace(one.pod, metadata=unversioned))

    def vacate(self, seat: SeatName) -> None:
        """Suppose that nothing is held for a seat."""
        self._supposes = True
        self._snapshot.reservations.states.vacate(seat)

    # --- the end ------------------------------------------------------------------------------------------------------

    def commit(self) -> list[Decision]:
        """Let everything stand. Raises RuntimeError, and lets nothing stand, if something of it was only supposed."""
        if self._supposes:
            raise RuntimeError("what was supposed cannot be committed")
        self._end()
        self._snapshot.keep(self._mark)
        return list(self.steps)

    def discard(self) -> None:
        """Take everything back, exactly; Unreserve first, newest first. What one raises is raised at the end."""
        self._end()
        with ExitStack() as last_first:
            last_first.callback(self._snapshot.undo_to, self._mark)
            for uid in self._cycles:
                last_first.callback(self._engine.unreserve, *self._cycles[uid])
        self._cycles, self._holdings = {}, {}
        self._steps = []

    def _stands(self, assigned: Assign) -> Verdict:
        self._cycles[assigned.pod.metadata.uid] = (assigned.cycle, assigned.node)
        self._steps.append(assigned)
        return SUCCESS

    def _unreserve(self, uid: str) -> None:
        placed = self._cycles.pop(uid, None)
        if placed is not None:
            self._engine.unreserve(*placed)

    def _end(self) -> None:
        if not self._open:
            raise RuntimeError("the statement has ended")
        self._open = False


def assign(
    engine: Engine, cycle: Cycle, node: str, seat: SeatName | None = None, instead: Occupant | None = None
) -> Assign | Verdict:
    """Assume a pod on a node, Reserve and Permit; anything but SUCCESS takes it all back. Raises as `allocate`."""
    snapshot = cycle.snapshot
    snapshot.assume(cycle.pod, node, at=cycle.now, seat=seat, shape=cycle.pod_class.shape, instead=instead)
    try:
        verdict = engine.reserve(cycle, node)
        granted = engine.permit(cycle, node) if verdict.code is Code.SUCCESS else verdict
    except BaseException:
        _take_back(engine, cycle, node)
        raise
    if isinstance(granted, PermitResult):
        return Assign(cycle, node, granted.waits, seat)
    _take_back(engine, cycle, node)
    return granted


def _take_back(engine: Engine, cycle: Cycle, node: str) -> None:
    """The inverse of an assignment; an Unreserve that breaks leaves no assumption behind."""
    try:
        engine.unreserve(cycle, node)
    finally:
        cycle.snapshot.forget(cycle.pod)


def occupy(engine: Engine, cycle: Cycle, seat: Seat) -> Assign | Verdict:
    """Let a seat go and assume a pod in its place, if every filter accepts the node as it is then; otherwise it is held
    as before. Raises as `allocate`."""
    book = cycle.snapshot.reservations
    held = book.states.exchangeable(seat.name, cycle.pod_class.shape)
    if held is not None and _fits_instead(engine, cycle, held):
        return assign(engine, cycle, seat.node, seat.name, held)
    book.states.vacate(seat.name)
    try:
        why = why_not_seated(engine, cycle, seat)
        verdict = unschedulable(why) if why else assign(engine, cycle, seat.node, seat.name)
    except BaseException:
        book.states.hold_again(seat.name)
        raise
    if isinstance(verdict, Verdict):
        book.states.hold_again(seat.name)
    return verdict


def why_not_seated(engine: Engine, cycle: Cycle, seat: Seat) -> str:
    """What keeps a pod from a seat that was let go; empty if nothing does."""
    fits = engine.fits(cycle, seat.node) or _fits_before_hopes(engine, cycle, seat)
    return "" if fits else engine.why_node_refuses(cycle, seat.node)


def _fits_instead(engine: Engine, cycle: Cycle, held: Occupant) -> bool:
    """Whether every filter accepts a pod in the place of what it is exchangeable with. Of all that they ask for, only
    room is less while that is there."""
    room, row = cycle.snapshot.room, cycle.snapshot.rows.claim(held.node)
    room.lend(row, held.shape.amounts)
    try:
        return engine.fits(cycle, held.node)
    finally:
        room.lend(row, held.shape.amounts, -1)


def _fits_before_hopes(engine: Engine, cycle: Cycle, seat: Seat) -> bool:
    """Whether only those keep a pod from its seat who hope for room that others are leaving, or what is kept beside
    pods that are there. What the seat held was promised; a pod that needs more than that takes nothing from them."""
    held = dict(engine.counted_resources(Cycle(seat.reserved_pod, cycle.snapshot, cycle.now)))
    if any(amount > held.get(resource, 0) for resource, amount in engine.counted_resources(cycle)):
        return False
    with cycle.snapshot.without_unguaranteed_seats(seat.node, seat.name) as any_hopes:
        return any_hopes and engine.fits(cycle, seat.node)
