"""One pod and the seats that it may take.

Goes in: a request for seats, a pod, reservations in the order in which it tries them, and how it is put in a seat.
Comes out: `Seated`; `SeatWait` if only pods that are leaving keep it from its seat; `NotItsTurn` if it needs more than
the seat holds, and other jobs may come first for that; or `NoSeat` with the reason.

Every seat is tried, however many there are. So that the next pod need not do the same again, a session remembers which
seats refused pods of its class (`SeatMemory`): they are tried after all others, and only some of them. Once a session
has tried so many seats in vain that all its pods would have to wait for it, it tries only some for each pod that is
left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from restow.model.cluster import Occupant
from restow.model.objects import Pod, Reservation
from restow.model.reservations.matching import Mismatch, matching_seats
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.seat import Seat
from restow.scheduling.explain import join_reasons
from restow.scheduling.framework import Code, Cycle, Verdict
from restow.scheduling.jobs import Job
from restow.scheduling.seat_checks.admission_check import seat_cycle
from restow.scheduling.session import Session

RESERVATION_NOT_USED = "ReservationNotUsed"
"""The reason of the event that says so."""
_SOME = 32
"""How many seats at most that refused others of its class a pod is tried on."""
_MANY = 10_000
"""After how many tries in vain a session tries no more than that for any pod; they take about a second."""


class ReservationNames(msgspec.Struct, frozen=True):
    """The reservations that pods of a job name."""

    by_uid: dict[str, str]
    shared: str | None
    """The one that their PodGroup names for all of them."""

    def of(self, pod: Pod) -> str | None:
        return self.by_uid.get(pod.metadata.uid)


class SeatRequest(msgspec.Struct, frozen=True):
    """A job that looks for its seats."""

    session: Session
    job: Job
    names: ReservationNames | None
    held_only: bool
    """Whether the job may take nothing beyond what its seats hold, because it is not its turn yet."""


class Seated(msgspec.Struct, frozen=True):
    pass


class SeatWait(msgspec.Struct, frozen=True):
    """Only pods that are leaving keep the pod from its seat, or it names a reservation that it may not use."""

    message: str
    reason: str = ""
    """Which of the reasons for which the use of a reservation is invalid."""
    plugins: frozenset[str] = frozenset()
    """The plugins that refuse it besides."""


class NoSeat(msgspec.Struct, frozen=True):
    """Why no seat was taken; empty if there was none to take."""

    reason: str = ""
    message: str = ""


class NotItsTurn(msgspec.Struct, frozen=True):
    """The job needs more than its seats hold, and other jobs may come before it for that."""


Result = Seated | SeatWait | NoSeat | NotItsTurn
SEATED, NO_SEATS, NOT_ITS_TURN = Seated(), NoSeat(), NotItsTurn()


PutInSeat = Callable[[Cycle, Seat], Verdict]
"""Puts a pod in a seat, or says why not, and has changed nothing then."""


def take_first_seat(request: SeatRequest, put: PutInSeat, pod: Pod, reservations: Iterable[Reservation]) -> Result:
    """Put a pod in the first seat of these reservations that takes it."""
    session = request.session
    no_seat = NO_SEATS
    tries = 0
    for candidate in _seats_to_try(session, pod, reservations):
        if isinstance(candidate, Mismatch):
            no_seat = no_seat if no_seat.message else NoSeat(candidate.reason, candidate.message)
            continue
        cycle, seat = candidate
        if request.held_only and _needs_more_than_held(session, cycle, seat):
            return NOT_ITS_TURN
        verdict = put(cycle, seat)
        if verdict.code is Code.SUCCESS:
            return SEATED
        predecessors = _leaving_predecessors(session, seat)
        if predecessors and _fits_without(session, cycle, seat, predecessors):
            return SeatWait(_waiting_message(seat, predecessors))
        no_seat = no_seat if no_seat.message else NoSeat(RESERVATION_NOT_USED, _refusal_message(seat, verdict))
        session.seat_memory.note_refusal(cycle.pod_class, seat.name)
        tries += 1
        if tries >= _SOME and session.seat_memory.refusal_count >= _MANY:
            break
    return no_seat


SeatTry = tuple[Cycle, Seat]


def _seats_to_try(session: Session, pod: Pod, reservations: Iterable[Reservation]) -> Iterator[SeatTry | Mismatch]:
    """The seats to try in order, each with the cycle of the attempt. Once any seat has refused a pod of the class,
    seats on nodes whose Node object does not suit it are left out; if there are no others, one of them is tried, so
    that the refusal says why."""
    base_cycle: Cycle | None = None
    refused_before: list[SeatTry] = []
    unsuitable: list[SeatTry] = []
    for reservation in reservations:
        cycle: Cycle | None = None
        for seat in _one_seat_per_node(session, pod, reservation):
            if isinstance(seat, Mismatch):
                yield seat
                continue
            base_cycle = base_cycle or Cycle(pod, session.snapshot, session.now)
            cycle = cycle or seat_cycle(base_cycle, seat, session.pod_groups.queue_of)
            refusing = session.seat_memory.refusing_seats(cycle.pod_class)
            if not refusing:
                yield cycle, seat
            elif not session.nodes.is_statically_feasible(cycle, seat.node):
                unsuitable.append((cycle, seat))
            elif seat.name in refusing:
                refused_before.append((cycle, seat))
            else:
                yield cycle, seat
    yield from refused_before[:_SOME] or unsuitable[:1]


def _one_seat_per_node(session: Session, pod: Pod, reservation: Reservation) -> Iterator[Seat | Mismatch]:
    """The seats of a reservation in order; of one task, one per node, because the others there are no better."""
    tried: set[tuple[str, str]] = set()
    for seat in matching_seats(
        reservation,
        pod,
        session.snapshot.reservations,
        session.seat_memory.sizes,
        session.pod_groups.priority_classes.default_name,
    ):
        place = ("", "") if isinstance(seat, Mismatch) else (seat.name.task, seat.node)
        if place not in tried:
            tried.add(place)
            yield seat


def _needs_more_than_held(session: Session, cycle: Cycle, seat: Seat) -> bool:
    """Whether a pod takes room that the seat does not hold."""
    if session.snapshot.shapes.of(seat.reserved_pod).amounts == cycle.pod_class.shape.amounts:
        return False
    held = dict(session.engine.counted_resources(Cycle(seat.reserved_pod, cycle.snapshot, cycle.now)))
    return any(amount > held.get(resource, 0) for resource, amount in session.engine.counted_resources(cycle))


def _refusal_message(seat: Seat, verdict: Verdict) -> str:
    name, why = seat.name, join_reasons(verdict.reasons)
    return f"reservation {name.namespace}/{name.reservation} is not available: node {seat.node} refuses the pod: {why}"


# --- predecessors -----------------------------------------------------------------------------------------------------


def _leaving_predecessors(session: Session, seat: Seat) -> Sequence[Occupant]:
    """Pods of the same owner that are leaving, and the pod that the reservation was made to move."""
    snapshot, name = session.snapshot, seat.name
    reservation = snapshot.reservations.get(name.namespace, name.reservation)
    migrating = migrating_pod(reservation) if reservation is not None else None
    return [
        occupant
        for occupant in session.ends.terminating()
        if occupant.key == migrating
        or (
            occupant.pod.metadata.namespace == name.namespace
            and seat.owners.matches(occupant.pod, snapshot.owner_chains)
        )
    ]


def _fits_without(session: Session, cycle: Cycle, seat: Seat, predecessors: Sequence[Occupant]) -> bool:
    """Whether the seat would take the pod if its predecessors were gone."""
    with session.statement() as trial:
        trial.evict(predecessors)
        trial.vacate(seat.name)
        return session.engine.fits(cycle, seat.node)


def _waiting_message(seat: Seat, predecessors: Sequence[Occupant]) -> str:
    names = [f"{predecessor.pod.metadata.namespace}/{predecessor.pod.metadata.name}" for predecessor in predecessors]
    named = names[0] if len(names) == 1 else f"{len(names)} pods, {names[0]} first,"
    return f"waiting for {named} to leave: its seat {seat.name} on node {seat.node} is kept"
