"""How the seats on a node stand: may they be relied on?

Goes in: the snapshot and the seats of a reservation. Comes out: those that nobody took and that are in trouble, each
with why.

    NodeGone        the node does not exist (any more): the seat is lost
    RoomTaken       there is more on the node than it offers of what filters count, even once those who are leaving
                    have left: seats are lost, those of the newest reservation first, until the rest fits
    LimitExceeded   it was changed, and asks for more than its queue may have or its namespace may hold (`growing`):
                    the seat is lost
    NoLongerFits    it was changed, and its node does not take the pod of the seat as it is now (`changing`): the seat
                    is lost
    NodeUnfit       the node is cordoned, its taints or labels keep the pod of the seat away, or who is there does (the
                    same host port, company that is not wanted): it is held, but no use
    RoomBeingLeft   the room is there only once terminating pods have left it, or pods that the reservation awaits

A reservation that was changed, and asks for more than its seats were given, stands behind everybody else: nobody's seat
is lost to a change. So does one that is not Available, or hopes for the room of pods that are to leave, however old it
is: nobody's seat is lost to a hope, or has to wait for one.
A seat that a pod is on its way to is not lost before it is known what becomes of the pod. Nor is a seat that can be
relied on lost to a pod that is on its way: others left no room for that one, which finds out before it is bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from restow.model.cluster import Occupant, Shape
from restow.model.cluster.resource_columns import Amounts, ResourceColumns
from restow.model.objects import Reservation, ReservationPhase, Taint
from restow.model.quantity import quantity_of
from restow.model.reservations.observed_spec import has_undecided_increase, is_available
from restow.model.reservations.reservation_annotations import awaited_pods, migrating_pod
from restow.model.reservations.seat import Seat, SeatState
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.model.taints import UNSCHEDULABLE, untolerated
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle


def seat_faults(snapshot: Snapshot, engine: Engine, seats: Iterable[Seat], now: float) -> dict[SeatName, SeatFault]:
    """Which of these seats are in trouble; it costs little as long as none is. What the filters of the engine do not
    count costs nobody a seat."""
    found: dict[SeatName, SeatFault] = {}
    crowded: dict[int, dict[SeatName, SeatFault]] = {}
    book = snapshot.reservations
    for seat in seats:
        row = snapshot.rows.find(seat.node)
        if seat.recorded_consumer is not None or row is None:
            continue
        is_held = seat.name in book.reserved_pods
        if not is_held and book.states.of(seat.name) is not SeatState.ASSIGNED:
            continue
        if not snapshot.nodes.present[row]:
            if is_held:
                found[seat.name] = SeatFault(FaultReason.NODE_GONE, f"node {seat.node} is gone")
            continue
        why = _unfit(snapshot, row, snapshot.shapes.of(seat.reserved_pod))
        if why:
            found[seat.name] = SeatFault(FaultReason.NODE_UNFIT, f"node {seat.node} {why}")
        if snapshot.room.is_overdrawn(row):
            if row not in crowded:
                crowded[row] = _crowded_out(snapshot, engine, row, now)
            if seat.name in crowded[row]:
                troubled = crowded[row][seat.name]
                found[seat.name] = troubled if is_held else replace(troubled, reason=FaultReason.ROOM_BEING_LEFT)
    return found


def seats_lost_on_nodes_of(snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float) -> list[SeatName]:
    """The seats for which there is no room on the nodes of a reservation, its own and those of others; also those that
    pods are on their way to."""
    meta, book = reservation.metadata, snapshot.reservations
    rows = {snapshot.rows.find(seat.node) for seat in book.seats(meta.namespace or "", meta.name)}
    crowded = sorted(row for row in rows if row is not None and snapshot.room.is_overdrawn(row))
    found = (item for row in crowded for item in _crowded_out(snapshot, engine, row, now).items())
    return [name for name, troubled in found if troubled.reason.loses_seat]


def refused_seats(snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float) -> dict[SeatName, SeatFault]:
    """The open seats of a reservation that a filter keeps their pods from, asked as for pods that come now.

    That says more than `troubles` (host ports and volumes of pods that are leaving, company that is not wanted), and
    costs more: it is for reservations that wait, and for those that somebody is about to be moved for.
    """
    meta = reservation.metadata
    seats = [seat for seat in snapshot.reservations.seats(meta.namespace or "", meta.name) if seat.recorded_consumer is None]
    refused = filter_refusals(snapshot, engine, reservation, seats, now)
    return {
        seat.name: fault_of_refusal(snapshot, reservation, seat.node, refused[seat.name])
        for seat in seats
        if seat.name in refused
    }


def filter_refusals(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, seats: Iterable[Seat], now: float
) -> dict[SeatName, str]:
    """What keeps the pods of a reservation's open seats from their nodes, if they come one after the other."""
    meta, found = reservation.metadata, dict[SeatName, str]()
    taken = [one for one in reservation.status.placements or () if one.pod_ref is not None]
    mark = snapshot.mark()
    try:
        snapshot.forget_placements(reservation)
        without = replace(reservation.status, placements=taken)
        snapshot.apply_reservation(replace(reservation, metadata=replace(meta, resource_version=""), status=without))
        for seat in seats:
            with snapshot.counting_only_room_of(migrating_pod(reservation) or ""):
                why = engine.why_node_refuses(_there(seat, snapshot, now), seat.node)
            if why:
                found[seat.name] = why
            else:
                snapshot.assume(seat.reserved_pod, seat.node, at=now)
    finally:
        snapshot.undo_to(mark)
    return found


def needs_periodic_check(reservation: Reservation) -> bool:
    """Whether others, anywhere, may change what it can be relied on for: it waits, or a pod is to be moved for it."""
    return reservation.status.state.phase == ReservationPhase.WAITING or migrating_pod(reservation) is not None


def check_with_filters(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float, *, waits_for_room: bool
) -> dict[SeatName, SeatFault]:
    """The seats that are `blocked`, of one that waits, or hopes for room that others are leaving, and of one that a pod
    is about to be moved for."""
    if waits_for_room or reservation.status.state.phase == ReservationPhase.WAITING:
        return refused_seats(snapshot, engine, reservation, now)
    return _unwelcome(snapshot, engine, reservation, now)


def _unwelcome(snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float) -> dict[SeatName, SeatFault]:
    """The same of a seat that nobody may come to yet, because the pod that moves has not left. Where a node has too
    little of what the seats ask for, `troubles` says who has to wait."""
    mover = migrating_pod(reservation)
    seats = snapshot.reservations.seats(reservation.metadata.namespace or "", reservation.metadata.name)
    if mover is None or any(snapshot.reservations.has_migrating_pod_left(seat, mover) for seat in seats):
        return {}
    asking = [(snapshot.rows.find(seat.node), engine.counted_resources(_there(seat, snapshot, now))) for seat in seats]
    if any(row is None or snapshot.room.lacks(row, amounts) for row, amounts in asking):
        return {}
    return refused_seats(snapshot, engine, reservation, now)


def fault_of_refusal(snapshot: Snapshot, reservation: Reservation, node: str, why: str) -> SeatFault:
    """What a filter says is over once those have left who are leaving; where nobody is, nothing will change it."""
    if not is_node_being_left(snapshot, reservation, node):
        return SeatFault(FaultReason.NODE_UNFIT, f"node {node} does not take its pod any more: {why}")
    awaited = _still_awaited(snapshot, reservation, node)
    return SeatFault(FaultReason.ROOM_BEING_LEFT, f"{_who(awaited)} have not left node {node} yet: {why}")


def is_node_being_left(snapshot: Snapshot, reservation: Reservation, node: str) -> bool:
    """Whether anybody is leaving a node, or is awaited to."""
    leaving = any(one.leaving for one in snapshot.occupants(node))
    return leaving or bool(_still_awaited(snapshot, reservation, node))


def _there(seat: Seat, snapshot: Snapshot, now: float) -> Cycle:
    """The attempt of a seat's pod on its node, which stays its own whoever it was locked for since."""
    return Cycle(seat.reserved_pod, snapshot, now, snapshot.class_of(seat.reserved_pod).unlocked)


def open_seats_on(snapshot: Snapshot, node: str) -> list[SeatName]:
    """The seats on a node that nobody has taken and that take room there."""
    return [seat.name for seat in _open(snapshot, node)]


def _open(snapshot: Snapshot, node: str) -> Iterator[Seat]:
    """Those that are held, and those that a pod is on its way to: they take room, too, until the pod is there."""
    book = snapshot.reservations
    for one in snapshot.occupants(node):
        name = SeatName.parse(one.key) if one.ledger == "reserved" else one.seat
        seat = book.seat(name) if name is not None else None
        if seat is None or seat.recorded_consumer is not None:
            continue
        if one.ledger == "reserved" or (one.assumed_at is not None and book.consumers.occupant_of(seat.name) is one):
            yield seat


# --- the node ---------------------------------------------------------------------------------------------------------


def _unfit(snapshot: Snapshot, row: int, shape: Shape) -> str:
    """What keeps the pod of a seat away from its node; nothing if that suits it."""
    if snapshot.masks.eligible(shape)[row]:
        return ""
    tolerations = shape.fields.tolerations
    if snapshot.nodes.unschedulable[row] and untolerated([UNSCHEDULABLE], tolerations):
        return "is cordoned"
    taints = untolerated(snapshot.nodes.taint_sets[snapshot.nodes.taints[row]], tolerations)
    if taints:
        return f"has the taint {_written(taints[0])}, which the task does not tolerate"
    return "no longer matches the node selector or affinity of the task"


def _written(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


# --- the room ---------------------------------------------------------------------------------------------------------

_Asking = tuple[SeatName, Amounts]
"""A seat, and what of its node's resources the filters count for it."""


def _crowded_out(snapshot: Snapshot, engine: Engine, row: int, now: float) -> dict[SeatName, SeatFault]:
    """The seats for which there is no room, and those for which there is none yet; whole reservations, last first."""
    room, node = snapshot.room, snapshot.rows.name(row) or ""
    seats = [(one.name, engine.counted_resources(_there(one, snapshot, now))) for one in _open(snapshot, node)]
    numbers = {number for _, amounts in seats for number, _ in amounts}
    kept = _kept(snapshot, node)
    free = {number: room.left(number, row) + kept[number] for number in numbers}
    later = {number: room.left(number, row, after_leaving=True) + kept[number] for number in numbers}
    coming = _coming(snapshot, node)
    found: dict[SeatName, SeatFault] = {}
    for reservation, group in _last_first(snapshot, node, seats):
        passed_over = coming if _is_promised(snapshot, reservation, group) else Counter[int]()
        hoped = Counter(later)
        hoped.update(passed_over)
        awaited = _still_awaited(snapshot, reservation, node)
        for one in awaited:
            for column, amount in one.shape.amounts:
                hoped[column] += amount
        lost = _short(room.resources, hoped, group)
        waits = lost or _short(room.resources, {number: free[number] + passed_over[number] for number in free}, group)
        if not waits:
            continue
        for name, amounts in group:
            for column, amount in amounts:
                free[column] += amount
                if lost or awaited:  # nobody else loses a seat to one that only hopes
                    later[column] += amount
            if lost:
                found[name] = SeatFault(FaultReason.ROOM_TAKEN, f"node {node} has {lost} less than is on it")
            else:
                message = f"{_who(awaited)} have not left node {node} yet: {waits} is missing"
                found[name] = SeatFault(FaultReason.ROOM_BEING_LEFT, message)
    return found


def _kept(snapshot: Snapshot, node: str) -> Counter[int]:
    """What is kept of seats beside smaller pods, until it is written down that those took them: nobody loses a seat to
    that."""
    found = Counter[int]()
    for one in snapshot.occupants(node):
        for number, amount in snapshot.reservations.unrecorded_remainder(one):
            found[number] += amount
    return found


def _coming(snapshot: Snapshot, node: str) -> Counter[int]:
    """What pods on their way to a node take there beyond what is held for them: nothing but our memory says so."""
    book, found = snapshot.reservations, Counter[int]()
    for one in snapshot.occupants(node):
        if one.ledger != "requested" or one.assumed_at is None:
            continue
        seat = book.seat(one.seat) if one.seat is not None and book.consumers.occupant_of(one.seat) is one else None
        held = dict(snapshot.shapes.of(seat.reserved_pod).amounts) if seat is not None else {}
        for number, amount in one.shape.amounts:
            found[number] += max(amount - held.get(number, 0), 0)
    return found


def _is_promised(snapshot: Snapshot, reservation: Reservation, group: Iterable[_Asking]) -> bool:
    """Whether the API says of all of these seats that they can be relied on, as they are."""
    is_firm = is_available(reservation) and not has_undecided_increase(reservation)
    return is_firm and not any(snapshot.reservations.states.is_unguaranteed(name) for name, _ in group)


def _awaited(snapshot: Snapshot, reservation: Reservation, node: str) -> list[Occupant]:
    """The pods on a node that a reservation awaits the end of."""
    known = (snapshot.pods.known.get(uid) for uid in awaited_pods(reservation))
    return [one for one in known if one is not None and one.node == node]


def _still_awaited(snapshot: Snapshot, reservation: Reservation, node: str) -> list[Occupant]:
    """Those of them that are not terminating yet, which would be counted already."""
    return [one for one in _awaited(snapshot, reservation, node) if not one.leaving]


def _who(awaited: list[Occupant]) -> str:
    return "pods that are to move" if awaited else "terminating pods"


def _short(resources: ResourceColumns, left: Mapping[int, int], group: Iterable[_Asking]) -> str:
    """What is missing of the resources that these seats use, in words; nothing if nothing is."""
    used = {number for _, amounts in group for number, amount in amounts if amount > 0}
    short = sorted((resources.name(number), -left[number]) for number in used if left[number] < 0)
    return ", ".join(f"{quantity_of(name, amount)} {name}" for name, amount in short)


def _last_first(snapshot: Snapshot, node: str, seats: Iterable[_Asking]) -> Iterator[tuple[Reservation, list[_Asking]]]:
    """The seats on a node by reservation: who only hopes, who asks for more than it has, who was promised nothing yet,
    then the newest; names decide between equals."""
    groups: dict[tuple[str, str], list[_Asking]] = {}
    for name, amounts in seats:
        groups.setdefault((name.namespace, name.reservation), []).append((name, amounts))
    book = snapshot.reservations
    known = [(reservation, group) for key, group in groups.items() if (reservation := book.get(*key)) is not None]
    yield from sorted(known, key=lambda pair: _standing(snapshot, node, pair[0]), reverse=True)


def _standing(snapshot: Snapshot, node: str, reservation: Reservation) -> tuple[bool, bool, bool, str, str, str]:
    meta, hopes = reservation.metadata, bool(_awaited(snapshot, reservation, node))
    behind = has_undecided_increase(reservation), not is_available(reservation)
    return hopes, *behind, meta.creation_timestamp or "", meta.namespace or "", meta.name
