"""Spec change: the seats that a reservation loses because its template describes another pod now.

Goes in: a reservation, and the version of it for which its seats were last decided about, if that is known. Comes out:
the open seats with nodes that accepted the pod as it was and refuse it as it is, each with the refusal: another node
selector, a host port that the node has once only, pod anti-affinity. Requests are not looked at here: whether there is
room for them, `seat_health` says, and whether the limits allow them, `spec_increase`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from restow.model.object_key import key_of
from restow.model.objects import Pod, Reservation
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.task_sizes import without_requests
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.seat_checks.seat_health import fault_of_refusal, filter_refusals, is_node_being_left


def seats_refused_after_change(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, before: Reservation | None, now: float
) -> dict[SeatName, SeatFault]:
    """The seats that are lost to a change (NoLongerFits), and those that are kept with a fault.

    They are kept where pods are leaving the node, which may be the cause, and where it is not known what the pod was
    before: then the node may have refused it all along.
    """
    # 1. The tasks with another pod.
    pods_before, pods = _pods(before) if before is not None else {}, _pods(reservation)
    changed = {task for task, pod in pods.items() if pods_before.get(task) != pod}
    if not changed:
        return {}
    # 2. Their seats on nodes that refuse the pod now.
    index, meta = snapshot.reservations, reservation.metadata
    seats = [seat for seat in index.seats(meta.namespace or "", meta.name) if seat.name in index.reserved_pods]
    refusals = filter_refusals(snapshot, engine, reservation, _with_pods(pods, seats), now)
    refused = [seat for seat in seats if seat.name in refusals and seat.name.task in changed]
    if not refused:
        return {}
    faults = {seat.name: fault_of_refusal(snapshot, reservation, seat.node, refusals[seat.name]) for seat in refused}
    if before is None:
        return faults
    # 3. Of these, the seats with nodes that accepted the pod before.
    earlier = filter_refusals(snapshot, engine, reservation, _with_pods({**pods, **pods_before}, seats), now)
    for seat in refused:
        if seat.name in earlier:
            del faults[seat.name]
        elif not _is_eligible(snapshot, seat) or not is_node_being_left(snapshot, reservation, seat.node):
            message = f"node {seat.node} does not accept the pod of the changed template: {refusals[seat.name]}"
            faults[seat.name] = SeatFault(FaultReason.NO_LONGER_FITS, message)
    return faults


def _pods(reservation: Reservation) -> dict[str, Pod]:
    """The reserved pod of each task, without its requests."""
    key, spec = key_of(reservation), reservation.spec
    return {
        task.name: without_requests(
            reserved_pod_of(SeatName(*key, task.name, 0), task, spec.scheduler_name, spec.queue)
        )
        for task in spec.tasks or ()
    }


def _with_pods(pods: Mapping[str, Pod], seats: Iterable[Seat]) -> list[Seat]:
    """The seats with other reserved pods, by task, under their own names."""
    others: list[Seat] = []
    for seat in seats:
        pod, own = pods[seat.name.task], seat.reserved_pod.metadata
        renamed = replace(pod, metadata=replace(pod.metadata, name=own.name, uid=own.uid))
        others.append(replace(seat, reserved_pod=renamed))
    return others


def _is_eligible(snapshot: Snapshot, seat: Seat) -> bool:
    """Whether the Node object itself accepts the pod of a seat, whatever pods are there."""
    row = snapshot.rows.find_row(seat.node)
    return row is not None and bool(snapshot.masks.eligible(snapshot.shapes.of(seat.reserved_pod))[row])
