"""The outcomes of a binding cycle."""

from __future__ import annotations

import msgspec

from restow.model.objects import Pod
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.framework import Verdict


class ConsumedSeat(msgspec.Struct, frozen=True):
    """The seat that a Binding named. It may be None although a seat was assigned: that was released meanwhile."""

    seat: SeatName
    reservation_uid: str


class Bound(msgspec.Struct, frozen=True):
    """The pod is on its node."""

    consumed_seat: ConsumedSeat | None = None
    """The seat that it consumed, if any."""


class Lost(msgspec.Struct, frozen=True):
    """There is nothing left to bind: the pod is gone or terminating, or another component bound it."""

    pod: Pod | None
    """The pod as it is now; None if it is gone."""


class Rejected(msgspec.Struct, frozen=True):
    """A Permit plugin refused the pod, or did not permit it in time: the pod is unschedulable for now."""

    verdict: Verdict


class Failed(msgspec.Struct, frozen=True):
    """An error, of the API server, a plugin or a node that is gone: nothing is wrong with the pod."""

    message: str
    retry_at_once: bool = False
    """Whether the pod may be tried again without back-off, because another node can be found at once."""


BindingOutcome = Bound | Lost | Rejected | Failed
