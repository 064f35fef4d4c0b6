"""What seats mean for a job as a whole: pods beside those with seats, and the limits of the queue.

Goes in: a request for seats and the statement in which its pods take them. Comes out: the statement accepted, or why
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from restow.model.objects import Pod, Reservation
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.matching import usable_reservations, why_template_exceeded
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName
from restow.model.resources import Vector, add_vectors, subtract_vectors, vector_fits
from restow.scheduling.actions.job_start import JobFailure, place_job_pods
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
    take_first_seat,
)
from restow.scheduling.decisions import Assign
from restow.scheduling.pod_group_cache import requests_of
from restow.scheduling.session import Session
from restow.scheduling.statement import Statement


def reservations_of_owner(session: Session, pod: Pod) -> Iterator[Reservation]:
    """The reservations that a pod may try because they are for its owner, in order."""
    return usable_reservations(pod, session.snapshot.reservations, session.scheduler_names, session.now)


def seat_each_pod(
    request: SeatRequest, pods: Sequence[Pod], statement: Statement
) -> tuple[list[Pod], NoSeat] | NotItsTurn:
    """The pods of a gang that find a seat, each for itself, and why the first of the others does not."""
    session = request.session
    is_exceeded: dict[str, bool] = {}
    """By reservation, as it is before any pod of the gang takes a seat there."""
    seated, no_seat = [], NO_SEATS

    def is_template_exceeded(reservation: Reservation) -> bool:
        name = reservation.metadata.name
        if name not in is_exceeded:
            is_exceeded[name] = why_template_exceeded(reservation, pods, session.snapshot.reservations) is not None
        return is_exceeded[name]

    for pod in pods:
        own = (
            reservation for reservation in reservations_of_owner(session, pod) if not is_template_exceeded(reservation)
        )
        result = take_first_seat(request, statement.occupy, pod, own)
        if isinstance(result, NotItsTurn):
            return NOT_ITS_TURN
        if isinstance(result, Seated):
            seated.append(pod)
        elif isinstance(result, NoSeat):
            no_seat = no_seat if no_seat.message else result
    return seated, no_seat


def place_beside_seats(
    request: SeatRequest, statement: Statement, seated: Sequence[Pod]
) -> JobFailure | NotItsTurn | None:
    """Place the pods that a gang needs besides those that have a seat; None if that will do."""
    session, job = request.session, request.job
    if request.held_only and not job.may_place(seated):
        return NOT_ITS_TURN
    return place_job_pods(session, job, lambda cycle, node_found: statement.allocate(cycle, node_found.node), seated)


def accept_seats(request: SeatRequest, statement: Statement) -> Result:
    """Commit a statement, unless the queue cannot take its pods."""
    why_not = _why_over_quota(request, statement)
    if why_not is not None:
        return NoSeat(RESERVATION_NOT_USED, why_not)
    request.session.decisions.accept(request.job, statement)
    return SEATED


def _why_over_quota(request: SeatRequest, statement: Statement) -> str | None:
    """Why the queue of a job cannot take its pods. A seat is charged to its queue already, so that much is given back.

    A pod that replaces a migrating pod had its place before: its queue is not asked again, whatever became of that
    meanwhile, unless the pod wants more than the seat holds.
    """
    session, job = request.session, request.job
    if not session.shares.may_refuse(job.queue):
        return None
    requested: Vector = {}
    given_back: Vector = {}
    new = [step for step in statement.steps if isinstance(step, Assign) and not _replaces_migrating_pod(request, step)]
    for step in new:
        requested = add_vectors(requested, requests_of(step.pod))
        if step.seat is not None and (seat := _seat_charged_to_queue(request, step.seat)) is not None:
            given_back = add_vectors(given_back, requests_of(seat.reserved_pod))
    return session.shares.why_exceeded(job.queue, subtract_vectors(requested, given_back)) if new else None


def _replaces_migrating_pod(request: SeatRequest, step: Assign) -> bool:
    """Whether a pod takes the seat that was charged to its queue for the pod that it replaces, and no more than
    that."""
    seat = _seat_charged_to_queue(request, step.seat) if step.seat is not None else None
    if seat is None:
        return False
    reservation = request.session.snapshot.reservations.get(seat.name.namespace, seat.name.reservation)
    is_move = reservation is not None and migrating_pod(reservation) is not None
    return is_move and vector_fits(requests_of(step.pod), requests_of(seat.reserved_pod))


def _seat_charged_to_queue(request: SeatRequest, name: SeatName) -> Seat | None:
    """A seat, if it is charged to the queue of the job."""
    seat = request.session.snapshot.reservations.seat(name)
    return seat if seat is not None and (seat.queue or DEFAULT_QUEUE) == request.job.queue else None
