"""Seating: one pod and the seats that it may take.

Goes in: a pod, reservations in the order in which it tries them, and how it is put in a seat. Comes out: `Seated`;
`Waits` if only pods that are leaving keep it from its seat; `Later` if it is not its turn to take what it needs beyond
the seat; or `Unused` with why there is none for it.

Every seat is tried, however many there are. So that the next pod need not do the same again, a session keeps in mind
which seats refused pods of its class: they are tried after all others, and only some of them. A session in which so
many were tried in vain that everybody would have to wait for it tries only some for each of the pods that are left.
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
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict
from restow.scheduling.jobs import Job
from restow.scheduling.seat_checks.admission_check import attempt
from restow.scheduling.session import Session
from restow.scheduling.statement import occupy

NOT_USED = "ReservationNotUsed"
"""The reason of the event that says so."""
_SOME = 32
"""How many seats at most that refused others of its class a pod is tried on."""
_MANY = 10_000
"""After how many tries in vain a session tries no more than that for any pod; they take about a second."""


class Seated(msgspec.Struct, frozen=True):
    pass


class Waits(msgspec.Struct, frozen=True):
    """Only those who are leaving keep the pod from its seat, or it insists on a reservation that it may not use."""

    message: str
    reason: str = ""
    """Which of the reasons for which the use of a reservation is invalid."""
    plugins: frozenset[str] = frozenset()
    """Who else refuses it."""


class Unused(msgspec.Struct, frozen=True):
    """Why no seat was taken; nothing where there was none to take."""

    reason: str = ""
    message: str = ""


class Later(msgspec.Struct, frozen=True):
    """More is needed than the seats hold, and others may come before it for that."""


Result = Seated | Waits | Unused | Later
SEATED, NOTHING, LATER = Seated(), Unused(), Later()


Put = Callable[[Cycle, Seat], Verdict]
"""Puts a pod in a seat, or says why not, and has changed nothing then."""


def seat_down(session: Session, put: Put, pod: Pod, reservations: Iterable[Reservation]) -> Result:
    """Put a pod in the first seat of these reservations that takes it."""
    unused = NOTHING
    tries = 0
    for one in _seats(session, pod, reservations):
        if isinstance(one, Mismatch):
            unused = unused if unused.message else Unused(one.reason, one.message)
            continue
        cycle, seat = one
        if session.only_seats and _is_larger(session, cycle, seat):
            return LATER
        verdict = put(cycle, seat)
        if verdict.code is Code.SUCCESS:
            return SEATED
        leaving = _predecessors(session, seat)
        if leaving and _fits_without(session, cycle, seat, leaving):
            return Waits(_awaited(seat, leaving))
        unused = unused if unused.message else Unused(NOT_USED, _refused(seat, verdict))
        session.refusing.setdefault(cycle.pod_class, set()).add(seat.name)
        session.in_vain += 1
        tries += 1
        if tries >= _SOME and session.in_vain >= _MANY:
            break
    return unused


Try = tuple[Cycle, Seat]


def _seats(session: Session, pod: Pod, reservations: Iterable[Reservation]) -> Iterator[Try | Mismatch]:
    """The seats to try in order, each with the attempt to sit down there. Those on nodes that are not for such pods are
    left out once any seat has refused one; only if there are no others, one of them is tried, to say why not."""
    whoever: Cycle | None = None
    again: list[Try] = []
    unsuited: list[Try] = []
    for reservation in reservations:
        cycle: Cycle | None = None
        for seat in _one_per_node(session, pod, reservation):
            if isinstance(seat, Mismatch):
                yield seat
                continue
            whoever = whoever or Cycle(pod, session.snapshot, session.now)
            cycle = cycle or attempt(whoever, seat, session.roster.queue_of)
            refusing = session.refusing.get(cycle.pod_class)
            if refusing is None:
                yield cycle, seat
            elif not session.suits(cycle, seat.node):
                unsuited.append((cycle, seat))
            elif seat.name in refusing:
                again.append((cycle, seat))
            else:
                yield cycle, seat
    yield from again[:_SOME] or unsuited[:1]


def _one_per_node(session: Session, pod: Pod, reservation: Reservation) -> Iterator[Seat | Mismatch]:
    """The seats of a reservation in order; of one task, one per node, because the others there are no better."""
    tried: set[tuple[str, str]] = set()
    for seat in matching_seats(
        reservation, pod, session.snapshot.reservations, session.sizes, session.roster.default_priority_class
    ):
        alike = ("", "") if isinstance(seat, Mismatch) else (seat.name.task, seat.node)
        if alike not in tried:
            tried.add(alike)
            yield seat


def _is_larger(session: Session, cycle: Cycle, seat: Seat) -> bool:
    """Whether a pod takes room that the seat does not hold."""
    if session.snapshot.shapes.of(seat.reserved_pod).amounts == cycle.pod_class.shape.amounts:
        return False
    held = dict(session.engine.counted_resources(Cycle(seat.reserved_pod, cycle.snapshot, cycle.now)))
    return any(amount > held.get(resource, 0) for resource, amount in session.engine.counted_resources(cycle))


def _refused(seat: Seat, verdict: Verdict) -> str:
    name, why = seat.name, join_reasons(verdict.reasons)
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
        or (
            one.pod.metadata.namespace == name.namespace and seat.owners.matches(one.pod, session.snapshot.owner_chains)
        )
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

    __slots__ = ("_cycle", "_last", "_refusing", "_snapshot", "_version")

    def __init__(self, session: Session) -> None:
        self._snapshot = session.snapshot
        self._refusing = session.refusing
        self._cycle: Cycle | None = None
        self._last: Seat | None = None
        self._version = -1

    def follow(self, cycle: Cycle, seat: Seat) -> None:
        """The pod of this cycle took the very first seat that it tried."""
        self._cycle, self._last, self._version = cycle, seat, self._snapshot.classes.version

    def seat(self, pod: Pod) -> Seat | None:
        """The seat that a pod would try first, if that is known."""
        last, book = self._last, self._snapshot.reservations
        if last is None or self._cycle is None or not _are_alike(pod, self._cycle.pod):
            return None
        if book.free.owner_index.names_pod(pod):
            return None
        name = last.name
        seat = next(book.free_seats(name.namespace, name.reservation), None)
        if seat is not None and seat.name.task != name.task:
            seat = next(book.free_seats(name.namespace, name.reservation, name.task), None)
        if seat is None or (
            seat.owners.has_pod_reference and not seat.owners.matches(pod, self._snapshot.owner_chains)
        ):
            return None  # the one before may have been meant by name
        return None if seat.name in self._refusing.get(self._cycle.pod_class, ()) else seat

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
