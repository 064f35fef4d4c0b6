"""Seats for pods that name no reservation: those of the reservations that are for their owner.

Goes in: a request. Comes out: `Seated` if the job started, `SeatWait`, `NotItsTurn`, or `NoSeat`: then the job is
scheduled like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from restow.model.objects import Pod, Reservation
from restow.model.reservations.matching import why_owner_mismatch, why_too_many_pods
from restow.model.reservations.seat import Seat
from restow.model.reservations.task_sizes import largest_first
from restow.scheduling.actions.gang_seats import (
    accept_seats,
    place_beside_seats,
    reservations_of_owner,
    seat_each_pod,
)
from restow.scheduling.actions.job_start import why_gang_incomplete
from restow.scheduling.actions.last_seat import LastSeat
from restow.scheduling.actions.seat_assignment import (
    NO_SEATS,
    NOT_ITS_TURN,
    RESERVATION_NOT_USED,
    SEATED,
    NoSeat,
    NotItsTurn,
    Result,
    Seated,
    SeatRequest,
    SeatWait,
    take_first_seat,
)
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict
from restow.scheduling.statement import occupy


def take_own_seats(request: SeatRequest, last_seat: LastSeat) -> Result:
    """Put the pods of a job in seats of their owner's reservations."""
    session, job = request.session, request.job
    if job.is_gang:
        return NO_SEATS if why_gang_incomplete(job) is not None else _seat_gang(request)
    pod = job.pods[0]
    if session.shares.may_refuse(job.queue):
        with session.statement() as statement:
            result = take_first_seat(request, statement.occupy, pod, reservations_of_owner(session, pod))
            return accept_seats(request, statement) if isinstance(result, Seated) else result
    single = _SinglePodSeating(request)
    seat = last_seat.next_seat(pod)
    if seat is not None and single.occupy(last_seat.next_cycle(pod), seat).code is Code.SUCCESS:
        return SEATED
    result = take_first_seat(request, single.occupy, pod, reservations_of_owner(session, pod))
    if single.first_try is not None:
        last_seat.remember(*single.first_try)
    return result


class _SinglePodSeating:
    """A single pod needs no statement: an assignment that fails takes itself back."""

    __slots__ = ("_request", "_tries", "first_try")

    def __init__(self, request: SeatRequest) -> None:
        self._request = request
        self._tries = 0
        self.first_try: tuple[Cycle, Seat] | None = None
        """The seat it took, if it was the first that it tried."""

    def occupy(self, cycle: Cycle, seat: Seat) -> Verdict:
        self._tries += 1
        session = self._request.session
        assigned = occupy(session.engine, cycle, seat)
        if isinstance(assigned, Verdict):
            return assigned
        self.first_try = (cycle, seat) if self._tries == 1 else None
        session.decisions.assign_single(self._request.job, assigned)
        return SUCCESS


def _seat_gang(request: SeatRequest) -> Result:
    """All in one reservation; else whatever seats there are, and the rest of the gang beside them."""
    no_seat, pods = NO_SEATS, largest_first(request.job.pods)
    for reservation in _reservations_for_whole_gang(request):
        result = _seat_together(request, pods, reservation)
        if not isinstance(result, NoSeat):
            return result
        no_seat = no_seat if no_seat.message else result
    result = _seat_apart(request, pods)
    return no_seat if isinstance(result, NoSeat) and no_seat.message else result


def _seat_together(request: SeatRequest, pods: Sequence[Pod], reservation: Reservation) -> Result:
    """Every pod of a gang in a seat of one reservation."""
    wait: SeatWait | None = None
    with request.session.statement() as statement:
        for pod in pods:
            result = take_first_seat(request, statement.occupy, pod, [reservation])
            if isinstance(result, NoSeat | NotItsTurn):
                return result
            wait = result if isinstance(result, SeatWait) else wait
        return wait or accept_seats(request, statement)


def _seat_apart(request: SeatRequest, pods: Sequence[Pod]) -> Result:
    """As many pods of a gang as find a seat, each for itself; the others beside them, if they are needed."""
    with request.session.statement() as statement:
        result = seat_each_pod(request, pods, statement)
        if isinstance(result, NotItsTurn):
            return NOT_ITS_TURN
        seated, no_seat = result
        if not seated:
            return no_seat
        failure = place_beside_seats(request, statement, seated)
        if isinstance(failure, NotItsTurn):
            return NOT_ITS_TURN
        if failure is not None:
            seats = f"{len(seated)} of {len(request.job.pods)} pods have a seat"
            return NoSeat(RESERVATION_NOT_USED, f"{seats}: {failure.message}")
        return accept_seats(request, statement)


def _reservations_for_whole_gang(request: SeatRequest) -> list[Reservation]:
    """The reservations that are for every pod of a gang and have a seat for each."""
    session, (first, *others) = request.session, request.job.pods
    index = session.snapshot.reservations
    own = reservations_of_owner(session, first)
    large_enough = [
        reservation for reservation in own if why_too_many_pods(reservation, request.job.pods, index) is None
    ]
    return [
        reservation
        for reservation in large_enough
        if all(why_owner_mismatch(reservation, pod, index) is None for pod in others)
    ]
