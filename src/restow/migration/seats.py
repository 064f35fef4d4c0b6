"""Which seat is for whoever takes a pod's place, and why there is none.

Goes in: a reservation and the pod that is to move. Comes out: the seat that is kept for its successor, which is told
from the pod: it has the same labels, owners and requests. The rules are those by which the scheduler hands out seats.
"""

from __future__ import annotations

from restow.model.cluster.owners import Kinship, Owners
from restow.model.cluster.seat import SeatName, migrating_pod, stand_in
from restow.model.cluster.undo import UndoLog
from restow.model.objects import MatchPolicy, ObjectMeta, OwnerReference, Placement, Pod, Reservation
from restow.model.quantity import QuantityError
from restow.model.resources import pod_requests, shortages, template_requests
from restow.scheduling.reservations.comparison import differences
from restow.scheduling.reservations.validity import is_for


def free_seats(reservation: Reservation) -> list[Placement]:
    """The seats that nobody took."""
    return [one for one in reservation.status.placements or () if one.pod_ref is None]


def seats_elsewhere(reservation: Reservation, pod: Pod) -> list[Placement]:
    """The free seats that are not where the pod is now, and that one like it may take."""
    elsewhere = (one for one in free_seats(reservation) if one.node_name != pod.spec.node_name)
    return [one for one in elsewhere if not unlike(reservation, one, pod)]


def unlike(reservation: Reservation, seat: Placement, pod: Pod) -> str:
    """What keeps a pod like this one from a seat, by what the seat was made for; empty if nothing does."""
    task = next((one for one in reservation.spec.tasks or () if one.name == seat.task), None)
    if task is None:
        return ""
    meta = reservation.metadata
    if reservation.spec.match_policy != MatchPolicy.FITS:
        name = SeatName(meta.namespace or "", meta.name, seat.task, seat.index)
        # What names no priority class gets the default one, which the pod has if it named none.
        default = pod.spec.priority_class_name or ""
        found = differences(pod, stand_in(name, task, reservation.spec.scheduler_name), default)
        return f"the pod differs from task {seat.task} in {', '.join(found)}" if found else ""
    try:
        short = shortages(pod_requests(pod), template_requests(task.template.spec))
    except QuantityError as error:
        return str(error)
    return f"the seat is too small: {', '.join(map(str, short))}" if short else ""


def why_not_its(
    reservation: Reservation, pod: Pod, owners: tuple[OwnerReference, ...], schedulers: frozenset[str] | None
) -> str:
    """Why whoever takes a pod's place may use no seat of a reservation; empty if it may."""
    mover = migrating_pod(reservation)
    name = reservation.metadata.name
    if schedulers is not None and not is_for(reservation, schedulers):
        return f"reservation {name} is another scheduler's, schedulerNames has {', '.join(sorted(schedulers))}"
    if mover not in (None, pod.metadata.uid):
        return f"reservation {name} is for the move of another pod, with UID {mover}"
    if not _belongs_to(reservation, pod, owners):
        return f"the owners of reservation {name} do not include whoever takes its place"
    return ""


def _belongs_to(reservation: Reservation, pod: Pod, owners: tuple[OwnerReference, ...]) -> bool:
    """Whether its owners speak of the successor, which has the same name only if the owner is one that gives names."""
    named = any(owner.kind == "StatefulSet" for owner in owners)
    meta = pod.metadata
    made = ObjectMeta(
        name=meta.name if named else "",
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=list(owners),
    )
    successor = Pod(metadata=made, spec=pod.spec)
    same = (reservation.metadata.namespace or "") == (meta.namespace or "")
    return same and Owners.of(reservation.spec.owners or ()).match(successor, Kinship(UndoLog()))
