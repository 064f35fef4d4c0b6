"""Books: what pods and the seats of reservations leave of nodes, counted from the objects alone.

    now     everybody counts who is there; of the seats that wait for others to leave, those that fit nevertheless
    later   those who are leaving have left, and seats that only hope take nothing from anybody
    hope    those who are awaited have left as well

A seat and the pod in it count once, as much as the larger of both, until it is written down that the pod took it:
nothing else may remember that. Whoever is to be audited counts in a way of its own.
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
Left = dict[tuple[str, str], Vector]
"""What is left, by book and node; below 0 where there is more than fits."""
Shortages = dict[tuple[str, str, str], int]
"""How much is missing, by book, node and resource."""


def left(
    nodes: Iterable[Node], pods: Sequence[Pod], reservations: Sequence[Reservation], sizes: Mapping[str, Sizes]
) -> Left:
    """What pods that take room and seats leave of every node, in every book. `sizes` by the UID of the reservation."""
    free: Left = {
        (book, one.metadata.name): dict(parse_amounts(one.status.allocatable))
        for one in nodes
        for book in ("now", "later", "hope")
    }
    held = {one.metadata.uid: held_by(one, pods, sizes[one.metadata.uid]) for one in reservations}
    hopes = {(uid, node) for one in reservations for uid in awaited_pods(one) for node, _ in held[one.metadata.uid]}
    for pod in pods:
        where = pod.spec.node_name or ""
        leaves = pod.metadata.deletion_timestamp is not None
        awaited = (pod.metadata.uid, where) in hopes
        for book in ("now",) if leaves else ("now", "later") if awaited else ("now", "later", "hope"):
            _charge(free, book, where, pod_requests(pod))
    for reservation in sorted(reservations, key=_waiting):  # who waits, waits for what the others leave
        waiting = _waiting(reservation)
        rests = kept_by(reservation, pods, sizes[reservation.metadata.uid])
        for node, request in [*held[reservation.metadata.uid], *rests]:
            _charge(free, "hope", node, request)
            if not still_awaited(reservation, node, pods):
                _charge(free, "later", node, request)
            place = add_vectors(request, {PODS: 1})
            if waiting and not vector_fits(place, free.get(("now", node), place)):
                waiting -= 1  # this is one of the seats that wait for others to leave, and it says so
            else:
                _charge(free, "now", node, request)
    return free


def shortages(free: Left) -> Shortages:
    """Where there is more than fits."""
    return {(*place, name): -amount for place, left in free.items() for name, amount in left.items() if amount < 0}


def sizes_of(one: Reservation) -> Sizes:
    """What its spec asks for, for a seat of each task."""
    return {task.name: template_requests(task.template.spec) for task in one.spec.tasks or ()}


def held_by(one: Reservation, pods: Iterable[Pod], sizes: Sizes) -> list[tuple[str, Vector]]:
    """The nodes of the seats in which nobody sits, and what they hold."""
    sitting = {(named_by(pod), pod.spec.node_name) for pod in pods}
    life = one.metadata.uid
    return [(node, sizes[task]) for task, seat, node in open_seats(one) if ((seat, life), node) not in sitting]


def kept_by(one: Reservation, pods: Iterable[Pod], sizes: Sizes) -> list[tuple[str, Vector]]:
    """The nodes of the seats in which somebody sits, and what these hold beyond the pods, which count themselves."""
    sitting = {(named_by(pod), pod.spec.node_name): pod_requests(pod) for pod in pods}
    life, found = one.metadata.uid, list[tuple[str, Vector]]()
    for task, seat, node in open_seats(one):
        taken = sitting.get(((seat, life), node))
        if taken is not None:
            beyond = {name: max(amount, 0) for name, amount in subtract_vectors(sizes[task], taken).items()}
            found.append((node, {**beyond, PODS: -1}))
    return found


def named_by(pod: Pod) -> tuple[str, str]:
    """The seat that a pod says it took, and the UID of the reservation that it was of."""
    notes = pod.metadata.annotations or {}
    return notes.get("restow.sh/reservation", ""), notes.get("restow.sh/reservation-uid", "")


def still_awaited(one: Reservation, node: str, pods: Iterable[Pod]) -> list[Pod]:
    """The pods on a node of which a reservation hopes that they will leave; they have not begun to."""
    hoped = awaited_pods(one)
    there = [pod for pod in pods if pod.spec.node_name == node and pod.metadata.uid in hoped]
    return [pod for pod in there if pod.metadata.deletion_timestamp is None]


def is_shut(one: Reservation, pods: Iterable[Pod]) -> bool:
    """Whether its seats are for nobody yet: the pod that it was made to move has not begun to leave."""
    mover = migrating_pod(one)
    there = (pod for pod in pods if pod.metadata.uid == mover and not is_finished(pod))
    return any(pod.metadata.deletion_timestamp is None for pod in there)


def _charge(free: Left, book: str, node: str, request: Vector) -> None:
    if (book, node) in free:
        free[book, node] = subtract_vectors(free[book, node], add_vectors(request, {PODS: 1}))


def _waiting(reservation: Reservation) -> int:
    """How many of its seats wait for something."""
    return sum((one.phase or {}).get("Waiting", 0) for one in (reservation.status.task_status_count or {}).values())
