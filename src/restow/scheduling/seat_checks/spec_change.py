"""Changing: the seats that a reservation loses because its template says something else now.

Goes in: a reservation, and what it was when its seats were last decided about, if that is known. Comes out: the open
seats whose pods their nodes took as they were and do not take as they are, each with what is in the way: another node
selector, a host port of which a node has one only, company that is not wanted. How much they ask for is not looked at
here: whether there is room, `standing` says, and whether it may be had, `growing`.
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
from restow.model.reservations.task_sizes import weightless
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.seat_checks.seat_health import is_node_being_left, filter_refusals, fault_of_refusal


def seats_refused_after_change(
    snapshot: Snapshot, engine: Engine, reservation: Reservation, before: Reservation | None, now: float
) -> dict[SeatName, SeatFault]:
    """The seats that are lost, and those that are kept and no use now: others are leaving the node, who may be in the
    way, or nobody knows what it was before."""
    was, is_now = _pods(before) if before is not None else {}, _pods(reservation)
    changed = {task for task, pod in is_now.items() if was.get(task) != pod}
    if not changed:
        return {}
    book, meta = snapshot.reservations, reservation.metadata
    seats = [one for one in book.seats(meta.namespace or "", meta.name) if one.name in book.reserved_pods]
    refused = filter_refusals(snapshot, engine, reservation, _as(is_now, seats), now)
    concerned = [one for one in seats if one.name in refused and one.name.task in changed]
    if not concerned:
        return {}
    found = {one.name: fault_of_refusal(snapshot, reservation, one.node, refused[one.name]) for one in concerned}
    if before is None:
        return found
    earlier = filter_refusals(snapshot, engine, reservation, _as({**is_now, **was}, seats), now)
    for one in concerned:
        if one.name in earlier:
            del found[one.name]
        elif not _is_suited(snapshot, one) or not is_node_being_left(snapshot, reservation, one.node):
            told = f"node {one.node} does not take its pod as it was changed: {refused[one.name]}"
            found[one.name] = SeatFault(FaultReason.NO_LONGER_FITS, told)
    return found


def _pods(reservation: Reservation) -> dict[str, Pod]:
    """The pod that each task is for, as if it asked for nothing."""
    key, spec = key_of(reservation), reservation.spec
    return {
        task.name: weightless(reserved_pod_of(SeatName(*key, task.name, 0), task, spec.scheduler_name, spec.queue))
        for task in spec.tasks or ()
    }


def _as(pods: Mapping[str, Pod], seats: Iterable[Seat]) -> list[Seat]:
    """Seats for other pods, by task."""
    found: list[Seat] = []
    for one in seats:
        pod, own = pods[one.name.task], one.reserved_pod.metadata
        found.append(replace(one, reserved_pod=replace(pod, metadata=replace(pod.metadata, name=own.name, uid=own.uid))))
    return found


def _is_suited(snapshot: Snapshot, seat: Seat) -> bool:
    """Whether a node is one for the pod of a seat, whoever is there."""
    row = snapshot.rows.find(seat.node)
    return row is not None and bool(snapshot.masks.eligible(snapshot.shapes.of(seat.reserved_pod))[row])
