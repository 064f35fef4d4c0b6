"""How a binding cycle may end."""

from __future__ import annotations

import msgspec

from restow.model.objects import Pod
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.framework import Verdict


class ConsumedSeat(msgspec.Struct, frozen=True):
    """The seat that a Binding named: what was decided may have been released before that was written."""

    seat: SeatName
    reservation_uid: str
    """The UID of its reservation."""


class Bound(msgspec.Struct, frozen=True):
    """The pod is on its node."""

    consumed_seat: ConsumedSeat | None = None
    """In which seat, if in one."""


class Lost(msgspec.Struct, frozen=True):
    """There is nothing left to bind: the pod is gone, or going, or somebody else bound it."""

    pod: Pod | None
    """As it is now, if it is."""


class Rejected(msgspec.Struct, frozen=True):
    """Permit said no, or waited too long."""

    verdict: Verdict


class Failed(msgspec.Struct, frozen=True):
    """It did not work out; nothing is wrong with the pod."""

    message: str
    at_once: bool = False
    """Whether trying again without back-off can help."""


BindingOutcome = Bound | Lost | Rejected | Failed
