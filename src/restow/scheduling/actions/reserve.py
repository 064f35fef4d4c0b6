"""Reserve: pods take the seats that are held for them, before any other pod is placed.

A pod that names a reservation gets a seat of that one, or waits with one of the three reasons of `matching`. If it is
of a gang, the others go on without it, if they are enough. What a PodGroup names is for all of its pods that name
nothing themselves: each of them gets a seat there, or the gang waits (`named_seats`).

A pod that names none tries the reservations of its owner, one after the other: every filter is asked again about the
held node, as it is without what the seat holds, and the pod is put in the place of the reserved pod in one statement.
If no seat takes it, an event says so, and the pod is scheduled like any other. A pod that only its own predecessor
keeps from its seat waits for that one to leave (`own_seats`, `seat_assignment`).

A gang is seated as a whole, its largest pods first: all of it in one reservation if that can be, otherwise in as many
seats as it finds; what is left of it is placed beside them, and nothing is committed unless it is enough.

Only what fits into seats comes before all other jobs. A pod that is larger than its seat, and a gang that has too few
seats, need room that others may have waited for: they become seat seekers, which take their seats when it is their turn
(`take_seats_in_turn`), and so does every job behind them that seeks seats of the same reservations.
"""

from __future__ import annotations

from restow.model.object_key import Key, key_of
from restow.model.reservations.matching import MismatchReason, requested_reservation, why_none_usable
from restow.model.reservations.reservation_annotations import requested_reservation_name
from restow.scheduling.actions.gang_seats import reservations_of_owner
from restow.scheduling.actions.job_start import why_gang_incomplete
from restow.scheduling.actions.last_seat import LastSeat
from restow.scheduling.actions.named_seats import take_named_seats
from restow.scheduling.actions.own_seats import take_own_seats
from restow.scheduling.actions.seat_assignment import (
    NO_SEATS,
    RESERVATION_NOT_USED,
    SEATED,
    NoSeat,
    NotItsTurn,
    ReservationNames,
    SeatRequest,
    SeatWait,
)
from restow.scheduling.cluster_events import RESERVATION
from restow.scheduling.explain import describe_plugin_failure
from restow.scheduling.framework import Code
from restow.scheduling.jobs import Job
from restow.scheduling.session import Backlog, Session


def take_reserved_seats(session: Session, backlog: Backlog) -> Backlog:
    live = session.snapshot.reservations.live
    last_seat = LastSeat(session)
    seat_seekers: set[Job] = set()
    sought: set[Key] = set()
    """The reservations of the seat seekers: a job behind them must not take a seat that they may need."""
    for job in backlog.jobs:
        if not job.admitted or job.reservation is not None:
            continue
        names = _requested_reservations(session, job)
        if names is None and not live.has_reservations_in(job.pods[0].metadata.namespace or ""):
            continue
        request = SeatRequest(session, job, names, held_only=True)
        waits = bool(sought) and not sought.isdisjoint(_sought_reservations(request))
        if waits or not _take_seats(request, last_seat):
            seat_seekers.add(job)
            sought.update(_sought_reservations(request))
    return backlog.of_unplaced(seat_seekers)


def take_seats_in_turn(session: Session, job: Job) -> bool:
    """Let a seat seeker take seats now, and room beside them; returns whether any of its pods was decided about."""
    left, names, last_seat = len(job.pods), _requested_reservations(session, job), LastSeat(session)
    # 1. What its seats hold is its own, whatever room is kept for other pods meanwhile.
    with session.kept_room.all_lent():
        is_decided = _take_seats(SeatRequest(session, job, names, held_only=True), last_seat)
    # 2. What it needs beyond its seats, it gets like any other job.
    if not is_decided:
        _take_seats(SeatRequest(session, job, names, held_only=False), last_seat)
    return len(job.pods) < left


def _requested_reservations(session: Session, job: Job) -> ReservationNames | None:
    group_of = session.snapshot.owner_chains.group_of
    named = {pod.metadata.uid: name for pod in job.pods if (name := requested_reservation(pod, group_of)) is not None}
    if not named:
        return None
    group = group_of(job.pods[0])
    return ReservationNames(named, requested_reservation_name(group.metadata) if group is not None else None)


def _sought_reservations(request: SeatRequest) -> set[Key]:
    """The reservations that are for pods of a job."""
    sought: set[Key] = set()
    for pod in request.job.pods:
        name = request.names.of(pod) if request.names is not None else None
        if name is not None:
            sought.add((pod.metadata.namespace or "", name))
        else:
            sought.update(map(key_of, reservations_of_owner(request.session, pod)))
    return sought


def _take_seats(request: SeatRequest, last_seat: LastSeat) -> bool:
    """Put the job in its seats, or record why not; returns False if it is not its turn yet."""
    session, job, names = request.session, request.job, request.names
    try:
        # 1. The reservations that its pods name, then those of their owner.
        result = take_named_seats(request, names) if names is not None else NO_SEATS
        if job.pods and isinstance(result, NoSeat):
            result = take_own_seats(request, last_seat)
        if result is SEATED:
            return True
        # 2. No seat was tried: say why, if there are reservations for it.
        if result == NO_SEATS:
            result = _why_no_reservation_usable(request)
    except Exception as error:  # of a plugin: it must not keep other jobs from starting
        session.decisions.refuse(job, describe_plugin_failure(error), (), Code.ERROR)
        return True
    # 3. It waits, or is scheduled without a seat.
    if isinstance(result, SeatWait):
        if result.reason:
            session.decisions.record_event(job.pods[0], result.reason, result.message)
        session.decisions.refuse(job, result.message, [RESERVATION, *result.plugins])
    elif isinstance(result, NoSeat) and result.message:
        message = f"{result.message}; it is scheduled without a reservation"
        session.decisions.record_event(job.pods[0], result.reason, message)
    return not isinstance(result, NotItsTurn)


def _why_no_reservation_usable(request: SeatRequest) -> NoSeat:
    """Why there was no seat to try, if there are reservations for the pods that have not ended."""
    session, job = request.session, request.job
    if not job.pods or why_gang_incomplete(job) is not None:
        return NO_SEATS
    mismatch = why_none_usable(job.pods, session.snapshot.reservations, session.scheduler_names, session.now)
    if mismatch is None:
        return NO_SEATS
    is_spec = mismatch.reason is MismatchReason.SPEC
    return NoSeat(MismatchReason.SPEC if is_spec else RESERVATION_NOT_USED, mismatch.message)
