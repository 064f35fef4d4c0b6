"""Reserve: who has a seat takes it, before anybody looks for a place.

A pod, or a gang, that names a reservation gets a seat of that one, or waits with one of the three reasons of
`matching`. Whoever names none tries the reservations of its owner, one after the other: every filter is asked again
about the held node, as it is without what the seat holds, and the pod is put in the place of the stand-in in one
statement. If nothing comes of it, that is told, and the pod is scheduled like any other. A pod that only its own
predecessor keeps from its seat waits for that one to leave.

A gang is seated as a whole: all of it in one reservation if that can be, otherwise in as many seats as it finds; what
is left of it is placed beside them, and nothing is committed unless it is enough.
"""

from __future__ import annotations

from restow.model.cluster import Seat, SeatName
from restow.model.cluster.seat import migrating_pod
from restow.model.objects import MatchPolicy, Reservation
from restow.model.resources import Vector, add, fits, subtract
from restow.model.tenancy import DEFAULT_QUEUE
from restow.scheduling.actions.seating import (
    NOT_USED,
    NOTHING,
    SEATED,
    Alone,
    Result,
    Seated,
    Swarm,
    Unused,
    Waits,
    seat_down,
)
from restow.scheduling.actions.starting import incomplete, place_together
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import blamed
from restow.scheduling.framework import Code
from restow.scheduling.jobs import Job
from restow.scheduling.reservations.matching import candidates, named_by, too_many, why_not_its, why_not_usable
from restow.scheduling.roster import requests_of
from restow.scheduling.session import Session
from restow.scheduling.statement import Statement
from restow.scheduling.wakeups import RESERVATION


def reserve(session: Session) -> None:
    vacancies = session.snapshot.reservations.vacancies
    swarm = Swarm(session)
    for job in session.jobs:
        if not job.admitted or job.reservation is not None:
            continue
        name = _named(session, job)
        if name is not None or vacancies.any_in(job.pods[0].metadata.namespace or ""):
            _look_for_seats(session, job, name, swarm)
    session.jobs = [job for job in session.jobs if job.pods]


def _named(session: Session, job: Job) -> str | None:
    """The reservation that a job insists on."""
    for pod in job.pods:
        name = named_by(pod, session.snapshot)
        if name is not None:
            return name
    return None


def _look_for_seats(session: Session, job: Job, name: str | None, swarm: Swarm) -> None:
    try:
        result = _try_all(session, job, swarm) if name is None else _insist(session, job, name)
    except Exception as error:  # of a plugin: it must not keep other jobs from starting
        session.refuse(job, blamed(error), (), Code.ERROR)
        return
    if isinstance(result, Waits):
        session.refuse(job, result.message, [RESERVATION])
    elif isinstance(result, Unused) and result.message:
        session.tell(job.pods[0], result.reason, f"{result.message}; it is scheduled without a reservation")


def _accept(session: Session, job: Job, statement: Statement) -> Result:
    """Let what was tried stand, unless the queue cannot take it."""
    over = _over_quota(session, job, statement)
    if over is not None:
        return Unused(NOT_USED, over)
    session.accept(job, statement)
    return SEATED


# --- by name ----------------------------------------------------------------------------------------------------------


def _insist(session: Session, job: Job, name: str) -> Result:
    """All pods of a job take seats of this reservation, or all wait."""
    snapshot, namespace = session.snapshot, job.pods[0].metadata.namespace or ""
    mismatch = why_not_usable(namespace, name, snapshot, session.now)
    if mismatch is not None:
        return Waits(mismatch.message)
    reservation = snapshot.reservations.get(namespace, name)
    assert reservation is not None, "it is available"
    strangers = (why_not_its(reservation, pod, snapshot) for pod in job.pods)
    mismatch = next((one for one in strangers if one is not None), None) or too_many(reservation, job.pods, snapshot)
    if mismatch is not None:
        return Waits(mismatch.message)
    lacking = incomplete(job)
    if lacking is not None:
        return Waits(lacking.message)
    with session.statement() as statement:
        for pod in job.pods:
            result = seat_down(session, statement.occupy, pod, [reservation])
            if not isinstance(result, Seated):
                none_left = f"reservation {namespace}/{name} is not available: no seat is left for {pod.metadata.name}"
                return Waits(result.message or none_left)
        result = _accept(session, job, statement)
    return result if isinstance(result, Seated) else Waits(result.message)


# --- whatever is its own ----------------------------------------------------------------------------------------------


def _try_all(session: Session, job: Job, swarm: Swarm) -> Result:
    if job.is_gang:
        return NOTHING if incomplete(job) is not None else _try_gang(session, job)
    pod = job.pods[0]
    if session.shares.counts or job.queue not in session.roster.queues:
        with session.statement() as statement:
            result = seat_down(session, statement.occupy, pod, candidates(pod, session.snapshot, session.now))
            return _accept(session, job, statement) if isinstance(result, Seated) else result
    alone = Alone(session, job)
    known = swarm.seat(pod)
    if known is not None and alone.occupy(swarm.cycle(pod), known).code is Code.SUCCESS:
        return SEATED
    result = seat_down(session, alone.occupy, pod, candidates(pod, session.snapshot, session.now))
    if alone.at_once is not None:
        swarm.follow(*alone.at_once)
    return result


def _try_gang(session: Session, job: Job) -> Result:
    """All in one reservation; else whatever seats there are, and the rest of the gang beside them."""
    unused = NOTHING
    for reservation in _candidates_of_gang(session, job):
        result = _try_together(session, job, reservation)
        if not isinstance(result, Unused):
            return result
        unused = unused if unused.message else result
    result = _try_apart(session, job)
    return result if isinstance(result, Seated) or not unused.message else unused


def _try_together(session: Session, job: Job, reservation: Reservation) -> Result:
    """Every pod of a gang in a seat of one reservation."""
    waits: Waits | None = None
    with session.statement() as statement:
        for pod in job.pods:
            result = seat_down(session, statement.occupy, pod, [reservation])
            if isinstance(result, Unused):
                return result
            waits = result if isinstance(result, Waits) else waits
        return waits or _accept(session, job, statement)


def _try_apart(session: Session, job: Job) -> Result:
    """As many pods of a gang as find a seat, each for itself; the others beside them, if they are needed."""
    with session.statement() as statement:
        seated = []
        for pod in job.pods:
            own = (one for one in candidates(pod, session.snapshot, session.now) if not _is_exceeded(session, job, one))
            if isinstance(seat_down(session, statement.occupy, pod, own), Seated):
                seated.append(pod)
        if not seated:
            return NOTHING
        lacking = place_together(session, job, lambda cycle, found: statement.allocate(cycle, found.node), seated)
        if lacking is not None:
            return Unused(NOT_USED, f"{len(seated)} of {len(job.pods)} pods have a seat: {lacking.message}")
        return _accept(session, job, statement)


def _candidates_of_gang(session: Session, job: Job) -> list[Reservation]:
    """The reservations that are for every pod of it and have a seat for each."""
    first, *others = job.pods
    snapshot = session.snapshot
    large = [one for one in candidates(first, snapshot, session.now) if too_many(one, job.pods, snapshot) is None]
    return [one for one in large if all(why_not_its(one, pod, snapshot) is None for pod in others)]


def _is_exceeded(session: Session, job: Job, reservation: Reservation) -> bool:
    """More pods than were reserved as a template are no match for it."""
    policy = reservation.spec.match_policy or MatchPolicy.TEMPLATE
    return policy == MatchPolicy.TEMPLATE and too_many(reservation, job.pods, session.snapshot) is not None


def _over_quota(session: Session, job: Job, statement: Statement) -> str | None:
    """Why the queue of a job cannot take its pods; what their seats were charged to the same queue is no longer.

    Who was moved away had its place before: its queue is not asked again, whatever became of that meanwhile, unless the
    pod wants more than it had.
    """
    if not session.shares.counts and job.queue in session.roster.queues:
        return None
    request: Vector = {}
    given_back: Vector = {}
    new = [step for step in statement.steps if isinstance(step, Assign) and not _was_moved(session, job, step)]
    for step in new:
        request = add(request, requests_of(step.pod))
        if step.seat is not None and (seat := _seat_of_queue(session, job, step.seat)) is not None:
            given_back = add(given_back, requests_of(seat.stand_in))
    return session.shares.refusal(job.queue, subtract(request, given_back)) if new else None


def _was_moved(session: Session, job: Job, step: Assign) -> bool:
    """Whether a pod takes the seat that was charged to its queue for whoever it replaces, and no more than that."""
    seat = _seat_of_queue(session, job, step.seat) if step.seat is not None else None
    if seat is None:
        return False
    reservation = session.snapshot.reservations.get(seat.name.namespace, seat.name.reservation)
    is_move = reservation is not None and migrating_pod(reservation) is not None
    return is_move and fits(requests_of(step.pod), requests_of(seat.stand_in))


def _seat_of_queue(session: Session, job: Job, name: SeatName) -> Seat | None:
    """A seat, if it is charged to the queue of a job."""
    seat = session.snapshot.reservations.seat(name)
    return seat if seat is not None and (seat.queue or DEFAULT_QUEUE) == job.queue else None
