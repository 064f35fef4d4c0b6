"""What scheduling decides, as values; `control` carries them out in order, and dry runs print them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restow.model.objects import Placement, Pod, PodGroup, PodGroupStatus, Reservation
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.framework import Code, Cycle


class Assign(msgspec.Struct, frozen=True, gc=False):
    """The pod goes to the node: it is assumed there and Reserve and Permit have passed; its binding cycle may begin."""

    cycle: Cycle
    node: str
    waits: Mapping[str, float] = {}
    """Plugins that must allow it first, with the seconds to wait for each at most."""
    seat: SeatName | None = None
    """The seat of a reservation that it takes: named in the write that binds it, recorded as consumed afterwards."""

    @property
    def pod(self) -> Pod:
        return self.cycle.pod


class Nominate(msgspec.Struct, frozen=True):
    """The pod is nominated to a node on which terminating pods are leaving room."""

    pod: Pod
    node: str


class RefusePod(msgspec.Struct, frozen=True):
    """The pod has no node now. The message is what condition and event say."""

    pod: Pod
    code: Code
    message: str
    plugins: frozenset[str] = frozenset()
    """The plugins that refused: the events that they registered may change it."""


class RecordEvent(msgspec.Struct, frozen=True):
    """An Event about a pod; what becomes of the pod is another decision."""

    pod: Pod
    reason: str
    message: str


class HoldSeats(msgspec.Struct, frozen=True):
    """The reservation gets these placements, besides those that it has; they are assumed."""

    reservation: Reservation
    placements: tuple[Placement, ...]
    waiting: bool = False
    """Whether some of the room is not free yet: terminating pods are still leaving it."""


class RefuseReservation(msgspec.Struct, frozen=True):
    """There is no room now for what the reservation still has to place: all of it, or what its HoldSeats left out."""

    reservation: Reservation
    message: str
    plugins: frozenset[str] = frozenset()
    """The plugins that refused: the events that they registered may change it."""
    code: Code = Code.UNSCHEDULABLE


class SetPodGroupStatus(msgspec.Struct, frozen=True):
    """The status a PodGroup is to have."""

    group: PodGroup
    status: PodGroupStatus


Decision = Assign | Nominate | RefusePod | RecordEvent | HoldSeats | RefuseReservation | SetPodGroupStatus
