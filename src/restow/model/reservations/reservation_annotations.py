"""TODO"""

from __future__ import annotations

from restow.model.objects import (
    ObjectMeta,
    Pod,
    Reservation,
)
from restow.model.reservations.seat_name import SeatName

RESERVATION_ANNOTATION = "restow.sh/reservation"
"""On a pod: the seat it took. Written by the Binding that binds it."""

RESERVATION_UID_ANNOTATION = "restow.sh/reservation-uid"
"""On a pod: which reservation of that name it was. A later one of the same name does not have its seat taken."""

MOVED_FROM_ANNOTATION = "restow.sh/moved-from"
"""On a job, on the reservation made for it and on the pod that took its seat: the node the pod's predecessor ran on."""

MOVED_AT_ANNOTATION = "restow.sh/moved-at"
"""On a pod that took the seat of a migration: when."""

MIGRATING_ANNOTATION = "restow.sh/migrating"
"""On a reservation made for a migration: the UID of the pod that moves. The seat opens once it is leaving, or gone."""

AWAITS_ANNOTATION = "restow.sh/awaits"
"""On a reservation: the UIDs of pods that a plan moves away, with commas between them. For this reservation their room
counts as being left even before they are terminating."""

USE_RESERVATION_ANNOTATION = "restow.sh/use-reservation"
"""On a pod or a PodGroup: the name of the reservation that it insists on."""


def migrating_pod(reservation: Reservation) -> str | None:
    """The UID of the pod that a reservation was made to move."""
    return (reservation.metadata.annotations or {}).get(MIGRATING_ANNOTATION) or None


def awaited_pods(reservation: Reservation) -> tuple[str, ...]:
    """The UIDs of pods that are about to leave the room that a reservation is after, in order."""
    written = (reservation.metadata.annotations or {}).get(AWAITS_ANNOTATION)
    return tuple(sorted({uid.strip() for uid in written.split(",")} - {""})) if written else ()


def named_seat(pod: Pod) -> SeatName | None:
    """The seat a pod says it takes."""
    written = (pod.metadata.annotations or {}).get(RESERVATION_ANNOTATION)
    return SeatName.parse(written) if written else None


def named_reservation_uid(pod: Pod) -> str | None:
    """The UID of the reservation whose seat a pod says it takes; it need not say."""
    return (pod.metadata.annotations or {}).get(RESERVATION_UID_ANNOTATION)


def requested_reservation_name(*metadata: ObjectMeta | None) -> str | None:
    """The reservation that a pod asks for by name, or else its PodGroup does: it takes no other seat."""
    named = ((one.annotations or {}).get(USE_RESERVATION_ANNOTATION) for one in metadata if one is not None)
    return next((name for name in named if name), None)
