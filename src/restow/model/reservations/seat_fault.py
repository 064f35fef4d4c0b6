"""Seat faults: why an open seat cannot be relied on now."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FaultReason(StrEnum):
    """The reasons, as the status of the reservation writes them. The first four lose the seat."""

    NODE_GONE = "NodeGone"
    """The node does not exist (any more)."""
    ROOM_TAKEN = "RoomTaken"
    """The node is over-committed, even once terminating pods are gone: `scheduling.seat_checks.room_faults`."""
    LIMIT_EXCEEDED = "LimitExceeded"
    """The reservation was changed, to more than its queue or namespace may have: `spec_increase`."""
    NO_LONGER_FITS = "NoLongerFits"
    """The reservation was changed, to a pod that the node of the seat refuses: `spec_change`."""
    NODE_UNFIT = "NodeUnfit"
    """The node is cordoned, or refuses the pod of the seat by its taints, labels or pods. The seat is held."""
    ROOM_BEING_LEFT = "RoomBeingLeft"
    """The room is there only once terminating pods, or pods that the reservation awaits, have left. The seat is
    held."""

    @property
    def loses_seat(self) -> bool:
        return self not in (FaultReason.NODE_UNFIT, FaultReason.ROOM_BEING_LEFT)


class SeatFault(msgspec.Struct, frozen=True):
    """The fault of one seat, with a message for the status."""

    reason: FaultReason
    message: str
