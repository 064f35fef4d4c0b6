"""Seating: one pod and the seats that it may take.

Goes in: a pod, reservations in the order in which it tries them, and how it is put in a seat. Comes out: `Seated`;
`Waits` if only pods that are leaving keep it from its seat; or `Unused` with why there is none for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from restow.model.cluster import Occupant, Seat
from restow.model.cluster.seat import migrating_pod
from restow.model.objects import Pod, Reservation
from restow.model.tenancy import DEFAULT_QUEUE
from restow.scheduling.explain import joined
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict
from restow.scheduling.jobs import Job
from restow.scheduling.reservations.matching import Mismatch, fitting_seats
from restow.scheduling.session import Session
from restow.scheduling.statement import occupy

NOT_USED = "ReservationNotUsed"
"""The reason of the event that says so."""
_TRIES = 32
"""How many seats at most a pod is tried on."""


class Seated(msgspec.Struct, frozen=True):
    pass


class Waits(msgspec.Struct, frozen=True):
    """Only those who are leaving keep the pod from its seat."""

    message: str


class Unused(msgspec.Struct, frozen=True):
    """Why no seat was taken; nothing where there was none to take."""

    reason: str = ""
    message: str = ""


Result = Seated | Waits | Unused
SEATED, NOTHING = Seated(), Unused()


Put = Callable[[Cycle, Seat], Verdict]
"""Puts a pod in a seat, or says why not, and has changed nothing then."""


def seat_down(session: Session, put: Put, pod: Pod, reservations: Iterable[Reservation]) -> Result:
    """Put a pod in the first seat of these reservations that takes it."""
    cycle: Cycle | None = None
    unused = NOTHING
    tries = 0
    for seat in _seats(session, pod, reservations):
        if isinstance(seat, Mismatch):
            unused = unused if unused.message else Unused(seat.reason, seat.message)
            continue
        cycle = cycle or Cycle(pod, session.snapshot, session.now)
        there = _as_held(session, cycle, seat)
        verdict = put(there, seat)
        if verdict.code is Code.SUCCESS:
            return SEATED
        leaving = _predecessors(session, seat)
        if leaving and _fits_without(session, there, seat, leaving):
            return Waits(_awaited(seat, leaving))
        unused = unused if unused.message else Unused(NOT_USED, _refused(seat, verdict))
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


def _as_held(session: Session, cycle: Cycle, seat: Seat) -> Cycle:
    """The attempt to sit down. A seat held for the pod's own queue stays its own on a node that was locked since."""
    if cycle.pod_class.tenancy is None or session.roster.queue_of(cycle.pod) != (seat.queue or DEFAULT_QUEUE):
        return cycle
    return Cycle(cycle.pod, cycle.snapshot, cycle.now, cycle.pod_class.unlocked)


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
    with session.statement() as trial:
        trial.evict(leaving)
        trial.vacate(seat.name)
        return session.engine.fits(cycle, seat.node)


def _awaited(seat: Seat, leaving: Sequence[Occupant]) -> str:
    names = [f"{one.pod.metadata.namespace}/{one.pod.metadata.name}" for one in leaving]
    named = names[0] if len(names) == 1 else f"{len(names)} pods, {names[0]} first,"
    return f"waiting for {named} to leave: its seat {seat.name} on node {seat.node} is kept"


# --- pods of their own ------------------------------------------------------------------------------------------------


class Alone:
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


class Swarm:
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
        if seat is None or seat.name.task != last.name.task or not seat.owners.match(pod, self._snapshot.kinship):
            return None  # the one before may have been meant by name
        return seat

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
