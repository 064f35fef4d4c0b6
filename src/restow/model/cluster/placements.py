"""Placements that were decided and that a reservation's status does not show yet."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from restow.model.objects import Placement, Reservation


class AssumedPlacements(msgspec.Struct, frozen=True):
    placements: tuple[Placement, ...]
    at: float


def not_shown(reservation: Reservation, assumed: Iterable[Placement]) -> tuple[Placement, ...]:
    """The placements that the status does not show, each seat once, the latest."""
    shown = {(one.task, one.index) for one in reservation.status.placements or ()}
    seats = {(one.task, one.index): one for one in assumed}
    return tuple(one for seat, one in seats.items() if seat not in shown)
