"""Seat health: can the seats of a reservation be relied on?

Goes in: the snapshot and the seats of a reservation. Comes out: the open seats with a fault, each with the reason
(`FaultReason` says what each means). Two checks find them:

    seat_faults          reads the node and its room (`room_faults`); it costs little while no seat has a fault
    check_with_filters   asks the filters of the engine about every seat, which finds more and costs more: it is for
                         reservations that wait, and for those that a pod is about to be migrated into

What the filters of the engine do not count, such as a resource that no plugin checks, costs no seat.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from restow.model.cluster import Shape
from restow.model.objects import Reservation, ReservationPhase, Taint
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.seat import Seat, SeatState
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.model.taints import UNSCHEDULABLE, untolerated_taint
from restow.scheduling.engine import Engine
from restow.scheduling.seat_checks.room_faults import room_faults
from restow.scheduling.seat_checks.seats_on_node import cycle_of_seat, staying_pods_on


def seat_faults(snapshot: Snapshot, engine: Engine, seats: Iterable[Seat], now: float) -> dict[SeatName, SeatFault]:
    """The open seats among these that have a fault: their node is gone, unfit or over-committed."""
    faults: dict[SeatName, SeatFault] = {}
    faults_of_row: dict[int, dict[SeatName, SeatFault]] = {}
    index = snapshot.reservations
    for seat in seats:
        row = snapshot.rows.find_row(seat.node)
        if seat.recorded_consumer is not None or row is None:
            continue
        takes_room = seat.name in index.reserved_pods
        if not takes_room and index.states.of(seat.name) is not SeatState.ASSIGNED:
            continue
        if not snapshot.nodes.present[row]:
            if takes_room:
                faults[seat.name] = SeatFault(FaultReason.NODE_GONE, f"node {seat.node} is gone")
            continue
        why = _why_node_unfit(snapshot, row, snapshot.shapes.of(seat.reserved_pod))
        if why:
            faults[seat.name] = SeatFault(FaultReason.NODE_UNFIT, f"node {seat.node} {why}")
        if snapshot.room.is_overdrawn(row):
            if row not in faults_of_row:
                faults_of_row[row] = room_faults(snapshot, engine, row, now)
            if seat.name in faults_of_row[row]:
                fault = faults_of_row[row][seat.name]
                # A seat with a pod on its way is not lost before it is known whether the pod arrives.
                faults[seat.name] = fault if takes_room else replace(fault, reason=FaultReason.ROOM_BEING_LEFT)
    return faults


def seats_lost_on_nodes_of(snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float) -> list[SeatName]:
    """The seats without room on the nodes of a reservation, its own and those of others; also assigned ones."""
    meta, index = reservation.metadata, snapshot.reservations
    rows = {snapshot.rows.find_row(seat.node) for seat in index.seats(meta.namespace or "", meta.name)}
    overdrawn = sorted(row for row in rows if row is not None and snapshot.room.is_overdrawn(row))
    faults = (item for row in overdrawn for item in room_faults(snapshot, engine, row, now).items())
    return [name for name, fault in faults if fault.reason.loses_seat]


def _why_node_unfit(snapshot: Snapshot, row: int, shape: Shape) -> str:
    """Why the Node object refuses the pod of a seat; empty if it does not."""
    if snapshot.masks.eligible(shape)[row]:
        return ""
    tolerations = shape.fields.tolerations
    if snapshot.nodes.unschedulable[row] and untolerated_taint([UNSCHEDULABLE], tolerations):
        return "is cordoned"
    taints = untolerated_taint(snapshot.nodes.taint_sets[snapshot.nodes.taints[row]], tolerations)
    if taints:
        return f"has the taint {_as_text(taints[0])}, which the task does not tolerate"
    return "no longer matches the node selector or affinity of the task"


def _as_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


# --- asking the filters -----------------------------------------------------------------------------------------------


def needs_periodic_check(reservation: Reservation) -> bool:
    """Whether pods on any node may change its seat health: it waits, or a pod is to be migrated into it."""
    return reservation.status.state.phase == ReservationPhase.WAITING or migrating_pod(reservation) is not None


def check_with_filters(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float, *, waits_for_room: bool
) -> dict[SeatName, SeatFault]:
    """The seats that a filter refuses, if this reservation is one to ask the filters about.

    That is one that waits, or was given seats with room that pods are still leaving (`waits_for_room`), or one that a
    pod is about to be migrated into.
    """
    if waits_for_room or reservation.status.state.phase == ReservationPhase.WAITING:
        return refused_seats(snapshot, engine, reservation, now)
    return _refused_seats_before_migration(snapshot, engine, reservation, now)


def refused_seats(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float
) -> dict[SeatName, SeatFault]:
    """The open seats that a filter refuses to the pods that they are for, as if these came now.

    That says more than `seat_faults`: host ports and volumes of terminating pods, and pod affinity.
    """
    meta = reservation.metadata
    seats = [
        seat for seat in snapshot.reservations.seats(meta.namespace or "", meta.name) if seat.recorded_consumer is None
    ]
    refusals = filter_refusals(snapshot, engine, reservation, seats, now)
    return {
        seat.name: fault_of_refusal(snapshot, reservation, seat.node, refusals[seat.name])
        for seat in seats
        if seat.name in refusals
    }


def _refused_seats_before_migration(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, now: float
) -> dict[SeatName, SeatFault]:
    """`refused_seats` while the migrating pod has not left; empty where `seat_faults` decides, for lack of room."""
    uid = migrating_pod(reservation)
    index = snapshot.reservations
    seats = index.seats(reservation.metadata.namespace or "", reservation.metadata.name)
    if uid is None or any(index.has_migrating_pod_left(seat, uid) for seat in seats):
        return {}
    requests = [
        (snapshot.rows.find_row(seat.node), engine.counted_resources(cycle_of_seat(seat, snapshot, now)))
        for seat in seats
    ]
    if any(row is None or snapshot.room.lacks(row, amounts) for row, amounts in requests):
        return {}
    return refused_seats(snapshot, engine, reservation, now)


def filter_refusals(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, seats: Iterable[Seat], now: float
) -> dict[SeatName, str]:
    """Why the filters refuse the pods of these open seats, as if the pods came one after the other."""
    meta, refusals = reservation.metadata, dict[SeatName, str]()
    consumed = [placement for placement in reservation.status.placements or () if placement.pod_ref is not None]
    mark = snapshot.mark()
    try:
        # In the try, the reservation has no open seats: their pods are placed anew, each beside those before it.
        snapshot.forget_placements(reservation)
        without_open = replace(reservation.status, placements=consumed)
        newest = replace(meta, resource_version="")  # an object without a version is never late
        snapshot.apply_reservation(replace(reservation, metadata=newest, status=without_open))
        for seat in seats:
            with snapshot.counting_only_room_of(migrating_pod(reservation) or ""):
                why = engine.why_node_refuses(cycle_of_seat(seat, snapshot, now), seat.node)
            if why:
                refusals[seat.name] = why
            else:
                snapshot.assume(seat.reserved_pod, seat.node, at=now)
    finally:
        snapshot.undo_to(mark)
    return refusals


def fault_of_refusal(snapshot: Snapshot, reservation: Reservation, node: str, why: str) -> SeatFault:
    """The fault of a seat that a filter refuses: temporary while pods are leaving the node, since they may be the
    cause; otherwise the node is unfit."""
    if not is_node_being_left(snapshot, reservation, node):
        return SeatFault(FaultReason.NODE_UNFIT, f"node {node} no longer accepts the pod of the seat: {why}")
    leaving = "migrating" if staying_pods_on(snapshot, reservation, node) else "terminating"
    return SeatFault(FaultReason.ROOM_BEING_LEFT, f"{leaving} pods have not left node {node} yet: {why}")


def is_node_being_left(snapshot: Snapshot, reservation: Reservation, node: str) -> bool:
    """Whether a pod on a node terminates, or a plan moves one away for this reservation."""
    is_leaving = any(occupant.leaving for occupant in snapshot.occupants(node))
    return is_leaving or bool(staying_pods_on(snapshot, reservation, node))
