"""Assigns pending pods to the places of a plan: a gang as a whole, or no pod of it.

Goes in: places, and a snapshot as it will be once the moves are done. Comes out: the places that hold; their pods are
assumed on the snapshot. If too few pods of a gang fit, none of its pods gets a place, and other pods may take the room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from restow.model.cluster.owner_chains import group_name
from restow.model.objects import Pod
from restow.model.pods import namespaced_name
from restow.model.snapshot import Snapshot
from restow.planning.measures import slots_by_row
from restow.planning.plan import Place
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Cycle
from restow.scheduling.jobs import jobs_of_pods
from restow.scheduling.pod_group_cache import PodGroupCache

PodName = tuple[str, str]
"""Namespace and name."""


def assign_places(
    snapshot: Snapshot, request: PlanRequest, places: Iterable[Place], *, allow_other_nodes: bool = False
) -> tuple[Place, ...]:
    """Assume pending pods on the nodes of these places if they fit there; with `allow_other_nodes` also elsewhere."""
    pending = {namespaced_name(pod): pod for pod in request.pending}
    waiting = [(place, pending[_pod_name(place)]) for place in places if _pod_name(place) in pending]
    minimums = _gang_minimums(snapshot, request)
    # Each round drops the gangs of which too few pods fit, and tries again without them. It ends because each round
    # but the last one has fewer pods than the one before.
    while True:
        mark = snapshot.mark()
        assigned = list(_assume_fitting(snapshot, request, waiting, allow_other_nodes))
        counts = Counter(_gang_name(pending[_pod_name(place)]) for place in assigned)
        incomplete = {gang for gang, count in counts.items() if count < minimums.get(gang, 0)}
        if not incomplete:
            snapshot.keep(mark)
            return tuple(assigned)
        snapshot.undo_to(mark)
        waiting = [(place, pod) for place, pod in waiting if _gang_name(pod) not in incomplete]


def _assume_fitting(
    snapshot: Snapshot, request: PlanRequest, waiting: Sequence[tuple[Place, Pod]], allow_other_nodes: bool
) -> Iterator[Place]:
    """First the places with room on their own node, so that pods without room elsewhere do not take it from them."""
    without_room: list[tuple[Place, Pod]] = []
    for place, pod in waiting:
        if request.engine.fits(Cycle(pod, snapshot, request.now), place.node):
            snapshot.assume(pod, place.node, at=request.now)
            yield place
        else:
            without_room.append((place, pod))
    for place, pod in without_room if allow_other_nodes else ():
        node = _fullest_node(snapshot, request, pod)
        if node is not None:
            snapshot.assume(pod, node, at=request.now)
            yield replace(place, node=node)


def _fullest_node(snapshot: Snapshot, request: PlanRequest, pod: Pod) -> str | None:
    """The fullest node that has room for a pending pod."""
    cycle = Cycle(pod, snapshot, request.now)
    slots = slots_by_row(snapshot, cycle.pod_class.shape.amounts)
    rows = request.engine.feasible_rows(cycle).tolist()
    return min(((int(slots[row]), snapshot.rows.name(row) or "") for row in rows), default=(0, None))[1]


def _gang_minimums(snapshot: Snapshot, request: PlanRequest) -> dict[PodName, int]:
    """By gang: how many more of its pods have to find a place for it to start."""
    jobs = jobs_of_pods(request.pending, request.pod_groups or PodGroupCache(), snapshot)
    return {_gang_name(job.pods[0]): job.min_available - job.placed for job in jobs if job.is_gang and job.pods}


def _gang_name(pod: Pod) -> PodName:
    """The gang of a pod; for a pod without a gang, a name that no gang can have (it contains a slash)."""
    namespace, name = namespaced_name(pod)
    return namespace, group_name(pod) or f"/{name}"


def _pod_name(place: Place) -> PodName:
    return place.namespace, place.pod
