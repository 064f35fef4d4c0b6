"""The open seats on a node, the pods that are to leave it, and the cycle in which the filters are asked about a
seat."""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.cluster import Occupant
from restow.model.objects import Reservation
from restow.model.reservations.reservation_annotations import awaited_pods
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Cycle


def open_seats_on(snapshot: Snapshot, node: str) -> list[SeatName]:
    """The names of `open_seats`."""
    return [seat.name for seat in open_seats(snapshot, node)]


def open_seats(snapshot: Snapshot, node: str) -> Iterator[Seat]:
    """The unconsumed seats that take room on a node: by their reserved pods, or by the pods on their way to them."""
    index = snapshot.reservations
    for occupant in snapshot.occupants(node):
        name = SeatName.parse(occupant.key) if occupant.ledger == "reserved" else occupant.seat
        seat = index.seat(name) if name is not None else None
        if seat is None or seat.recorded_consumer is not None:
            continue
        is_reserved = occupant.ledger == "reserved"
        if is_reserved or (occupant.assumed_at is not None and index.consumers.occupant_of(seat.name) is occupant):
            yield seat


def awaited_pods_on(snapshot: Snapshot, reservation: Reservation, node: str) -> list[Occupant]:
    """The pods on a node that a plan moves away for a reservation, terminating or not."""
    occupants = (snapshot.pods.known.get(uid) for uid in awaited_pods(reservation))
    return [occupant for occupant in occupants if occupant is not None and occupant.node == node]


def staying_pods_on(snapshot: Snapshot, reservation: Reservation, node: str) -> list[Occupant]:
    """Those of the awaited pods that do not terminate yet: the room of the others counts as releasing already."""
    return [occupant for occupant in awaited_pods_on(snapshot, reservation, node) if not occupant.leaving]


def cycle_of_seat(seat: Seat, snapshot: Snapshot, now: float) -> Cycle:
    """The cycle of the reserved pod of a seat. A node that was locked for another queue since keeps the seat, so the
    class is that without locks."""
    return Cycle(seat.reserved_pod, snapshot, now, snapshot.class_of(seat.reserved_pod).unlocked)
