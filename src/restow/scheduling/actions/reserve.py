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

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from restow.model.cluster import Occupant, Seat
from restow.model.cluster.seat import migrating_pod
from restow.model.objects import MatchPolicy, Pod, Reservation
from restow.model.resources import Vector, add, subtract
from restow.scheduling.actions.starting import incomplete, place_together
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import joined
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict
from restow.scheduling.jobs import DEFAULT_QUEUE, Job, requests_of
from restow.scheduling.reservations.matching import (
    Mismatch,
    candidates,
    fitting_seats,
    named_by,
    too_many,
    why_not_its,
    why_not_usable,
)
from restow.scheduling.session import Session
from restow.scheduling.statement import Statement, occupy, without
from restow.scheduling.wakeups import RESERVATION

NOT_USED = "ReservationNotUsed"
"""The reason of the event that says so."""
_TRIES = 32
"""How many seats at most a pod is tried on."""


class _Seated(msgspec.Struct, frozen=True):
    pass


class _Waits(msgspec.Struct, frozen=True):
    """Only those who are leaving keep the pod from its seat."""

    message: str


class _Unused(msgspec.Struct, frozen=True):
    """Why no seat was taken; nothing where there was none to take."""

    reason: str = ""
    message: str = ""


_Result = _Seated | _Waits | _Unused
_SEATED, _NOTHING = _Seated(), _Unused()


class _Swarm:
    """Pods that are alike in all that decides about seats, one after the other, as those of a workload come. Where one
    sat down at once in the first reservation that is its own, so may the next, without looking for it."""

    __slots__ = ("_cycle", "_last", "_snapshot", "_version")

    def __init__(self, session: Session) -> None:
        self._snapshot = session.snapshot
        self._cycle: Cycle | None = None
        self._last: Seat | None = None
        self._version = -1

    def follow(self, cycle: Cycle, seat: Seat) -> None:
        """The pod of this cycle took the very first seat that it tried."""
        self._cycle, self._last, self._version = cycle, seat, self._snapshot.classes.version

    def seat(self, pod: Pod) -> Seat | None:
        """The seat that a pod would try first, if that is known."""
        last, book = self._last, self._snapshot.reservations
        if last is None or self._cycle is None or not _are_alike(pod, self._cycle.pod) or book.vacancies.is_sought(pod):
            return None
        seat = next(book.vacant(last.name.namespace, last.name.reservation), None)
        return seat if seat is not None and seat.name.task == last.name.task else None

    def cycle(self, pod: Pod) -> Cycle:
        """The attempt of a pod that is like the one before."""
        before = self._cycle
        assert before is not None, "a seat is known"
        same = pod.status == before.pod.status and self._version == self._snapshot.classes.version
        reads_name = before.pod_class.shape.facts.pod_name is not None
        return Cycle(pod, self._snapshot, before.now, before.pod_class if same and not reads_name else None)


def _are_alike(one: Pod, other: Pod) -> bool:
    """Whether the same reservations are tried for two pods, in the same order and with the same result."""
    mine, its = one.metadata, other.metadata
    return (
        mine.labels == its.labels
        and mine.namespace == its.namespace
        and mine.owner_references == its.owner_references
        and mine.annotations == its.annotations
        and one.spec == other.spec
    )


def reserve(session: Session) -> None:
    vacancies = session.snapshot.reservations.vacancies
    swarm = _Swarm(session)
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


def _look_for_seats(session: Session, job: Job, name: str | None, swarm: _Swarm) -> None:
    try:
        result = _try_all(session, job, swarm) if name is None else _insist(session, job, name)
    except Exception as error:  # of a plugin: it must not keep other jobs from starting
        session.refuse(job, f"{type(error).__name__}: {error}", (), Code.ERROR)
        return
    if isinstance(result, _Waits):
        session.refuse(job, result.message, [RESERVATION])
    elif isinstance(result, _Unused) and result.message:
        session.tell(job.pods[0], result.reason, f"{result.message}; it is scheduled without a reservation")


def _accept(session: Session, job: Job, statement: Statement) -> _Result:
    """Let what was tried stand, unless the queue cannot take it."""
    over = _over_quota(session, job, statement)
    if over is not None:
        return _Unused(NOT_USED, over)
    session.accept(job, statement)
    return _SEATED


# --- by name ----------------------------------------------------------------------------------------------------------


def _insist(session: Session, job: Job, name: str) -> _Result:
    """All pods of a job take seats of this reservation, or all wait."""
    snapshot, namespace = session.snapshot, job.pods[0].metadata.namespace or ""
    mismatch = why_not_usable(namespace, name, snapshot, session.now)
    if mismatch is not None:
        return _Waits(mismatch.message)
    reservation = snapshot.reservations.get(namespace, name)
    assert reservation is not None, "it is available"
    strangers = (why_not_its(reservation, pod, snapshot) for pod in job.pods)
    mismatch = next((one for one in strangers if one is not None), None) or too_many(reservation, job.pods, snapshot)
    if mismatch is not None:
        return _Waits(mismatch.message)
    lacking = incomplete(job)
    if lacking is not None:
        return _Waits(lacking.message)
    with session.statement() as statement:
        for pod in job.pods:
            result = _seat(session, statement.occupy, pod, [reservation])
            if not isinstance(result, _Seated):
                none_left = f"reservation {namespace}/{name} is not available: no seat is left for {pod.metadata.name}"
                return _Waits(result.message or none_left)
        result = _accept(session, job, statement)
    return result if isinstance(result, _Seated) else _Waits(result.message)


# --- whatever is its own ----------------------------------------------------------------------------------------------


def _try_all(session: Session, job: Job, swarm: _Swarm) -> _Result:
    if job.is_gang:
        return _NOTHING if incomplete(job) is not None else _try_gang(session, job)
    pod = job.pods[0]
    if session.shares.counts or job.queue not in session.roster.queues:
        with session.statement() as statement:
            result = _seat(session, statement.occupy, pod, candidates(pod, session.snapshot, session.now))
            return _accept(session, job, statement) if isinstance(result, _Seated) else result
    alone = _Alone(session, job)
    known = swarm.seat(pod)
    if known is not None and alone.occupy(swarm.cycle(pod), known).code is Code.SUCCESS:
        return _SEATED
    result = _seat(session, alone.occupy, pod, candidates(pod, session.snapshot, session.now))
    if alone.at_once is not None:
        swarm.follow(*alone.at_once)
    return result


class _Alone:
    """One pod needs no statement: an assignment that fails takes itself back."""

    __slots__ = ("_job", "_session", "_tries", "at_once")

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._job = job
        self._tries = 0
        self.at_once: tuple[Cycle, Seat] | None = None
        """The seat it took, if it was the first that it tried."""

    def occupy(self, cycle: Cycle, seat: Seat) -> Verdict:
        self._tries += 1
        assigned = occupy(self._session.engine, cycle, seat)
        if isinstance(assigned, Verdict):
            return assigned
        self.at_once = (cycle, seat) if self._tries == 1 else None
        self._job.pods = []
        self._session.decide(self._job, assigned)
        return SUCCESS


def _try_gang(session: Session, job: Job) -> _Result:
    """All in one reservation; else whatever seats there are, and the rest of the gang beside them."""
    unused = _NOTHING
    for reservation in _candidates_of_gang(session, job):
        result = _try_together(session, job, reservation)
        if not isinstance(result, _Unused):
            return result
        unused = unused if unused.message else result
    result = _try_apart(session, job)
    return result if isinstance(result, _Seated) or not unused.message else unused


def _try_together(session: Session, job: Job, reservation: Reservation) -> _Result:
    """Every pod of a gang in a seat of one reservation."""
    waits: _Waits | None = None
    with session.statement() as statement:
        for pod in job.pods:
            result = _seat(session, statement.occupy, pod, [reservation])
            if isinstance(result, _Unused):
                return result
            waits = result if isinstance(result, _Waits) else waits
        return waits or _accept(session, job, statement)


def _try_apart(session: Session, job: Job) -> _Result:
    """As many pods of a gang as find a seat, each for itself; the others beside them, if they are needed."""
    with session.statement() as statement:
        seated = []
        for pod in job.pods:
            own = (one for one in candidates(pod, session.snapshot, session.now) if not _is_exceeded(session, job, one))
            if isinstance(_seat(session, statement.occupy, pod, own), _Seated):
                seated.append(pod)
        if not seated:
            return _NOTHING
        lacking = place_together(session, job, lambda cycle, found: statement.allocate(cycle, found.node), seated)
        if lacking is not None:
            return _Unused(NOT_USED, f"{len(seated)} of {len(job.pods)} pods have a seat: {lacking.message}")
        return _accept(session, job, statement)


def _candidates_of_gang(session: Session, job: Job) -> list[Reservation]:
    """The reservations that any of its pods may try and that have a seat for each."""
    different = {(str(pod.metadata.labels), str(pod.metadata.owner_references)): pod for pod in reversed(job.pods)}
    found: dict[str, Reservation] = {}
    for pod in reversed(different.values()):
        found |= {one.metadata.name: one for one in candidates(pod, session.snapshot, session.now)}
    return [one for one in found.values() if too_many(one, job.pods, session.snapshot) is None]


def _is_exceeded(session: Session, job: Job, reservation: Reservation) -> bool:
    """More pods than were reserved as a template are no match for it."""
    policy = reservation.spec.match_policy or MatchPolicy.TEMPLATE
    return policy == MatchPolicy.TEMPLATE and too_many(reservation, job.pods, session.snapshot) is not None


# --- one pod, one seat ------------------------------------------------------------------------------------------------


Put = Callable[[Cycle, Seat], Verdict]
"""Puts a pod in a seat, or says why not, and has changed nothing then."""


def _seat(session: Session, put: Put, pod: Pod, reservations: Iterable[Reservation]) -> _Result:
    """Put a pod in the first seat of these reservations that takes it."""
    cycle: Cycle | None = None
    unused = _NOTHING
    tries = 0
    for seat in _seats(session, pod, reservations):
        if isinstance(seat, Mismatch):
            unused = unused if unused.message else _Unused(seat.reason, seat.message)
            continue
        cycle = cycle or Cycle(pod, session.snapshot, session.now)
        verdict = put(cycle, seat)
        if verdict.code is Code.SUCCESS:
            return _SEATED
        leaving = _predecessors(session, seat)
        if leaving and _fits_without(session, cycle, seat, leaving):
            return _Waits(_awaited(seat, leaving))
        unused = unused if unused.message else _Unused(NOT_USED, _refused(seat, verdict))
        tries += 1
        if tries == _TRIES:
            break
    return unused


def _seats(session: Session, pod: Pod, reservations: Iterable[Reservation]) -> Iterator[Seat | Mismatch]:
    """The seats to try in order; of one reservation and task, one per node, because the others there are no better."""
    for reservation in reservations:
        tried: set[tuple[str, str]] = set()
        for seat in fitting_seats(reservation, pod, session.snapshot, session.roster.default_class):
            alike = ("", "") if isinstance(seat, Mismatch) else (seat.name.task, seat.node)
            if alike not in tried:
                tried.add(alike)
                yield seat


def _over_quota(session: Session, job: Job, statement: Statement) -> str | None:
    """Why the queue of a job cannot take its pods; what their seats were charged to the same queue is no longer."""
    if not session.shares.counts and job.queue in session.roster.queues:
        return None
    request: Vector = {}
    given_back: Vector = {}
    for step in statement.steps:
        if isinstance(step, Assign):
            request = add(request, requests_of(step.pod))
            seat = session.snapshot.reservations.seat(step.seat) if step.seat is not None else None
            if seat is not None and (seat.queue or DEFAULT_QUEUE) == job.queue:
                given_back = add(given_back, requests_of(seat.stand_in))
    return session.shares.refusal(job.queue, subtract(request, given_back))


def _refused(seat: Seat, verdict: Verdict) -> str:
    name, why = seat.name, joined(verdict.reasons)
    return f"reservation {name.namespace}/{name.reservation} is not available: node {seat.node} refuses the pod: {why}"


# --- predecessors -----------------------------------------------------------------------------------------------------


def _predecessors(session: Session, seat: Seat) -> Sequence[Occupant]:
    """Pods of the same owner that are leaving, and whom the reservation was made to move."""
    book, name = session.snapshot.reservations, seat.name
    reservation = book.get(name.namespace, name.reservation)
    mover = migrating_pod(reservation) if reservation is not None else None
    return [
        one
        for one in session.leaving()
        if one.key == mover
        or (one.pod.metadata.namespace == name.namespace and seat.owners.match(one.pod, session.snapshot.kinship))
    ]


def _fits_without(session: Session, cycle: Cycle, seat: Seat, leaving: Sequence[Occupant]) -> bool:
    """Whether the seat would take the pod if these were gone."""
    with without(session.snapshot, leaving):
        session.snapshot.reservations.vacate(seat.name)
        return session.engine.fits(cycle, seat.node)


def _awaited(seat: Seat, leaving: Sequence[Occupant]) -> str:
    names = ", ".join(f"{one.pod.metadata.namespace}/{one.pod.metadata.name}" for one in leaving)
    return f"waiting for {names} to leave: its seat {seat.name} on node {seat.node} is kept"
