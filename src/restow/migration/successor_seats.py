"""Successor seats: which seats of a reservation the successor may take, and why it may not take the others.

Goes in: a reservation, and what the successor may be like. Comes out: seats, and reasons against seats. The rules are
those by which the scheduler gives seats to pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from restow.migration.successor_spec import successor_keeps_name
from restow.model.affinity import node_constraint
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import (
    MatchPolicy,
    Node,
    ObjectMeta,
    OwnerReference,
    Placement,
    Pod,
    PodGroup,
    Reservation,
    ReservationPhase,
)
from restow.model.quantity import QuantityError
from restow.model.reservations.owners import Owners
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import is_for_scheduler
from restow.model.reservations.template_comparison import describe_differences, differing_fields
from restow.model.resources import pod_requests, resource_shortages, template_requests
from restow.model.taints import UNSCHEDULABLE, untolerated_taint
from restow.model.times import time_of

SeatKey = tuple[str, int]
"""A seat of one reservation: its task and index."""


def seat_key(seat: Placement) -> SeatKey:
    return seat.task, seat.index


def free_seats(reservation: Reservation) -> list[Placement]:
    """The seats that no pod has consumed."""
    return [seat for seat in reservation.status.placements or () if seat.pod_ref is None]


def usable_seats(reservation: Reservation, successors: Sequence[Pod]) -> list[Placement]:
    """The free seats that are not on the pod's own node and suit every possible successor, the first of which is the
    pod itself."""
    own_node = successors[0].spec.node_name
    elsewhere = (seat for seat in free_seats(reservation) if seat.node_name != own_node)
    return seats_of_suitable_tasks(elsewhere, lambda seat: not why_seat_does_not_suit(reservation, seat, successors))


def seats_on_current_node(reservation: Reservation, successors: Sequence[Pod]) -> list[Placement]:
    """The free seats that are on the pod's own node and suit any of the possible successors."""
    here = (seat for seat in free_seats(reservation) if seat.node_name == successors[0].spec.node_name)
    return seats_of_suitable_tasks(here, lambda seat: seat_suits_any(reservation, seat, successors))


def seats_of_suitable_tasks(seats: Iterable[Placement], suits: Callable[[Placement], bool]) -> list[Placement]:
    """The seats that suit. One seat of each task is asked about, because all of a task are alike and there may be
    thousands."""
    by_task: dict[str, bool] = {}
    suitable: list[Placement] = []
    for seat in seats:
        if seat.task not in by_task:
            by_task[seat.task] = suits(seat)
        if by_task[seat.task]:
            suitable.append(seat)
    return suitable


def seat_suits_any(reservation: Reservation, seat: Placement, successors: Iterable[Pod]) -> bool:
    """Whether one of the possible successors may take a seat, by the template of its task."""
    return any(not _why_seat_does_not_suit_pod(reservation, seat, pod) for pod in successors)


def may_be_taken_first(reservation: Reservation, seat: Placement, other: Placement) -> bool:
    """Whether the scheduler may give away a seat before another: by task and index, or the smallest that fits."""
    by_size = reservation.spec.match_policy == MatchPolicy.FITS and seat.task != other.task
    return by_size or seat_key(seat) < seat_key(other)


def count_unreliable_seats(reservation: Reservation, seats: Iterable[Placement]) -> int:
    """How many seats cannot be relied on yet, of the tasks of these seats: their room is still being vacated, or their
    node is unfit. The status has only numbers per task."""
    counts = reservation.status.task_status_count or {}
    tasks = {seat.task for seat in seats} & counts.keys()
    return sum((counts[task].phase or {}).get(ReservationPhase.WAITING, 0) for task in tasks)


def why_seat_does_not_suit(reservation: Reservation, seat: Placement, successors: Iterable[Pod]) -> str:
    """Why one of the possible successors may not take a seat, by the template of its task; empty if all may."""
    return next((why for pod in successors if (why := _why_seat_does_not_suit_pod(reservation, seat, pod))), "")


def _why_seat_does_not_suit_pod(reservation: Reservation, seat: Placement, pod: Pod) -> str:
    task = next((task for task in reservation.spec.tasks or () if task.name == seat.task), None)
    if task is None:
        return ""
    meta = reservation.metadata
    if reservation.spec.match_policy != MatchPolicy.FITS:
        name = SeatName(meta.namespace or "", meta.name, seat.task, seat.index)
        # A template without a priority class gets the default one; so did the pod, if it named none.
        default = pod.spec.priority_class_name or ""
        meant = reserved_pod_of(name, task, reservation.spec.scheduler_name)
        fields = differing_fields(pod, meant, default)
        return f"the pod differs from task {seat.task} in {describe_differences(pod, meant, fields)}" if fields else ""
    try:
        short = resource_shortages(pod_requests(pod), template_requests(task.template.spec))
    except QuantityError as error:
        return str(error)
    return f"the seat is too small: {', '.join(map(str, short))}" if short else ""


def why_reservation_excludes_successor(
    reservation: Reservation,
    successor: Pod,
    owners: tuple[OwnerReference, ...],
    scheduler_names: frozenset[str] | None,
    group: PodGroup | None = None,
) -> str:
    """Why the successor may take no seat of a reservation at all; empty if it may."""
    migrating_uid, name = migrating_pod(reservation), reservation.metadata.name
    if scheduler_names is not None and not is_for_scheduler(reservation, scheduler_names):
        return f"reservation {name} is another scheduler's, schedulerNames has {', '.join(sorted(scheduler_names))}"
    if migrating_uid not in (None, successor.metadata.uid):
        return f"reservation {name} is for the move of another pod, with UID {migrating_uid}"
    if not _is_owned_by(reservation, successor, owners, group):
        return f"the owners of reservation {name} do not include its successor"
    return ""


def _is_owned_by(
    reservation: Reservation, successor: Pod, owners: tuple[OwnerReference, ...], group: PodGroup | None
) -> bool:
    """Whether the owners of a reservation match the successor, which has the pod's name only in a StatefulSet."""
    meta = successor.metadata
    created = ObjectMeta(
        name=meta.name if successor_keeps_name(owners) else "",
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=list(owners),
    )
    owner_chains = OwnerChains(UndoLog())
    if group is not None:
        owner_chains.put_group(group)
    same = (reservation.metadata.namespace or "") == (meta.namespace or "")
    return same and Owners.of(reservation.spec.owners or ()).matches(Pod(metadata=created), owner_chains)


# --- their nodes ------------------------------------------------------------------------------------------------------


def is_node_newer(node: Node, reservation: Reservation) -> bool:
    """Whether a node was created after a seat was kept on an earlier node of the same name."""
    kept = time_of(reservation.status.state.last_transition_time)
    created = time_of(node.metadata.creation_timestamp)
    return kept is not None and created is not None and created > kept


def why_node_unfit(node: Node, pod: Pod) -> str | None:
    """Why a pod may not be bound to a node any more, by the node's own spec and labels."""
    name = node.metadata.name
    if node.metadata.deletion_timestamp is not None:
        return f"node {name} is being deleted"
    if node.spec.unschedulable and untolerated_taint([UNSCHEDULABLE], pod.spec.tolerations):
        return f"node {name} is cordoned"
    taints = untolerated_taint(node.spec.taints, pod.spec.tolerations)
    if taints:
        names = ", ".join(f"{taint.key}={taint.value or ''}:{taint.effect}" for taint in taints)
        return f"node {name} has taints that the pod does not tolerate: {names}"
    if not node_constraint(pod.spec).matches(name, node.metadata.labels):
        return f"node {name} no longer matches the pod's node selector or required node affinity"
    return None
