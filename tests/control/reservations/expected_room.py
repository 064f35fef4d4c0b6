"""The expected room: what pods and the seats of reservations leave of nodes, counted from the objects alone, on three
horizons.

    now      all pods count; of the seats that wait for pods to leave, those that fit nevertheless
    later    terminating pods have left, and seats that await pods which are only to leave take no room
    awaited  the awaited pods have left as well

A seat and the pod in it count once, as much as the larger of both, until the status records the consumption. The code
under test counts in a way of its own; nothing of that is used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from restow.model.objects import Node, Pod, Reservation
from restow.model.pods import is_finished
from restow.model.reservations.reservation_annotations import awaited_pods, migrating_pod
from restow.model.resources import (
    PODS,
    Vector,
    add_vectors,
    parse_amounts,
    pod_requests,
    subtract_vectors,
    template_requests,
    vector_fits,
)
from tests.control.reservations.reservation_cluster import open_seats

Sizes = dict[str, Vector]
"""What a seat of each task holds."""
RoomLeft = dict[tuple[str, str], Vector]
"""What is left, by horizon and node; below 0 where more is placed than fits."""
Shortages = dict[tuple[str, str, str], int]
"""How much is missing, by horizon, node and resource."""


def room_left(
    nodes: Iterable[Node], pods: Sequence[Pod], reservations: Sequence[Reservation], sizes: Mapping[str, Sizes]
) -> RoomLeft:
    """What these pods and seats leave of every node, on every horizon. `sizes` are by the UID of the reservation."""
    free: RoomLeft = {
        (horizon, one.metadata.name): dict(parse_amounts(one.status.allocatable))
        for one in nodes
        for horizon in ("now", "later", "awaited")
    }
    held = {one.metadata.uid: held_by_free_seats(one, pods, sizes[one.metadata.uid]) for one in reservations}
    awaited_on = {
        (uid, node) for one in reservations for uid in awaited_pods(one) for node, _ in held[one.metadata.uid]
    }
    for pod in pods:
        where = pod.spec.node_name or ""
        leaves = pod.metadata.deletion_timestamp is not None
        awaited = (pod.metadata.uid, where) in awaited_on
        for horizon in ("now",) if leaves else ("now", "later") if awaited else ("now", "later", "awaited"):
            _charge(free, horizon, where, pod_requests(pod))
    for reservation in sorted(
        reservations, key=_waiting
    ):  # waiting reservations last: they wait for what the others leave
        waiting = _waiting(reservation)
        rests = remainders_of_consumed_seats(reservation, pods, sizes[reservation.metadata.uid])
        for node, request in [*held[reservation.metadata.uid], *rests]:
            _charge(free, "awaited", node, request)
            if not awaited_pods_that_stay(reservation, node, pods):
                _charge(free, "later", node, request)
            place = add_vectors(request, {PODS: 1})
            if waiting and not vector_fits(place, free.get(("now", node), place)):
                waiting -= 1  # this is one of the seats that wait for others to leave, and it says so
            else:
                _charge(free, "now", node, request)
    return free


def shortages(free: RoomLeft) -> Shortages:
    """Where more is placed than fits."""
    return {(*place, name): -amount for place, left in free.items() for name, amount in left.items() if amount < 0}


def seat_sizes(one: Reservation) -> Sizes:
    """What the spec asks for, for a seat of each task."""
    return {task.name: template_requests(task.template.spec) for task in one.spec.tasks or ()}


def held_by_free_seats(one: Reservation, pods: Iterable[Pod], sizes: Sizes) -> list[tuple[str, Vector]]:
    """The nodes of the free seats, and what the seats hold."""
    consumers = {(seat_named_by(pod), pod.spec.node_name) for pod in pods}
    uid = one.metadata.uid
    return [(node, sizes[task]) for task, seat, node in open_seats(one) if ((seat, uid), node) not in consumers]


def remainders_of_consumed_seats(one: Reservation, pods: Iterable[Pod], sizes: Sizes) -> list[tuple[str, Vector]]:
    """The nodes of the consumed seats without a record, and what these hold beyond their pods, which count
    themselves."""
    consumers = {(seat_named_by(pod), pod.spec.node_name): pod_requests(pod) for pod in pods}
    uid, found = one.metadata.uid, list[tuple[str, Vector]]()
    for task, seat, node in open_seats(one):
        taken = consumers.get(((seat, uid), node))
        if taken is not None:
            beyond = {name: max(amount, 0) for name, amount in subtract_vectors(sizes[task], taken).items()}
            found.append((node, {**beyond, PODS: -1}))
    return found


def seat_named_by(pod: Pod) -> tuple[str, str]:
    """The seat that a pod names, and the UID of its reservation."""
    annotations = pod.metadata.annotations or {}
    return annotations.get("restow.sh/reservation", ""), annotations.get("restow.sh/reservation-uid", "")


def awaited_pods_that_stay(one: Reservation, node: str, pods: Iterable[Pod]) -> list[Pod]:
    """The pods on a node that a reservation awaits and that are not terminating yet."""
    hoped = awaited_pods(one)
    there = [pod for pod in pods if pod.spec.node_name == node and pod.metadata.uid in hoped]
    return [pod for pod in there if pod.metadata.deletion_timestamp is None]


def awaits_its_migrating_pod(one: Reservation, pods: Iterable[Pod]) -> bool:
    """Whether its seats are still closed, because the pod that it was made to move is not terminating yet."""
    migrating = migrating_pod(one)
    there = (pod for pod in pods if pod.metadata.uid == migrating and not is_finished(pod))
    return any(pod.metadata.deletion_timestamp is None for pod in there)


def _charge(free: RoomLeft, horizon: str, node: str, request: Vector) -> None:
    if (horizon, node) in free:
        free[horizon, node] = subtract_vectors(free[horizon, node], add_vectors(request, {PODS: 1}))


def _waiting(reservation: Reservation) -> int:
    """How many of its seats wait for something."""
    return sum((one.phase or {}).get("Waiting", 0) for one in (reservation.status.task_status_count or {}).values())
