"""Room faults: which seats on an over-committed node have no room, or none yet.

Goes in: a node with less than its pods and seats request, because of other schedulers or of a smaller Node.
Comes out: the seats that are lost (RoomTaken) and those that wait for terminating pods (RoomBeingLeft); whole
reservations, until the rest fits. The order in which reservations lose their seats:

    1. one that awaits pods that a plan moves away: no other reservation loses a seat to room that is not there yet
    2. one with an undecided change that requests more than it was granted: no other loses a seat to a change
    3. one that is not Available
    4. the newest; names decide between equals

A pod on its way to a guaranteed seat does not cost it: if the pod needs more than the seat, it is refused before it is
bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from restow.model.cluster.resource_columns import Amounts, ResourceColumns
from restow.model.objects import Reservation
from restow.model.quantity import quantity_of
from restow.model.reservations.observed_spec import has_undecided_increase, is_available
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.seat_checks.seats_on_node import awaited_pods_on, cycle_of_seat, open_seats, staying_pods_on

_Requests = tuple[SeatName, Amounts]
"""A seat, and what the filters count for it of the resources of its node."""


def room_faults(snapshot: Snapshot, engine: Engine, row: int, now: float) -> dict[SeatName, SeatFault]:
    """The seats on an over-committed node that have no room, or none yet."""
    room, node = snapshot.room, snapshot.rows.name(row) or ""
    seats = [
        (seat.name, engine.counted_resources(cycle_of_seat(seat, snapshot, now))) for seat in open_seats(snapshot, node)
    ]
    # 1. What is free now, and what will be once terminating pods are gone. Remainders are for no pod (see
    #    `ReservationIndex.unrecorded_remainder`), so no seat is lost to them.
    numbers = {number for _, amounts in seats for number, _ in amounts}
    remainders = _remainders(snapshot, node)
    free = {number: room.left(number, row) + remainders[number] for number in numbers}
    free_later = {number: room.left(number, row, after_leaving=True) + remainders[number] for number in numbers}
    on_the_way = _requests_on_the_way(snapshot, node)
    # 2. While something is short, the last reservation gives its seats up, or waits.
    faults: dict[SeatName, SeatFault] = {}
    for reservation, group in _last_first(snapshot, node, seats):
        ignored = on_the_way if _is_guaranteed(snapshot, reservation, group) else Counter[int]()
        awaited = staying_pods_on(snapshot, reservation, node)
        expected = Counter(free_later)
        expected.update(ignored)
        for occupant in awaited:
            for number, amount in occupant.shape.amounts:
                expected[number] += amount
        lacking = _shortage(room.resources, expected, group)
        lacking_now = lacking or _shortage(
            room.resources, {number: free[number] + ignored[number] for number in free}, group
        )
        if not lacking_now:
            continue
        for name, amounts in group:
            for number, amount in amounts:
                free[number] += amount
                if lacking or awaited:  # a seat that waits for awaited pods takes no room from other reservations
                    free_later[number] += amount
            if lacking:
                faults[name] = SeatFault(FaultReason.ROOM_TAKEN, f"node {node} is over-committed by {lacking}")
            else:
                leaving = "migrating" if awaited else "terminating"
                message = f"{leaving} pods have not left node {node} yet: {lacking_now} is missing"
                faults[name] = SeatFault(FaultReason.ROOM_BEING_LEFT, message)
    return faults


def _remainders(snapshot: Snapshot, node: str) -> Counter[int]:
    """What seats on a node reserve beside smaller pods until their consumption is recorded, by resource number."""
    total = Counter[int]()
    for occupant in snapshot.occupants(node):
        for number, amount in snapshot.reservations.unrecorded_remainder(occupant):
            total[number] += amount
    return total


def _requests_on_the_way(snapshot: Snapshot, node: str) -> Counter[int]:
    """What assumed pods request on a node beyond the seats that are held for them: no other process knows of it."""
    index, total = snapshot.reservations, Counter[int]()
    for occupant in snapshot.occupants(node):
        if occupant.ledger != "requested" or occupant.assumed_at is None:
            continue
        is_in_seat = occupant.seat is not None and index.consumers.occupant_of(occupant.seat) is occupant
        seat = index.seat(occupant.seat) if occupant.seat is not None and is_in_seat else None
        held = dict(snapshot.shapes.of(seat.reserved_pod).amounts) if seat is not None else {}
        for number, amount in occupant.shape.amounts:
            total[number] += max(amount - held.get(number, 0), 0)
    return total


def _is_guaranteed(snapshot: Snapshot, reservation: Reservation, group: Iterable[_Requests]) -> bool:
    """Whether the status guarantees all of these seats in the size that they have."""
    is_firm = is_available(reservation) and not has_undecided_increase(reservation)
    return is_firm and not any(snapshot.reservations.states.is_unguaranteed(name) for name, _ in group)


def _shortage(resources: ResourceColumns, left: Mapping[int, int], group: Iterable[_Requests]) -> str:
    """How much is missing of the resources that these seats request, in words; empty if nothing is."""
    used = {number for _, amounts in group for number, amount in amounts if amount > 0}
    missing = sorted((resources.name(number), -left[number]) for number in used if left[number] < 0)
    return ", ".join(f"{quantity_of(name, amount)} {name}" for name, amount in missing)


def _last_first(
    snapshot: Snapshot, node: str, seats: Iterable[_Requests]
) -> Iterator[tuple[Reservation, list[_Requests]]]:
    """The seats on a node by reservation, in the order in which they are lost: see the top of this module."""
    groups: dict[tuple[str, str], list[_Requests]] = {}
    for name, amounts in seats:
        groups.setdefault((name.namespace, name.reservation), []).append((name, amounts))
    index = snapshot.reservations
    known = [(reservation, group) for key, group in groups.items() if (reservation := index.get(*key)) is not None]
    yield from sorted(known, key=lambda pair: _loss_order(snapshot, node, pair[0]), reverse=True)


def _loss_order(snapshot: Snapshot, node: str, reservation: Reservation) -> tuple[bool, bool, bool, str, str, str]:
    meta, awaits = reservation.metadata, bool(awaited_pods_on(snapshot, reservation, node))
    behind = has_undecided_increase(reservation), not is_available(reservation)
    return awaits, *behind, meta.creation_timestamp or "", meta.namespace or "", meta.name
