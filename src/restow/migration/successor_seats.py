"""Which seat is for whoever takes a pod's place, and why there is none.

Goes in: a reservation, and what the successor may be like. Comes out: the seat that is kept for it. The rules are those
by which the scheduler hands out seats.
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
"""Which seat of a reservation: the task and the index."""


def seat_key(seat: Placement) -> SeatKey:
    return seat.task, seat.index


def free_seats(reservation: Reservation) -> list[Placement]:
    """The seats that nobody took."""
    return [one for one in reservation.status.placements or () if one.pod_ref is None]


def usable_seats(reservation: Reservation, likely: Sequence[Pod]) -> list[Placement]:
    """The free seats that are not where the pod is now, and that whoever takes its place may take."""
    here = likely[0].spec.node_name
    elsewhere = (one for one in free_seats(reservation) if one.node_name != here)
    return seats_of_suitable_tasks(elsewhere, lambda one: not why_seat_does_not_suit(reservation, one, likely))


def seats_on_current_node(reservation: Reservation, likely: Sequence[Pod]) -> list[Placement]:
    """The free seats that are where the pod is now, and that whoever takes its place may take, whichever it is like."""
    here = (one for one in free_seats(reservation) if one.node_name == likely[0].spec.node_name)
    return seats_of_suitable_tasks(here, lambda one: seat_suits_any(reservation, one, likely))


def seats_of_suitable_tasks(seats: Iterable[Placement], suits: Callable[[Placement], bool]) -> list[Placement]:
    """The seats that suit, which is the same for all of a task: there may be thousands."""
    asked: dict[str, bool] = {}
    found: list[Placement] = []
    for one in seats:
        if one.task not in asked:
            asked[one.task] = suits(one)
        if asked[one.task]:
            found.append(one)
    return found


def seat_suits_any(reservation: Reservation, seat: Placement, likely: Iterable[Pod]) -> bool:
    """Whether one of these pods may take a seat, by what the seat was made for."""
    return any(not _why_seat_does_not_suit_pod(reservation, seat, pod) for pod in likely)


def may_be_taken_first(reservation: Reservation, one: Placement, other: Placement) -> bool:
    """Whether the scheduler may hand out a seat before another: in the order of task and index, or of sizes."""
    by_size = reservation.spec.match_policy == MatchPolicy.FITS and one.task != other.task
    return by_size or seat_key(one) < seat_key(other)


def count_unreliable_seats(reservation: Reservation, seats: Iterable[Placement]) -> int:
    """How many seats of the tasks of these cannot be relied on yet: their room is being left, or a node is unfit."""
    counts = reservation.status.task_status_count or {}
    tasks = {one.task for one in seats} & counts.keys()
    return sum((counts[task].phase or {}).get(ReservationPhase.WAITING, 0) for task in tasks)


def why_seat_does_not_suit(reservation: Reservation, seat: Placement, likely: Iterable[Pod]) -> str:
    """What keeps any of these pods from a seat, by what the seat was made for; empty if nothing does."""
    return next((why for pod in likely if (why := _why_seat_does_not_suit_pod(reservation, seat, pod))), "")


def _why_seat_does_not_suit_pod(reservation: Reservation, seat: Placement, pod: Pod) -> str:
    task = next((one for one in reservation.spec.tasks or () if one.name == seat.task), None)
    if task is None:
        return ""
    meta = reservation.metadata
    if reservation.spec.match_policy != MatchPolicy.FITS:
        name = SeatName(meta.namespace or "", meta.name, seat.task, seat.index)
        # What names no priority class gets the default one, which the pod has if it named none.
        default = pod.spec.priority_class_name or ""
        meant = reserved_pod_of(name, task, reservation.spec.scheduler_name)
        found = differing_fields(pod, meant, default)
        return f"the pod differs from task {seat.task} in {describe_differences(pod, meant, found)}" if found else ""
    try:
        short = resource_shortages(pod_requests(pod), template_requests(task.template.spec))
    except QuantityError as error:
        return str(error)
    return f"the seat is too small: {', '.join(map(str, short))}" if short else ""


def why_reservation_excludes_successor(
    reservation: Reservation,
    pod: Pod,
    owners: tuple[OwnerReference, ...],
    schedulers: frozenset[str] | None,
    group: PodGroup | None = None,
) -> str:
    """Why whoever takes a pod's place may use no seat of a reservation; empty if it may."""
    mover = migrating_pod(reservation)
    name = reservation.metadata.name
    if schedulers is not None and not is_for_scheduler(reservation, schedulers):
        return f"reservation {name} is another scheduler's, schedulerNames has {', '.join(sorted(schedulers))}"
    if mover not in (None, pod.metadata.uid):
        return f"reservation {name} is for the move of another pod, with UID {mover}"
    if not _belongs_to(reservation, pod, owners, group):
        return f"the owners of reservation {name} do not include whoever takes its place"
    return ""


def _belongs_to(reservation: Reservation, pod: Pod, owners: tuple[OwnerReference, ...], group: PodGroup | None) -> bool:
    """Whether its owners speak of the successor, which has the same name only if the owner is one that gives names."""
    meta = pod.metadata
    made = ObjectMeta(
        name=meta.name if successor_keeps_name(owners) else "",
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=list(owners),
    )
    kinship = OwnerChains(UndoLog())
    if group is not None:
        kinship.put_group(group)
    same = (reservation.metadata.namespace or "") == (meta.namespace or "")
    return same and Owners.of(reservation.spec.owners or ()).matches(Pod(metadata=made), kinship)


# --- their nodes ------------------------------------------------------------------------------------------------------


def is_node_newer(node: Node, reservation: Reservation) -> bool:
    """Whether a node came into being after a seat was kept on what had its name before."""
    kept = time_of(reservation.status.state.last_transition_time)
    created = time_of(node.metadata.creation_timestamp)
    return kept is not None and created is not None and created > kept


def why_node_unfit(node: Node, pod: Pod) -> str | None:
    """Why a pod may not go to a node any more, by what the node itself says."""
    name = node.metadata.name
    if node.metadata.deletion_timestamp is not None:
        return f"node {name} is being deleted"
    if node.spec.unschedulable and untolerated_taint([UNSCHEDULABLE], pod.spec.tolerations):
        return f"node {name} is cordoned"
    taints = untolerated_taint(node.spec.taints, pod.spec.tolerations)
    if taints:
        told = ", ".join(f"{one.key}={one.value or ''}:{one.effect}" for one in taints)
        return f"node {name} has taints that the pod does not tolerate: {told}"
    if not node_constraint(pod.spec).matches(name, node.metadata.labels):
        return f"node {name} no longer matches the pod's node selector or required node affinity"
    return None
