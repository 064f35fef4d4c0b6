"""Matching pods and reservations: which a pod may use, in which order, and why it may not use others.

Goes in: a pod, the reservation index, the time. Comes out: the seats to try, or a `Mismatch`: one of the three reasons
for which a reservation is no match, in a sentence.

    InvalidReservation           it does not exist, is another scheduler's to assign, is not Available, has expired, has
                                 no free seat, has owners that its status does not name, or its migrating pod has not
                                 left yet
    ReservationOwnerNotMatch     none of its owners matches the pod
    ReservationSpecNotMatch      under policy Template: the pod equals none of its tasks, or there are more pods than
                                 seats

A pod that requests a reservation by name, itself or by its PodGroup, uses no other. Other pods try all reservations of
their owner: those made for a migration first, and of these first the ones with the pod's own labels; then the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from restow.model.counted_nouns import counted_noun
from restow.model.objects import MatchPolicy, Pod, PodGroup, Reservation, ReservationPhase
from restow.model.reservations.observed_spec import has_undecided_change, is_available, status_names_all_owners
from restow.model.reservations.reservation_annotations import awaited_pods, migrating_pod, requested_reservation_name
from restow.model.reservations.reservation_index import ReservationIndex
from restow.model.reservations.seat import Seat
from restow.model.reservations.spec import is_expired, is_for_scheduler, named_schedulers
from restow.model.reservations.task_sizes import TaskSizes
from restow.model.reservations.template_comparison import describe_differences, differing_fields
from restow.model.resources import pod_requests, vector_fits
from restow.model.times import TimeError


class MismatchReason(StrEnum):
    """Why a reservation cannot be used."""

    NOT_AVAILABLE = "InvalidReservation"
    OWNER = "ReservationOwnerNotMatch"
    SPEC = "ReservationSpecNotMatch"


class Mismatch(msgspec.Struct, frozen=True):
    reason: MismatchReason
    message: str


def requested_reservation(pod: Pod, group_of: Callable[[Pod], PodGroup | None]) -> str | None:
    """The name of the only reservation that a pod may use, if the pod or its PodGroup requests one."""
    if not pod.metadata.annotations:
        return None
    group = group_of(pod)
    return requested_reservation_name(pod.metadata, group.metadata if group is not None else None)


def why_not_moved_from_named(name: str) -> str:
    """Why a pod that requests a reservation by name is not migrated."""
    return f"it requests reservation {name} by name, so its successor could use no other seat"


def usable_reservations(
    pod: Pod, index: ReservationIndex, scheduler_names: frozenset[str], now: float
) -> Iterator[Reservation]:
    """The reservations that a pod without a request by name may try, in order: those of its owner that are usable now.

    Only the scheduler of a reservation assigns its seats: two schedulers could assign one seat to two pods.
    """
    other_labels: list[Reservation] = []  # made for migrations of pods with other labels
    for reservation, seat in index.with_free_seat(pod):
        if not is_for_scheduler(reservation, scheduler_names):
            continue
        migrating = migrating_pod(reservation)
        if _is_expired(reservation, now) or (migrating and not index.has_migrating_pod_left(seat, migrating)):
            continue
        if migrating is None:
            yield from other_labels
            other_labels = []
            yield reservation
        elif seat.reserved_pod.metadata.labels == pod.metadata.labels:
            yield reservation
        else:
            other_labels.append(reservation)
    yield from other_labels


def why_none_usable(
    pods: Sequence[Pod], index: ReservationIndex, scheduler_names: frozenset[str], now: float
) -> Mismatch | None:
    """Why pods have no seat to try: why the first reservation of their owner that has not ended is no match; None if
    there is none.

    Reservations that say nothing to a user here are skipped: those made for migrations are for successors, those of
    other schedulers are for other pods, and those that a plan makes room for are only to be waited for.
    """
    for pod in pods:
        for reservation in index.live_reservations(pod):
            if (
                migrating_pod(reservation) is None
                and not _is_room_being_made(reservation)
                and is_for_scheduler(reservation, scheduler_names)
            ):
                mismatch = why_unusable(
                    reservation.metadata.namespace or "", reservation.metadata.name, index, scheduler_names, now
                )
                return mismatch or why_template_exceeded(reservation, pods, index)
    return None


def why_unusable(
    namespace: str, name: str, index: ReservationIndex, scheduler_names: frozenset[str], now: float
) -> Mismatch | None:
    """Why no pod may use a reservation that is requested by name; None if it is usable."""
    why = _why_unavailable(index.get(namespace, name), index, scheduler_names, now)
    if not why:
        return None
    return Mismatch(MismatchReason.NOT_AVAILABLE, f"reservation {namespace}/{name} is not available: {why}")


def why_owner_mismatch(reservation: Reservation, pod: Pod, index: ReservationIndex) -> Mismatch | None:
    """Why a reservation is not for a pod; None if one of its owners matches."""
    seat = _first_free_seat(index, reservation)
    if seat is not None and seat.owners.matches(pod, index.owner_chains):
        return None
    count, meta = len(reservation.spec.owners or ()), pod.metadata
    few = ("it names no owner", "its owner does not match")
    why = few[count] if count < len(few) else f"none of its {count} owners matches"
    return Mismatch(
        MismatchReason.OWNER, f"reservation {_name(reservation)} is not for pod {meta.namespace}/{meta.name}: {why}"
    )


def matching_seats(
    reservation: Reservation, pod: Pod, index: ReservationIndex, sizes: TaskSizes, default_class: str = ""
) -> Iterator[Seat | Mismatch]:
    """The free seats that a pod may try: under policy Template those of a task that it equals, by task and index, else
    all. Where there is none, a Mismatch with the task that differs least."""
    if reservation.spec.match_policy == MatchPolicy.FITS:
        yield from _free_seats_by_size(reservation, pod, index, sizes)
        return
    differing: dict[str, tuple[str, ...]] = {}
    reserved_pods: dict[str, Pod] = {}
    for seat in index.free_seats(reservation.metadata.namespace or "", reservation.metadata.name):
        task = seat.name.task
        if task not in differing:
            differing[task] = differing_fields(pod, seat.reserved_pod, default_class)
            reserved_pods[task] = seat.reserved_pod
        if not differing[task]:
            yield seat
    if differing and all(differing.values()):
        nearest = min(differing, key=lambda task: (len(differing[task]), task))
        fields = describe_differences(pod, reserved_pods[nearest], differing[nearest])
        why = f"it differs from task {nearest} in {fields}"
        yield Mismatch(MismatchReason.SPEC, f"reservation {_name(reservation)} does not match pod {_name(pod)}: {why}")


def _free_seats_by_size(
    reservation: Reservation, pod: Pod, index: ReservationIndex, sizes: TaskSizes
) -> Iterator[Seat]:
    """The free seats in the order to try them: of those that hold all of the pod the smallest first, because larger
    pods may come for the others; then those that it needs free room beside, the largest first."""
    key, free_seats = (reservation.metadata.namespace or "", reservation.metadata.name), index.free_seats
    if len(reservation.spec.tasks or ()) <= 1:
        yield from free_seats(*key)
        return
    requests = pod_requests(pod)
    too_small: list[str] = []
    for task, size in sizes.smallest_first(reservation):
        if vector_fits(requests, size):
            yield from free_seats(*key, task)
        else:
            too_small.append(task)
    for task in reversed(too_small):
        yield from free_seats(*key, task)


def why_too_many_pods(reservation: Reservation, pods: Sequence[Pod], index: ReservationIndex) -> Mismatch | None:
    """Why so many pods together are no match for a reservation; None if there is a free seat for each."""
    seats = len(index.free.names(reservation.metadata.namespace or "", reservation.metadata.name))
    if len(pods) <= seats:
        return None
    left = f"{counted_noun(len(pods), 'pod')}, {counted_noun(seats, 'seat', 'are')} left"
    message = f"reservation {_name(reservation)} does not match: {left}"
    return Mismatch(MismatchReason.SPEC, message)


def why_template_exceeded(reservation: Reservation, pods: Sequence[Pod], index: ReservationIndex) -> Mismatch | None:
    """`why_too_many_pods` under policy Template; other policies let pods without a seat run elsewhere."""
    policy = reservation.spec.match_policy or MatchPolicy.TEMPLATE
    return why_too_many_pods(reservation, pods, index) if policy == MatchPolicy.TEMPLATE else None


# ----------------------------------------------------------------------------------------------------------------------


def _why_unavailable(
    reservation: Reservation | None, index: ReservationIndex, scheduler_names: frozenset[str], now: float
) -> str:
    if reservation is None:
        return "it does not exist"
    if not is_for_scheduler(reservation, scheduler_names):
        theirs = named_schedulers(reservation)
        return f"it is for pods of {'scheduler' if len(theirs) == 1 else 'schedulers'} {' and '.join(theirs)}"
    state = reservation.status.state
    if state.phase != ReservationPhase.AVAILABLE:
        phase = f"it is {state.phase or ReservationPhase.PENDING}"
        return f"{phase}: {state.message}" if state.message else phase
    if _is_expired(reservation, now):
        return "it has expired"
    if not status_names_all_owners(reservation):
        return "its owners were changed, and its status does not name them yet"
    if _first_free_seat(index, reservation) is None and has_undecided_change(reservation):
        return "its spec was changed, and its status does not show that yet"
    if _first_free_seat(index, reservation) is None:
        seats = len(reservation.status.placements or ())
        return "its seat is not free" if seats == 1 else f"none of its {seats} seats is free"
    if _is_waiting_for_migrating_pod(reservation, index):
        return "its migrating pod has not left yet"
    return ""


def _is_waiting_for_migrating_pod(reservation: Reservation, index: ReservationIndex) -> bool:
    """Whether the migrating pod of a reservation is still where it was, so that no pod may use the seat yet."""
    migrating, seat = migrating_pod(reservation), _first_free_seat(index, reservation)
    return migrating is not None and seat is not None and not index.has_migrating_pod_left(seat, migrating)


def _is_room_being_made(reservation: Reservation) -> bool:
    """Whether pods that a plan moves away for a reservation have yet to leave its room."""
    return bool(awaited_pods(reservation)) and not is_available(reservation)


def _is_expired(reservation: Reservation, now: float) -> bool:
    try:
        return is_expired(reservation, now)
    except TimeError:
        return False


def _first_free_seat(index: ReservationIndex, reservation: Reservation) -> Seat | None:
    """The first free seat, for questions that have the same answer for all seats of a reservation."""
    return next(index.free_seats(reservation.metadata.namespace or "", reservation.metadata.name), None)


def _name(item: Reservation | Pod) -> str:
    return f"{item.metadata.namespace}/{item.metadata.name}"
