"""The annotations by which pods, PodGroups, jobs and reservations refer to seats and moves, and how to read them."""

from __future__ import annotations

from restow.model.objects import (
    ObjectMeta,
    Pod,
    Reservation,
)
from restow.model.reservations.seat_name import SeatName

RESERVATION_ANNOTATION = "restow.sh/reservation"
"""On a pod: the name of the seat that it consumed. The Binding writes it, so binding and consuming are one write."""

RESERVATION_UID_ANNOTATION = "restow.sh/reservation-uid"
"""On a pod: the UID of the reservation of its seat. A later reservation of the same name keeps its own seats."""

MOVED_FROM_ANNOTATION = "restow.sh/moved-from"
"""On a job, on the reservation made for it and on the successor in its seat: the node of the migrating pod."""

MOVED_AT_ANNOTATION = "restow.sh/moved-at"
"""On a successor that consumed the seat of a migration: when it did."""

MIGRATING_ANNOTATION = "restow.sh/migrating"
"""On a reservation made for a migration: the UID of the migrating pod. No pod may consume the seat before the migrating
pod is terminating or gone."""

AWAITS_ANNOTATION = "restow.sh/awaits"
"""On a reservation: the UIDs, separated by commas, of pods that a plan moves away. For this reservation the room of
these pods counts as being released even before they terminate."""

USE_RESERVATION_ANNOTATION = "restow.sh/use-reservation"
"""On a pod or a PodGroup: the name of the only reservation that it may use."""


def migrating_pod(reservation: Reservation) -> str | None:
    """The UID of the pod that a reservation was made to migrate; None for other reservations."""
    return (reservation.metadata.annotations or {}).get(MIGRATING_ANNOTATION) or None


def awaited_pods(reservation: Reservation) -> tuple[str, ...]:
    """The sorted UIDs of the pods that a plan moves away to make room for a reservation."""
    written = (reservation.metadata.annotations or {}).get(AWAITS_ANNOTATION)
    return tuple(sorted({uid.strip() for uid in written.split(",")} - {""})) if written else ()


def named_seat(pod: Pod) -> SeatName | None:
    """The seat that the annotation of a pod names; None without a readable one."""
    written = (pod.metadata.annotations or {}).get(RESERVATION_ANNOTATION)
    return SeatName.parse(written) if written else None


def named_reservation_uid(pod: Pod) -> str | None:
    """The UID of the reservation that the annotation of a pod names; None without one."""
    return (pod.metadata.annotations or {}).get(RESERVATION_UID_ANNOTATION)


def requested_reservation_name(*metadata: ObjectMeta | None) -> str | None:
    """The name of the reservation that the first of these metadata (a pod, then its PodGroup) requests; None without
    one."""
    named = ((each.annotations or {}).get(USE_RESERVATION_ANNOTATION) for each in metadata if each is not None)
    return next((name for name in named if name), None)
