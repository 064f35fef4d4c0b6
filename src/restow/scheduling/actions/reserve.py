"""Reserve: who has a seat takes it, before anybody looks for a place.

A pod that names a reservation gets a seat of that one, or waits with one of the three reasons of `matching`. If it is
of a gang, the others go on without it, where they are enough. What a PodGroup names is for all of its pods that name
nothing themselves: each of them gets a seat there, or the gang waits.

Whoever names none tries the reservations of its owner, one after the other: every filter is asked again about the held
node, as it is without what the seat holds, and the pod is put in the place of the stand-in in one statement. If nothing
comes of it, that is told, and the pod is scheduled like any other. A pod that only its own predecessor keeps from its
seat waits for that one to leave.

A gang is seated as a whole, its largest pods first: all of it in one reservation if that can be, otherwise in as many
seats as it finds; what is left of it is placed beside them, and nothing is committed unless it is enough.

Only what fits into seats comes before everybody else. A pod that is larger than its seat, and a gang that has too few,
need room that others may have waited for: they take their seats when it is their turn (`take_turn`), and so does who
comes for the same reservations after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, Reservation
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.matching import (
    MismatchReason,
    requested_reservation,
    usable_reservations,
    why_none_usable,
    why_owner_mismatch,
    why_template_exceeded,
    why_too_many_pods,
    why_unusable,
)
from restow.model.reservations.reservation_annotations import migrating_pod, requested_reservation_name
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.task_sizes import largest_first
from restow.model.resources import Vector, add, fits, subtract
from restow.scheduling.actions.job_start import Failure, incomplete, place_together
from restow.scheduling.actions.seat_assignment import (
    LATER,
    NOT_USED,
    NOTHING,
    SEATED,
    Alone,
    Later,
    Result,
    Seated,
    Swarm,
    Unused,
    Waits,
    seat_down,
)
from restow.scheduling.cluster_events import QUEUE, RESERVATION
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import describe_plugin_failure
from restow.scheduling.framework import Code
from restow.scheduling.jobs import Job
from restow.scheduling.pod_group_cache import requests_of
from restow.scheduling.session import Session
from restow.scheduling.statement import Statement


def reserve(session: Session) -> None:
    living = session.snapshot.reservations.live
    swarm = Swarm(session)
    sought: set[Key] = set()
    """The reservations of those who take their turn."""
    with session.seats_only():
        for job in session.jobs:
            if not job.admitted or job.reservation is not None:
                continue
            names = _named(session, job)
            if names is None and not living.has_reservations_in(job.pods[0].metadata.namespace or ""):
                continue
            waits = bool(sought) and not sought.isdisjoint(_sought(session, job, names))
            if waits or not _look_for_seats(session, job, names, swarm):
                session.seekers.add(job)
                sought.update(_sought(session, job, names))
    session.jobs = [job for job in session.jobs if job.pods]


def take_turn(session: Session, job: Job) -> bool:
    """Let a job that was put off take seats now, and room beside them; returns whether it was decided about. What its
    seats hold is its own, whoever room is kept for meanwhile."""
    if job not in session.seekers:
        return False
    session.seekers.remove(job)
    left, names, swarm = len(job.pods), _named(session, job), Swarm(session)
    with session.seats_only(), session.lent():
        is_decided = _look_for_seats(session, job, names, swarm)
    if not is_decided:
        _look_for_seats(session, job, names, swarm)
    return len(job.pods) < left


def _sought(session: Session, job: Job, names: Names | None) -> set[Key]:
    """The reservations that are for pods of a job."""
    found: set[Key] = set()
    for pod in job.pods:
        name = names.of(pod) if names is not None else None
        own = [(pod.metadata.namespace or "", name)] if name is not None else map(key_of, _own(session, pod))
        found.update(own)
    return found


class Names(msgspec.Struct, frozen=True):
    """The reservations that pods of a job insist on."""

    by_uid: Mapping[str, str]
    shared: str | None
    """The one that their PodGroup names for all of them."""

    def of(self, pod: Pod) -> str | None:
        return self.by_uid.get(pod.metadata.uid)


def _named(session: Session, job: Job) -> Names | None:
    group_of = session.snapshot.owner_chains.group_of
    named = {pod.metadata.uid: name for pod in job.pods if (name := requested_reservation(pod, group_of)) is not None}
    if not named:
        return None
    group = group_of(job.pods[0])
    return Names(named, requested_reservation_name(group.metadata) if group is not None else None)


def _look_for_seats(session: Session, job: Job, names: Names | None, swarm: Swarm) -> bool:
    """Whether that came to an end; if not, it is not yet the turn of the job."""
    try:
        result = _insist(session, job, names) if names is not None else NOTHING
        if job.pods and isinstance(result, Unused):
            result = _try_all(session, job, swarm)
        if result is SEATED:
            return True
        if result == NOTHING:
            result = _passed_over(session, job)
    except Exception as error:  # of a plugin: it must not keep other jobs from starting
        session.refuse(job, describe_plugin_failure(error), (), Code.ERROR)
        return True
    if isinstance(result, Waits):
        if result.reason:
            session.tell(job.pods[0], result.reason, result.message)
        session.refuse(job, result.message, [RESERVATION, *result.plugins])
    elif isinstance(result, Unused) and result.message:
        session.tell(job.pods[0], result.reason, f"{result.message}; it is scheduled without a reservation")
    return not isinstance(result, Later)


def _passed_over(session: Session, job: Job) -> Unused:
    """Why there was no seat to try, if there are reservations for the pods that have not ended."""
    if not job.pods or incomplete(job) is not None:
        return NOTHING
    mismatch = why_none_usable(job.pods, session.snapshot.reservations, session.names, session.now)
    if mismatch is None:
        return NOTHING
    return Unused(MismatchReason.SPEC if mismatch.reason is MismatchReason.SPEC else NOT_USED, mismatch.message)


def _accept(session: Session, job: Job, statement: Statement) -> Result:
    """Let what was tried stand, unless the queue cannot take it."""
    over = _over_quota(session, job, statement)
    if over is not None:
        return Unused(NOT_USED, over)
    session.accept(job, statement)
    return SEATED


# --- by name ----------------------------------------------------------------------------------------------------------


def _insist(session: Session, job: Job, names: Names) -> Result:
    """Whoever names a reservation takes a seat of it, and the others of the gang take their places at once; nothing is
    used if nobody is left who names any."""
    waits = _leave_out_misusers(session, job, names) or _cannot_begin(job)
    if waits is not None:
        return waits
    with session.statement() as statement:
        result = _sit_where_named(session, job, names, statement) or _cannot_begin(job)
        if result is not None:
            return result
        seated = [pod for pod in job.pods if names.of(pod) is not None]
        if not seated:
            return NOTHING
        others = largest_first([pod for pod in job.pods if names.of(pod) is None])
        sitting = _seat_each(session, others, statement)
        if isinstance(sitting, Later):
            return LATER
        lacking = _place_beside(session, job, statement, [*seated, *sitting[0]])
        if lacking is not None:
            return lacking if isinstance(lacking, Later) else Waits(lacking.message, plugins=lacking.plugins)
        accepted = _accept(session, job, statement)
    return Waits(accepted.message, plugins=frozenset([QUEUE])) if isinstance(accepted, Unused) else accepted


def _cannot_begin(job: Job) -> Waits | None:
    """Why a gang waits of which not enough are there, or are left."""
    lacking = incomplete(job) if job.pods else None
    return Waits(lacking.message, plugins=lacking.plugins) if lacking is not None else None


def _leave_out_misusers(session: Session, job: Job, names: Names) -> Waits | None:
    """Whoever names what it may not use now waits; if it is what the PodGroup names, everybody does."""
    snapshot = session.snapshot
    sharing = [pod for pod in job.pods if names.of(pod) == names.shared]
    for pod in job.pods:
        name = names.of(pod)
        if name is None:
            continue
        mismatch = why_unusable(pod.metadata.namespace or "", name, snapshot.reservations, session.names, session.now)
        mismatch = mismatch or why_owner_mismatch(_reservation(session, pod, name), pod, snapshot.reservations)
        if name == names.shared:
            mismatch = mismatch or why_too_many_pods(_reservation(session, pod, name), sharing, snapshot.reservations)
        if mismatch is not None:
            waits = Waits(mismatch.message, mismatch.reason)
            if name == names.shared:
                return waits
            _leave_out(session, job, pod, waits)
    return None


def _sit_where_named(session: Session, job: Job, names: Names, statement: Statement) -> Waits | Later | None:
    """Whoever names a reservation takes a seat of it or waits; if it is what the PodGroup names, everybody does."""
    for pod in largest_first(job.pods):
        name = names.of(pod)
        if name is None:
            continue
        result = seat_down(session, statement.occupy, pod, [_reservation(session, pod, name)])
        if isinstance(result, Unused):
            none_left = f"no seat is left for {pod.metadata.name}"
            message = result.message or f"reservation {pod.metadata.namespace}/{name} is not available: {none_left}"
            result = Waits(
                message, MismatchReason.SPEC if result.reason == MismatchReason.SPEC else MismatchReason.NOT_AVAILABLE
            )
        if isinstance(result, Later) or (isinstance(result, Waits) and name == names.shared):
            return result
        if isinstance(result, Waits):
            _leave_out(session, job, pod, result)
    return None


def _leave_out(session: Session, job: Job, pod: Pod, waits: Waits) -> None:
    """A pod waits for what it names itself, and the others of its gang go on without it."""
    if waits.reason:
        session.tell(pod, waits.reason, waits.message)
    session.refuse_one(job, pod, waits.message, [RESERVATION])


def _reservation(session: Session, pod: Pod, name: str) -> Reservation:
    reservation = session.snapshot.reservations.get(pod.metadata.namespace or "", name)
    assert reservation is not None, "it is available"
    return reservation


# --- whatever is its own ----------------------------------------------------------------------------------------------


def _try_all(session: Session, job: Job, swarm: Swarm) -> Result:
    if job.is_gang:
        return NOTHING if incomplete(job) is not None else _try_gang(session, job)
    pod = job.pods[0]
    if session.shares.may_refuse(job.queue):
        with session.statement() as statement:
            result = seat_down(session, statement.occupy, pod, _own(session, pod))
            return _accept(session, job, statement) if isinstance(result, Seated) else result
    alone = Alone(session, job)
    known = swarm.seat(pod)
    if known is not None and alone.occupy(swarm.cycle(pod), known).code is Code.SUCCESS:
        return SEATED
    result = seat_down(session, alone.occupy, pod, _own(session, pod))
    if alone.at_once is not None:
        swarm.follow(*alone.at_once)
    return result


def _own(session: Session, pod: Pod) -> Iterator[Reservation]:
    """The reservations that a pod may try, in order."""
    return usable_reservations(pod, session.snapshot.reservations, session.names, session.now)


def _try_gang(session: Session, job: Job) -> Result:
    """All in one reservation; else whatever seats there are, and the rest of the gang beside them."""
    unused, pods = NOTHING, largest_first(job.pods)
    for reservation in _candidates_of_gang(session, job):
        result = _try_together(session, job, pods, reservation)
        if not isinstance(result, Unused):
            return result
        unused = unused if unused.message else result
    result = _try_apart(session, job, pods)
    return unused if isinstance(result, Unused) and unused.message else result


def _try_together(session: Session, job: Job, pods: Sequence[Pod], reservation: Reservation) -> Result:
    """Every pod of a gang in a seat of one reservation."""
    waits: Waits | None = None
    with session.statement() as statement:
        for pod in pods:
            result = seat_down(session, statement.occupy, pod, [reservation])
            if isinstance(result, Unused | Later):
                return result
            waits = result if isinstance(result, Waits) else waits
        return waits or _accept(session, job, statement)


def _try_apart(session: Session, job: Job, pods: Sequence[Pod]) -> Result:
    """As many pods of a gang as find a seat, each for itself; the others beside them, if they are needed."""
    with session.statement() as statement:
        sitting = _seat_each(session, pods, statement)
        if isinstance(sitting, Later):
            return LATER
        seated, unused = sitting
        if not seated:
            return unused
        lacking = _place_beside(session, job, statement, seated)
        if isinstance(lacking, Later):
            return LATER
        if lacking is not None:
            return Unused(NOT_USED, f"{len(seated)} of {len(job.pods)} pods have a seat: {lacking.message}")
        return _accept(session, job, statement)


def _place_beside(session: Session, job: Job, statement: Statement, seated: Sequence[Pod]) -> Failure | Later | None:
    """Place what a gang needs besides those that have a seat."""
    if session.only_seats and not job.may_place(seated):
        return LATER
    return place_together(session, job, lambda cycle, found: statement.allocate(cycle, found.node), seated)


def _seat_each(session: Session, pods: Sequence[Pod], statement: Statement) -> tuple[list[Pod], Unused] | Later:
    """Those of a gang's pods that find a seat, each for itself, and why the first of the others does not."""
    exceeded: dict[str, bool] = {}
    """By reservation, as it is before any of them sits there."""
    seated, unused = [], NOTHING

    def is_exceeded(one: Reservation) -> bool:
        name = one.metadata.name
        if name not in exceeded:
            exceeded[name] = why_template_exceeded(one, pods, session.snapshot.reservations) is not None
        return exceeded[name]

    for pod in pods:
        own = (one for one in _own(session, pod) if not is_exceeded(one))
        result = seat_down(session, statement.occupy, pod, own)
        if isinstance(result, Later):
            return LATER
        if isinstance(result, Seated):
            seated.append(pod)
        elif isinstance(result, Unused):
            unused = unused if unused.message else result
    return seated, unused


def _candidates_of_gang(session: Session, job: Job) -> list[Reservation]:
    """The reservations that are for every pod of it and have a seat for each."""
    first, *others = job.pods
    snapshot = session.snapshot
    large = [one for one in _own(session, first) if why_too_many_pods(one, job.pods, snapshot.reservations) is None]
    return [one for one in large if all(why_owner_mismatch(one, pod, snapshot.reservations) is None for pod in others)]


def _over_quota(session: Session, job: Job, statement: Statement) -> str | None:
    """Why the queue of a job cannot take its pods; what their seats were charged to the same queue is no longer.

    Who was moved away had its place before: its queue is not asked again, whatever became of that meanwhile, unless the
    pod wants more than it had.
    """
    if not session.shares.may_refuse(job.queue):
        return None
    request: Vector = {}
    given_back: Vector = {}
    new = [step for step in statement.steps if isinstance(step, Assign) and not _was_moved(session, job, step)]
    for step in new:
        request = add(request, requests_of(step.pod))
        if step.seat is not None and (seat := _seat_of_queue(session, job, step.seat)) is not None:
            given_back = add(given_back, requests_of(seat.reserved_pod))
    return session.shares.refusal(job.queue, subtract(request, given_back)) if new else None


def _was_moved(session: Session, job: Job, step: Assign) -> bool:
    """Whether a pod takes the seat that was charged to its queue for whoever it replaces, and no more than that."""
    seat = _seat_of_queue(session, job, step.seat) if step.seat is not None else None
    if seat is None:
        return False
    reservation = session.snapshot.reservations.get(seat.name.namespace, seat.name.reservation)
    is_move = reservation is not None and migrating_pod(reservation) is not None
    return is_move and fits(requests_of(step.pod), requests_of(seat.reserved_pod))


def _seat_of_queue(session: Session, job: Job, name: SeatName) -> Seat | None:
    """A seat, if it is charged to the queue of a job."""
    seat = session.snapshot.reservations.seat(name)
    return seat if seat is not None and (seat.queue or DEFAULT_QUEUE) == job.queue else None
