"""Whose reservation is this? Which reservations a pod may use, in which order, and why it may not use others.

Goes in: a pod, the reservations of the snapshot, the time. Comes out: the seats to try, or a `Mismatch`: one of the
three reasons for which the use of a reservation is invalid, in a sentence.

    InvalidReservation           it does not exist, is another scheduler's to give away, is not Available, is over, has
                                 no seat left, is for others than its status says, or the pod that it moves has not
                                 left yet
    ReservationOwnerNotMatch     none of its owners speaks of the pod
    ReservationSpecNotMatch      under policy Template: the pod is no task of it, or there are more pods than seats

A pod, or its PodGroup, that names a reservation insists on it. One that does not tries all that may be its own: those
made for a migration first, and of these first the ones made for a pod that looked like it; then the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from restow.model.objects import MatchPolicy, Pod, PodGroup, Reservation, ReservationPhase
from restow.model.reservations.observed_spec import has_undecided_change, is_available, status_names_all_owners
from restow.model.reservations.reservation_annotations import awaited_pods, migrating_pod, requested_reservation_name
from restow.model.reservations.reservation_index import ReservationIndex
from restow.model.reservations.seat import Seat
from restow.model.reservations.spec import is_expired, is_for_scheduler, named_schedulers
from restow.model.reservations.task_sizes import Sizes
from restow.model.reservations.template_comparison import differences, in_detail
from restow.model.resources import fits, pod_requests
from restow.model.times import TimeError
from restow.model.words import number_of


class MismatchReason(StrEnum):
    """Why a reservation cannot be used."""

    NOT_AVAILABLE = "InvalidReservation"
    OWNER = "ReservationOwnerNotMatch"
    SPEC = "ReservationSpecNotMatch"


class Mismatch(msgspec.Struct, frozen=True):
    reason: MismatchReason
    message: str


def requested_reservation(pod: Pod, group_of: Callable[[Pod], PodGroup | None]) -> str | None:
    """The reservation that a pod insists on, or that its PodGroup does."""
    if not pod.metadata.annotations:
        return None
    group = group_of(pod)
    return requested_reservation_name(pod.metadata, group.metadata if group is not None else None)


def why_not_moved_from_named(name: str) -> str:
    """Why a pod that insists on a reservation is not moved to another seat."""
    return f"it asks for reservation {name} by name, so its successor would take no other seat"


def usable_reservations(pod: Pod, index: ReservationIndex, names: frozenset[str], now: float) -> Iterator[Reservation]:
    """The reservations a pod may try without naming one: its owner's, usable now, in order. Only whoever looks after a
    reservation gives its seats away, or two pods would be given the same."""
    look_alikes_first: list[Reservation] = []
    for reservation, seat in index.with_free_seat(pod):
        if not is_for_scheduler(reservation, names):
            continue
        mover = migrating_pod(reservation)
        if _is_expired(reservation, now) or (mover and not index.has_migrating_pod_left(seat, mover)):
            continue
        if mover is None:
            yield from look_alikes_first
            look_alikes_first = []
            yield reservation
        elif seat.reserved_pod.metadata.labels == pod.metadata.labels:
            yield reservation
        else:
            look_alikes_first.append(reservation)
    yield from look_alikes_first


def why_none_usable(pods: Sequence[Pod], index: ReservationIndex, names: frozenset[str], now: float) -> Mismatch | None:
    """Why pods have no seat to try, in the words of the first reservation that is for one of them and has not ended;
    None if there is none. Those made to move others are for whoever takes the place of these, and for nobody else as
    long as they have not left; those of other schedulers are for theirs. Where a plan still makes the room, there is
    nothing to do but to wait for it."""
    for pod in pods:
        for one in index.live_reservations(pod):
            if migrating_pod(one) is None and not _is_being_cleared(one) and is_for_scheduler(one, names):
                mismatch = why_unusable(one.metadata.namespace or "", one.metadata.name, index, names, now)
                return mismatch or why_template_exceeded(one, pods, index)
    return None


def why_unusable(namespace: str, name: str, index: ReservationIndex, names: frozenset[str], now: float) -> Mismatch | None:
    """What keeps everybody from a reservation that is asked for by name."""
    reservation = index.get(namespace, name)
    why = _unavailable(reservation, index, names, now)
    return Mismatch(MismatchReason.NOT_AVAILABLE, f"reservation {namespace}/{name} is not available: {why}") if why else None


def why_owner_mismatch(reservation: Reservation, pod: Pod, index: ReservationIndex) -> Mismatch | None:
    """What is wrong if none of a reservation's owners speaks of a pod."""
    seat = _first(index, reservation)
    if seat is not None and seat.owners.matches(pod, index.owner_chains):
        return None
    count, meta = len(reservation.spec.owners or ()), pod.metadata
    few = ("it names no owner", "its owner does not match")
    said = few[count] if count < len(few) else f"none of its {count} owners matches"
    return Mismatch(
        MismatchReason.OWNER, f"reservation {_name(reservation)} is not for pod {meta.namespace}/{meta.name}: {said}"
    )


def matching_seats(
    reservation: Reservation, pod: Pod, index: ReservationIndex, sizes: Sizes, default_class: str = ""
) -> Iterator[Seat | Mismatch]:
    """The vacant seats that a pod may try: of its own task under policy Template, by task and index, otherwise all.
    Where there is none that it may, why."""
    if reservation.spec.match_policy == MatchPolicy.FITS:
        yield from _large_enough_first(reservation, pod, index, sizes)
        return
    by_task: dict[str, tuple[str, ...]] = {}
    stand_ins: dict[str, Pod] = {}
    for seat in index.free_seats(reservation.metadata.namespace or "", reservation.metadata.name):
        task = seat.name.task
        if task not in by_task:
            by_task[task] = differences(pod, seat.reserved_pod, default_class)
            stand_ins[task] = seat.reserved_pod
        if not by_task[task]:
            yield seat
    if by_task and all(by_task.values()):
        nearest = min(by_task, key=lambda task: (len(by_task[task]), task))
        said = f"it differs from task {nearest} in {in_detail(pod, stand_ins[nearest], by_task[nearest])}"
        yield Mismatch(MismatchReason.SPEC, f"reservation {_name(reservation)} does not match pod {_name(pod)}: {said}")


def _large_enough_first(reservation: Reservation, pod: Pod, index: ReservationIndex, sizes: Sizes) -> Iterator[Seat]:
    """Of the seats in which a pod fits by itself the smallest first, because larger pods may come for the others; then
    those that it needs room beside, the largest first."""
    key, vacant = (reservation.metadata.namespace or "", reservation.metadata.name), index.free_seats
    if len(reservation.spec.tasks or ()) <= 1:
        yield from vacant(*key)
        return
    asks = pod_requests(pod)
    too_small: list[str] = []
    for task, offers in sizes.tasks(reservation):
        if fits(asks, offers):
            yield from vacant(*key, task)
        else:
            too_small.append(task)
    for task in reversed(too_small):
        yield from vacant(*key, task)


def why_too_many_pods(reservation: Reservation, pods: Sequence[Pod], index: ReservationIndex) -> Mismatch | None:
    """Fewer pods than seats may use a reservation, more may not."""
    seats = len(index.free.names(reservation.metadata.namespace or "", reservation.metadata.name))
    if len(pods) <= seats:
        return None
    left = f"{number_of(len(pods), 'pod')}, {number_of(seats, 'seat', 'are')} left"
    message = f"reservation {_name(reservation)} does not match: {left}"
    return Mismatch(MismatchReason.SPEC, message)


def why_template_exceeded(reservation: Reservation, pods: Sequence[Pod], index: ReservationIndex) -> Mismatch | None:
    """More pods than were reserved as a template are no match for it."""
    policy = reservation.spec.match_policy or MatchPolicy.TEMPLATE
    return why_too_many_pods(reservation, pods, index) if policy == MatchPolicy.TEMPLATE else None


# ----------------------------------------------------------------------------------------------------------------------


def _unavailable(reservation: Reservation | None, index: ReservationIndex, names: frozenset[str], now: float) -> str:
    if reservation is None:
        return "it does not exist"
    if not is_for_scheduler(reservation, names):
        theirs = named_schedulers(reservation)
        return f"it is for the pods of {'scheduler' if len(theirs) == 1 else 'schedulers'} {' and '.join(theirs)}"
    state = reservation.status.state
    if state.phase != ReservationPhase.AVAILABLE:
        said = f"it is {state.phase or ReservationPhase.PENDING}"
        return f"{said}: {state.message}" if state.message else said
    if _is_expired(reservation, now):
        return "it has expired"
    if not status_names_all_owners(reservation):
        return "its owners were changed, and its status does not name them yet"
    if _first(index, reservation) is None and has_undecided_change(reservation):
        return "it was changed, and its status does not say so yet"
    if _first(index, reservation) is None:
        seats = len(reservation.status.placements or ())
        return "its seat is taken" if seats == 1 else f"all {seats} of its seats are taken"
    if _awaits(reservation, index):
        return "the pod that it moves has not left yet"
    return ""


def _awaits(reservation: Reservation, index: ReservationIndex) -> bool:
    """Whether a reservation made for a migration is closed: the pod that moves is still where it was."""
    mover, seat = migrating_pod(reservation), _first(index, reservation)
    return mover is not None and seat is not None and not index.has_migrating_pod_left(seat, mover)


def _is_being_cleared(reservation: Reservation) -> bool:
    """Whether pods that a plan moves away have yet to leave its room."""
    return bool(awaited_pods(reservation)) and not is_available(reservation)


def _is_expired(reservation: Reservation, now: float) -> bool:
    try:
        return is_expired(reservation, now)
    except TimeError:
        return False


def _first(index: ReservationIndex, reservation: Reservation) -> Seat | None:
    """The first vacant seat; what does not depend on the task is the same for all of them."""
    return next(index.free_seats(reservation.metadata.namespace or "", reservation.metadata.name), None)


def _name(item: Reservation | Pod) -> str:
    return f"{item.metadata.namespace}/{item.metadata.name}"
