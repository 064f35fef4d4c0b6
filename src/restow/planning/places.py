"""Places: waiting pods that take room, whole gangs or none of them.

Goes in: places, on a snapshot as it will be then. Comes out: those that hold, assumed on the snapshot. A gang of which
too few find a place gives up those that did, and others may have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from restow.model.cluster.owner_chains import group_name
from restow.model.objects import Pod
from restow.model.pods import full_name
from restow.model.snapshot import Snapshot
from restow.planning.measures import slots_by_row
from restow.planning.plan import Place
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Cycle
from restow.scheduling.jobs import jobs_of_pods
from restow.scheduling.pod_group_cache import PodGroupCache

Name = tuple[str, str]


def assign_places(
    snapshot: Snapshot, request: PlanRequest, places: Iterable[Place], *, allow_other_nodes: bool = False
) -> tuple[Place, ...]:
    """Assume waiting pods where these places are, as far as they fit there; with `elsewhere` also on other nodes."""
    pending = {full_name(pod): pod for pod in request.pending}
    waiting = [(place, pending[_name(place)]) for place in places if _name(place) in pending]
    needed = _needed(snapshot, request)
    while True:
        mark = snapshot.mark()
        found = list(_fitting(snapshot, request, waiting, allow_other_nodes))
        counts = Counter(_gang(pending[_name(place)]) for place in found)
        broken = {gang for gang, count in counts.items() if count < needed.get(gang, 0)}
        if not broken:
            snapshot.keep(mark)
            return tuple(found)
        snapshot.undo_to(mark)
        waiting = [(place, pod) for place, pod in waiting if _gang(pod) not in broken]


def _fitting(
    snapshot: Snapshot, request: PlanRequest, waiting: Sequence[tuple[Place, Pod]], elsewhere: bool
) -> Iterator[Place]:
    astray: list[tuple[Place, Pod]] = []
    for place, pod in waiting:
        if request.engine.fits(Cycle(pod, snapshot, request.now), place.node):
            snapshot.assume(pod, place.node, at=request.now)
            yield place
        else:
            astray.append((place, pod))
    for place, pod in astray if elsewhere else ():
        node = _fullest(snapshot, request, pod)
        if node is not None:
            snapshot.assume(pod, node, at=request.now)
            yield replace(place, node=node)


def _fullest(snapshot: Snapshot, request: PlanRequest, pod: Pod) -> str | None:
    """The fullest node that takes a waiting pod."""
    cycle = Cycle(pod, snapshot, request.now)
    left = slots_by_row(snapshot, cycle.pod_class.shape.amounts)
    rows = request.engine.feasible_rows(cycle).tolist()
    return min(((int(left[row]), snapshot.rows.name(row) or "") for row in rows), default=(0, None))[1]


def _needed(snapshot: Snapshot, request: PlanRequest) -> dict[Name, int]:
    """By gang, how many pods more have to find a place for it to start."""
    jobs = jobs_of_pods(request.pending, request.pod_groups or PodGroupCache(), snapshot)
    return {_gang(job.pods[0]): job.min_available - job.placed for job in jobs if job.is_gang and job.pods}


def _gang(pod: Pod) -> Name:
    """The gang of a pod; one of its own is nobody else's."""
    namespace, name = full_name(pod)
    return namespace, group_name(pod) or f"/{name}"


def _name(place: Place) -> Name:
    return place.namespace, place.pod
