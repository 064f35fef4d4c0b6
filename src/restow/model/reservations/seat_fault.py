"""TODO"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FaultReason(StrEnum):
    """What a seat may be in; the first four cost it."""

    NODE_GONE = "NodeGone"
    ROOM_TAKEN = "RoomTaken"
    LIMIT_EXCEEDED = "LimitExceeded"
    NO_LONGER_FITS = "NoLongerFits"
    NODE_UNFIT = "NodeUnfit"
    ROOM_BEING_LEFT = "RoomBeingLeft"

    @property
    def loses_seat(self) -> bool:
        return self not in (FaultReason.NODE_UNFIT, FaultReason.ROOM_BEING_LEFT)


class SeatFault(msgspec.Struct, frozen=True):
    """Why a seat cannot be relied on now."""

    reason: FaultReason
    message: str
