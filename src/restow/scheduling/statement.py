"""A statement: changes to a snapshot that stand or fall together.

Goes in: what to try, step by step; each step is seen by everything that reads the snapshot from then on. Comes out: on
`commit` the decisions in the order they were made, on `discard` the snapshot exactly as it was before.

    step        takes effect as                                       its inverse
    allocate    pod assumed, then Reserve and Permit                  unallocate: every Unreserve in reverse, forgotten
    pipeline    pod assumed, on room that other pods are leaving      unallocate
    occupy      seat released and the pod allocated in its place      unallocate: the seat is held again
    reserve     seats of a reservation held                           release
    evict       a pod that is there is gone                           discard
    vacate      a seat that was held before is free                   discard

The last two are only suppositions: a scheduler evicts no pod and ends no reservation, it asks what would fit then. A
statement with a supposition can be discarded, and not be committed. Allocate, pipeline, evict, commit and discard are
Volcano's names.

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


class _OpenHold(msgspec.Struct):
    """A HoldSeats that may get more placements: the seats of a reservation are placed one by one."""

    reservation: Reservation
    placements: list[Placement]
    waiting: bool = False

    def decision(self) -> HoldSeats:
        return HoldSeats(self.reservation, tuple(self.placements), self.waiting)


class Statement:
    """Used as a context manager: what is not committed when it ends is discarded, whatever ended it."""

    def __init__(self, snapshot: Snapshot, engine: Engine, now: float) -> None:
        self._snapshot = snapshot
        self._engine = engine
        self._now = now
        self._mark = snapshot.mark()
        self._open = True
        self._supposes = False
        self._steps: list[Decision | _OpenHold] = []
        self._holds: dict[Key, _OpenHold] = {}
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
        """The decisions so far."""
        return tuple(step.decision() if isinstance(step, _OpenHold) else step for step in self._steps)

    # --- steps --------------------------------------------------------------------------------------------------------

    def allocate(self, cycle: Cycle, node: str, seat: SeatName | None = None) -> Verdict:
        """Put a pod on a node; on anything but SUCCESS nothing has changed. Raises UnknownNode, AlreadyPlaced."""
        assigned = assign(self._engine, cycle, node, seat)
        return assigned if isinstance(assigned, Verdict) else self._add_assign(assigned)

    def occupy(self, cycle: Cycle, seat: Seat) -> Verdict:
        """Put a pod in a seat: every filter must accept the node as it is without what the seat holds. On anything but
        SUCCESS nothing has changed."""
        assigned = occupy(self._engine, cycle, seat)
        return assigned if isinstance(assigned, Verdict) else self._add_assign(assigned)

    def pipeline(self, cycle: Cycle, node: str) -> None:
        """Keep room for a pod on a node that other pods are leaving; Reserve does not run yet."""
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
        """Hold seats of a reservation, besides the seats that it has: all of them make one decision. `waiting` if other
        pods are still leaving the room."""
        key, placed = key_of(reservation), tuple(placements)
        self._snapshot.assume_placements(reservation, placed, at=self._now)
        if key not in self._holds:
            self._holds[key] = _OpenHold(reservation, [])
            self._steps.append(self._holds[key])
        hold = self._holds[key]
        hold.placements += placed
        hold.waiting |= waiting

    def release(self, reservation: Reservation) -> None:
        """The inverse of `reserve`. Raises KeyError for a reservation of which this statement holds nothing."""
        hold = self._holds.pop(key_of(reservation))
        self._snapshot.forget_placements(reservation)
        self._steps = [step for step in self._steps if step is not hold]

    # --- suppositions -------------------------------------------------------------------------------------------------

    def evict(self, occupants: Iterable[Occupant]) -> None:
        """Suppose that these pods are gone."""
        self._supposes = True
        for occupant in occupants:
            # Without a version: the snapshot ignores a removal that is older than what it has seen of the pod.
            unversioned = replace(occupant.pod.metadata, resource_version="")
            self._snapshot.remove_pod(replace(occupant.pod, metadata=unversioned))

    def vacate(self, seat: SeatName) -> None:
        """Suppose that nothing is held for a seat."""
        self._supposes = True
        self._snapshot.reservations.states.vacate(seat)

    # --- the end ------------------------------------------------------------------------------------------------------

    def commit(self) -> list[Decision]:
        """Let everything stand. Raises RuntimeError, and changes nothing, if any of it was only supposed."""
        if self._supposes:
            raise RuntimeError("what was supposed cannot be committed")
        self._end()
        self._snapshot.keep(self._mark)
        return list(self.steps)

    def discard(self) -> None:
        """Take everything back, exactly; Unreserve first, newest first. The exception of an Unreserve is raised
        last."""
        self._end()
        with ExitStack() as last_first:
            last_first.callback(self._snapshot.undo_to, self._mark)
            for uid in self._cycles:
                last_first.callback(self._engine.unreserve, *self._cycles[uid])
        self._cycles, self._holds = {}, {}
        self._steps = []

    def _add_assign(self, assigned: Assign) -> Verdict:
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
    """The inverse of an assignment; if an Unreserve raises, the pod is forgotten all the same."""
    try:
        engine.unreserve(cycle, node)
    finally:
        cycle.snapshot.forget(cycle.pod)


def occupy(engine: Engine, cycle: Cycle, seat: Seat) -> Assign | Verdict:
    """Release a seat and assume a pod in its place, if every filter accepts the node as it is then; otherwise the seat
    is held as before. Raises as `allocate`."""
    # 1. If the pod is of the same shape as the reserved pod, it takes its place in one step: nothing is released.
    index = cycle.snapshot.reservations
    held = index.states.exchangeable(seat.name, cycle.pod_class.shape)
    if held is not None and _fits_instead(engine, cycle, held):
        return assign(engine, cycle, seat.node, seat.name, held)
    # 2. Otherwise the seat is released for the question, and held again if the answer is no.
    index.states.vacate(seat.name)
    try:
        why = why_not_seated(engine, cycle, seat)
        verdict = unschedulable(why) if why else assign(engine, cycle, seat.node, seat.name)
    except BaseException:
        index.states.hold_again(seat.name)
        raise
    if isinstance(verdict, Verdict):
        index.states.hold_again(seat.name)
    return verdict


def why_not_seated(engine: Engine, cycle: Cycle, seat: Seat) -> str:
    """What keeps a pod from a seat that was released; empty if nothing does."""
    fits = engine.fits(cycle, seat.node) or _fits_without_unguaranteed_seats(engine, cycle, seat)
    return "" if fits else engine.why_node_refuses(cycle, seat.node)


def _fits_instead(engine: Engine, cycle: Cycle, held: Occupant) -> bool:
    """Whether every filter accepts a pod in the place of a reserved pod of the same shape. While that one is there,
    only room is different for the filters, so its room is lent for the question."""
    room, row = cycle.snapshot.room, cycle.snapshot.rows.ensure_row(held.node)
    room.lend(row, held.shape.amounts)
    try:
        return engine.fits(cycle, held.node)
    finally:
        room.lend(row, held.shape.amounts, -1)


def _fits_without_unguaranteed_seats(engine: Engine, cycle: Cycle, seat: Seat) -> bool:
    """Whether only unguaranteed seats, or room kept beside pods that are there, keep a pod from its seat. The room of
    the seat was guaranteed before theirs. A pod that needs more than the seat held must not take it from them."""
    held = dict(engine.counted_resources(Cycle(seat.reserved_pod, cycle.snapshot, cycle.now)))
    if any(amount > held.get(resource, 0) for resource, amount in engine.counted_resources(cycle)):
        return False
    with cycle.snapshot.without_unguaranteed_seats(seat.node, seat.name) as there_are_any:
        return there_are_any and engine.fits(cycle, seat.node)
