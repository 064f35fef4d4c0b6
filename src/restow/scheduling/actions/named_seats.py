"""Seats for pods that name a reservation.

Goes in: a request with names. Comes out: `Seated` if the job started; `SeatWait` if all of it has to wait;
`NotItsTurn`; or `NoSeat` if no pod with a name is left. A pod that names a reservation itself and cannot use it waits,
and the others of its gang go on without it. What the PodGroup names is for all of its pods: if one of them cannot use
it, all wait.
"""

from __future__ import annotations

from restow.model.objects import Pod, Reservation
from restow.model.reservations.matching import (
    MismatchReason,
    why_owner_mismatch,
    why_too_many_pods,
    why_unusable,
)
from restow.model.reservations.task_sizes import largest_first
from restow.scheduling.actions.gang_seats import accept_seats, place_beside_seats, seat_each_pod
from restow.scheduling.actions.job_start import why_gang_incomplete
from restow.scheduling.actions.seat_assignment import (
    NO_SEATS,
    NOT_ITS_TURN,
    NoSeat,
    NotItsTurn,
    ReservationNames,
    Result,
    SeatRequest,
    SeatWait,
    take_first_seat,
)
from restow.scheduling.cluster_events import QUEUE, RESERVATION
from restow.scheduling.jobs import Job
from restow.scheduling.statement import Statement


def take_named_seats(request: SeatRequest, names: ReservationNames) -> Result:
    """Put the pods that name a reservation in seats of it, and the others of their gang beside them."""
    job = request.job
    # 1. Pods that name a reservation that they may not use wait.
    wait = _leave_out_misusing_pods(request, names) or _wait_for_rest_of_gang(job)
    if wait is not None:
        return wait
    with request.session.statement() as statement:
        # 2. The pods with a name take their seats.
        result = _take_seats_of_names(request, names, statement) or _wait_for_rest_of_gang(job)
        if result is not None:
            return result
        seated = [pod for pod in job.pods if names.of(pod) is not None]
        if not seated:
            return NO_SEATS
        # 3. The others take seats of their owner, or are placed anywhere.
        others = largest_first([pod for pod in job.pods if names.of(pod) is None])
        seated_others = seat_each_pod(request, others, statement)
        if isinstance(seated_others, NotItsTurn):
            return NOT_ITS_TURN
        failure = place_beside_seats(request, statement, [*seated, *seated_others[0]])
        if failure is not None:
            return failure if isinstance(failure, NotItsTurn) else SeatWait(failure.message, plugins=failure.plugins)
        # 4. All or nothing.
        accepted = accept_seats(request, statement)
    return SeatWait(accepted.message, plugins=frozenset([QUEUE])) if isinstance(accepted, NoSeat) else accepted


def _wait_for_rest_of_gang(job: Job) -> SeatWait | None:
    """Why a gang waits of which too few pods exist, or are left."""
    failure = why_gang_incomplete(job) if job.pods else None
    return SeatWait(failure.message, plugins=failure.plugins) if failure is not None else None


def _leave_out_misusing_pods(request: SeatRequest, names: ReservationNames) -> SeatWait | None:
    """Leave out the pods that name a reservation that they may not use; the wait if the PodGroup names it."""
    session, job = request.session, request.job
    index = session.snapshot.reservations
    sharing = [pod for pod in job.pods if names.of(pod) == names.shared]
    for pod in job.pods:
        name = names.of(pod)
        if name is None:
            continue
        mismatch = why_unusable(pod.metadata.namespace or "", name, index, session.scheduler_names, session.now)
        mismatch = mismatch or why_owner_mismatch(_named_reservation(request, pod, name), pod, index)
        if name == names.shared:
            mismatch = mismatch or why_too_many_pods(_named_reservation(request, pod, name), sharing, index)
        if mismatch is not None:
            wait = SeatWait(mismatch.message, mismatch.reason)
            if name == names.shared:
                return wait
            _leave_out(request, pod, wait)
    return None


def _take_seats_of_names(
    request: SeatRequest, names: ReservationNames, statement: Statement
) -> SeatWait | NotItsTurn | None:
    """Put each pod with a name in a seat of that reservation, or leave it out; the wait if the PodGroup names it."""
    for pod in largest_first(request.job.pods):
        name = names.of(pod)
        if name is None:
            continue
        result = take_first_seat(request, statement.occupy, pod, [_named_reservation(request, pod, name)])
        if isinstance(result, NoSeat):
            result = _wait_without_seat(pod, name, result)
        if isinstance(result, NotItsTurn) or (isinstance(result, SeatWait) and name == names.shared):
            return result
        if isinstance(result, SeatWait):
            _leave_out(request, pod, result)
    return None


def _wait_without_seat(pod: Pod, name: str, no_seat: NoSeat) -> SeatWait:
    none_left = f"no seat is left for {pod.metadata.name}"
    message = no_seat.message or f"reservation {pod.metadata.namespace}/{name} is not available: {none_left}"
    is_spec = no_seat.reason == MismatchReason.SPEC
    return SeatWait(message, MismatchReason.SPEC if is_spec else MismatchReason.NOT_AVAILABLE)


def _leave_out(request: SeatRequest, pod: Pod, wait: SeatWait) -> None:
    """A pod waits for what it names itself, and the others of its gang go on without it."""
    decisions = request.session.decisions
    if wait.reason:
        decisions.record_event(pod, wait.reason, wait.message)
    decisions.refuse_pod(request.job, pod, wait.message, [RESERVATION])


def _named_reservation(request: SeatRequest, pod: Pod, name: str) -> Reservation:
    reservation = request.session.snapshot.reservations.get(pod.metadata.namespace or "", name)
    assert reservation is not None, "it is available"
    return reservation
