"""Whose reservation is this? Which reservations a pod may use, in which order, and why it may not use others.

Goes in: a pod, the reservations of the snapshot, the time. Comes out: the seats to try, or a `Mismatch`: one of the
three reasons for which the use of a reservation is invalid, in a sentence.

    InvalidReservation           it does not exist, is not Available, is over, has no seat left, or the pod that it
                                 moves has not left yet
    ReservationOwnerNotMatch     none of its owners speaks of the pod
    ReservationSpecNotMatch      under policy Template: the pod is no task of it, or there are more pods than seats

A pod, or its PodGroup, that names a reservation insists on it. One that does not tries all that may be its own: those
made for a migration first, and of these first the ones made for a pod that looked like it; then the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from restow.model.cluster import USE_RESERVATION_ANNOTATION, Seat, Snapshot
from restow.model.cluster.seat import is_expired, migrating_pod
from restow.model.objects import MatchPolicy, ObjectMeta, Pod, Reservation, ReservationPhase
from restow.model.times import TimeError
from restow.model.words import number_of
from restow.scheduling.reservations.comparison import differences


class Misuse(StrEnum):
    """Why a reservation cannot be used."""

    NOT_AVAILABLE = "InvalidReservation"
    OWNER = "ReservationOwnerNotMatch"
    SPEC = "ReservationSpecNotMatch"


class Mismatch(msgspec.Struct, frozen=True):
    reason: Misuse
    message: str


def named_by(pod: Pod, snapshot: Snapshot) -> str | None:
    """The reservation that a pod insists on, or that its PodGroup does."""
    if not pod.metadata.annotations:
        return None
    group = snapshot.kinship.group_of(pod)
    return _named(pod.metadata) or (_named(group.metadata) if group is not None else None)


def candidates(pod: Pod, snapshot: Snapshot, now: float) -> Iterator[Reservation]:
    """The reservations a pod may try without naming one: its owner's, usable now, in order."""
    look_alikes_first: list[Reservation] = []
    for reservation, seat in snapshot.reservations.candidates(pod):
        mover = migrating_pod(reservation)
        if _is_expired(reservation, now) or (mover and not snapshot.reservations.is_mover_gone(seat, mover)):
            continue
        if mover is None:
            yield from look_alikes_first
            look_alikes_first = []
            yield reservation
        elif seat.stand_in.metadata.labels == pod.metadata.labels:
            yield reservation
        else:
            look_alikes_first.append(reservation)
    yield from look_alikes_first


def why_not_usable(namespace: str, name: str, snapshot: Snapshot, now: float) -> Mismatch | None:
    """What keeps everybody from a reservation that is asked for by name."""
    reservation = snapshot.reservations.get(namespace, name)
    why = _unavailable(reservation, snapshot, now)
    return Mismatch(Misuse.NOT_AVAILABLE, f"reservation {namespace}/{name} is not available: {why}") if why else None


def why_not_its(reservation: Reservation, pod: Pod, snapshot: Snapshot) -> Mismatch | None:
    """What is wrong if none of a reservation's owners speaks of a pod."""
    seat = _first(snapshot, reservation)
    if seat is not None and seat.owners.match(pod, snapshot.kinship):
        return None
    count, meta = len(reservation.spec.owners or ()), pod.metadata
    said = f"none of its {count} owners matches" if count else "it names no owner"
    return Mismatch(
        Misuse.OWNER, f"reservation {_name(reservation)} is not for pod {meta.namespace}/{meta.name}: {said}"
    )


def fitting_seats(
    reservation: Reservation, pod: Pod, snapshot: Snapshot, default_class: str = ""
) -> Iterator[Seat | Mismatch]:
    """The vacant seats that a pod may try, by task and index: of its own task under policy Template, otherwise all.
    Where there is none that it may, why."""
    by_task: dict[str, tuple[str, ...]] = {}
    for seat in snapshot.reservations.vacant(reservation.metadata.namespace or "", reservation.metadata.name):
        task = seat.name.task
        if task not in by_task:
            fits = reservation.spec.match_policy == MatchPolicy.FITS
            by_task[task] = () if fits else differences(pod, seat.stand_in, default_class)
        if not by_task[task]:
            yield seat
    if by_task and all(by_task.values()):
        nearest = min(by_task, key=lambda task: (len(by_task[task]), task))
        said = f"it differs from task {nearest} in {', '.join(by_task[nearest])}"
        yield Mismatch(Misuse.SPEC, f"reservation {_name(reservation)} does not match pod {_name(pod)}: {said}")


def too_many(reservation: Reservation, pods: Sequence[Pod], snapshot: Snapshot) -> Mismatch | None:
    """Fewer pods than seats may use a reservation, more may not."""
    seats = len(snapshot.reservations.vacancies.seats(reservation.metadata.namespace or "", reservation.metadata.name))
    if len(pods) <= seats:
        return None
    left = f"{number_of(len(pods), 'pod')}, {number_of(seats, 'seat', 'are')} left"
    message = f"reservation {_name(reservation)} does not match: {left}"
    return Mismatch(Misuse.SPEC, message)


# ----------------------------------------------------------------------------------------------------------------------


def _unavailable(reservation: Reservation | None, snapshot: Snapshot, now: float) -> str:
    if reservation is None:
        return "it does not exist"
    state = reservation.status.state
    if state.phase != ReservationPhase.AVAILABLE:
        said = f"it is {state.phase or ReservationPhase.PENDING}"
        return f"{said}: {state.message}" if state.message else said
    if _is_expired(reservation, now):
        return "it has expired"
    if _first(snapshot, reservation) is None:
        return f"all {len(reservation.status.placements or ())} of its seats are taken"
    if _awaits(reservation, snapshot):
        return "the pod that it moves has not left yet"
    return ""


def _awaits(reservation: Reservation, snapshot: Snapshot) -> bool:
    """Whether a reservation made for a migration is closed: the pod that moves is still where it was."""
    mover, seat = migrating_pod(reservation), _first(snapshot, reservation)
    return mover is not None and seat is not None and not snapshot.reservations.is_mover_gone(seat, mover)


def _is_expired(reservation: Reservation, now: float) -> bool:
    try:
        return is_expired(reservation, now)
    except TimeError:
        return False


def _first(snapshot: Snapshot, reservation: Reservation) -> Seat | None:
    """The first vacant seat; what does not depend on the task is the same for all of them."""
    return next(snapshot.reservations.vacant(reservation.metadata.namespace or "", reservation.metadata.name), None)


def _named(metadata: ObjectMeta) -> str | None:
    return (metadata.annotations or {}).get(USE_RESERVATION_ANNOTATION) or None


def _name(item: Reservation | Pod) -> str:
    return f"{item.metadata.namespace}/{item.metadata.name}"
