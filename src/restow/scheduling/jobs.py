"""Jobs: what is started as a whole, and when it is whole.

A pod that names a PodGroup is a member of that gang; every other pod is a job of its own. A reservation is a job, too:
its reserved pods are placed like a gang, and never started. `Job` is one gang, one pod or one reservation, as a session
sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from restow.model.cluster.owner_chains import group_name
from restow.model.counted_nouns import counted_noun
from restow.model.object_key import Key
from restow.model.objects import Pod, PodGroup, PodGroupPhase, Reservation
from restow.model.queues import DEFAULT_QUEUE, queue_name
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.reserved_pod import reserved_pod_of
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import seat_count, seats_needed
from restow.model.resources import parse_amounts
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import QueueSortPlugin
from restow.scheduling.gang_readiness import GangReadiness, role_of
from restow.scheduling.pod_group_cache import PodGroupCache

_NO_ROLES: Counter[str] = Counter()  # not to be written to


class Job:
    """A gang or a single pod with something left to place."""

    __slots__ = (
        "admitted",
        "created",
        "existing",
        "group",
        "is_gang",
        "name",
        "placed",
        "pods",
        "priority",
        "queue",
        "reservation",
        "roles",
    )

    def __init__(
        self, name: str, queue: str, group: PodGroup | None, priority: int, created: str, *, is_gang: bool
    ) -> None:
        self.name = name
        self.is_gang = is_gang
        """Whether its pods name a PodGroup, even one that does not exist."""
        self.reservation: Reservation | None = None
        """The reservation that the job is; its pods are reserved pods then."""
        self.admitted = group is None or (group.status.phase or PodGroupPhase.PENDING) != PodGroupPhase.PENDING
        """Whether it was admitted to its queue."""
        self.queue = queue
        self.group = group
        self.priority = priority
        self.created = created
        self.pods: list[Pod] = []
        """The pods to be placed, in order."""
        self.placed = 0
        """How many members are on a node, or have been and succeeded."""
        self.roles = _NO_ROLES
        """The same by role."""
        self.existing = 0
        """How many members exist."""

    @property
    def min_available(self) -> int:
        """How many pods must be placed together."""
        if self.reservation is not None:
            return seats_needed(self.reservation)
        return 1 if self.group is None else min_members(self.group)

    @property
    def min_by_role(self) -> Mapping[str, int]:
        """How many of each role."""
        return min_members_by_role(self.group) if self.group is not None else {}

    @property
    def why_incomplete(self) -> str | None:
        """Why no pod of a gang is placed: too few exist, or none of a role. None if the gang can be placed."""
        if not self.is_gang:
            return None
        return _why_incomplete(
            self.name, self.group, GangReadiness(self.existing, self.roles, Counter(map(role_of, self.pods)))
        )

    @property
    def is_broken(self) -> bool:
        """Whether some members are on nodes, but too few, or none of a role. Bindings cannot be undone, so a broken
        gang is completed before other jobs."""
        return self.group is not None and self.placed > 0 and not self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether all pods that must be placed together are placed."""
        return self.would_be_whole(())

    def mark_placed(self, pods: Sequence[Pod]) -> None:
        """These pods have a node now."""
        self.placed += len(pods)
        self.roles = self.roles + Counter(map(role_of, pods))
        self.drop_pods(pods)

    def preferred_nodes(self, pod: Pod) -> Sequence[str]:
        """The nodes that the task of a reserved pod names, in order of preference."""
        tasks, name = (self.reservation.spec.tasks if self.reservation else None) or (), seat_of_reserved_pod(pod).task
        return next((task.reservation_node_names or () for task in tasks if task.name == name), ())

    def drop_pods(self, pods: Sequence[Pod]) -> None:
        """These pods are not to be placed any more."""
        gone = {pod.metadata.uid for pod in pods}
        self.pods = [pod for pod in self.pods if pod.metadata.uid not in gone]

    def order(self, sort: QueueSortPlugin | None) -> tuple[bool, Any, str, str]:
        """Broken gangs first; then priority, or the key of the QueueSort plugin; then age and name."""
        first = -self.priority if sort is None else min(map(sort.sort_key, self.pods))
        return not self.is_broken, first, self.created, self.name

    def would_be_whole(self, more: Sequence[Pod]) -> bool:
        """Whether the job is whole once these pods are placed, too."""
        if self.placed + len(more) < self.min_available:
            return False
        return not self.min_by_role or _has_all(self.min_by_role, self.roles + Counter(map(role_of, more)))

    def split_required(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """As many pods of each role as the gang needs, and the others."""
        missing = Counter(self.min_by_role) - self.roles
        needed: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            role = role_of(pod)
            (needed if missing[role] > 0 else others).append(pod)
            missing[role] -= 1
        return needed, others

    def may_place(self, more: Sequence[Pod]) -> bool:
        """Whether these pods may be placed for good: enough to start; or, of a broken gang, any that bring it nearer to
        being whole."""
        return self.would_be_whole(more) or (self.is_broken and len(more) > 0)


def jobs_of_pods(
    pods: Sequence[Pod], pod_groups: PodGroupCache, snapshot: Snapshot, sort: QueueSortPlugin | None = None
) -> list[Job]:
    """The jobs that these pending pods make up, in order."""
    jobs: list[Job] = []
    gangs: dict[Key, list[Pod]] = {}
    for pod in pods:
        key = pod_groups.gang_of(pod) if pod.metadata.annotations else None
        if key is None:
            jobs.append(_single(pod))
        else:
            gangs.setdefault(key, []).append(pod)
    jobs += [_gang(key, members, pod_groups, snapshot) for key, members in gangs.items()]
    return sorted(jobs, key=lambda job: job.order(sort))


def jobs_of_reservations(
    reservations: Iterable[Reservation], pod_groups: PodGroupCache, snapshot: Snapshot
) -> list[Job]:
    """The jobs that place what these reservations have left to place."""
    jobs = [_reservation(each, pod_groups, snapshot) for each in reservations if not is_ended(each)]
    return [job for job in jobs if job.pods]


def _reservation(reservation: Reservation, pod_groups: PodGroupCache, snapshot: Snapshot) -> Job:
    metadata, spec = reservation.metadata, reservation.spec
    namespace = metadata.namespace or ""
    queue, created = spec.queue or DEFAULT_QUEUE, metadata.creation_timestamp or ""
    name = f"reservation {namespace}/{metadata.name}"
    job = Job(name, queue, None, pod_groups.priority_classes.reservation_priority(reservation), created, is_gang=False)
    job.reservation = reservation
    for task in spec.tasks or ():
        for index in range(seat_count(task)):
            seat = SeatName(namespace, metadata.name, task.name, index)
            job.existing += 1
            if snapshot.reservations.consumers.is_given(seat):
                job.placed += 1
            else:
                job.pods.append(reserved_pod_of(seat, task, spec.scheduler_name, spec.queue))
    return job


def seat_of_reserved_pod(reserved_pod: Pod) -> SeatName:
    """The seat of a reserved pod."""
    name = SeatName.parse(reserved_pod.metadata.uid)
    assert name is not None, "the UID of a reserved pod is the name of its seat"
    return name


def _single(pod: Pod) -> Job:
    metadata = pod.metadata
    name = f"{metadata.namespace}/{metadata.name}"
    queue, created = queue_name(None, pod), metadata.creation_timestamp or ""
    job = Job(name, queue, None, pod.spec.priority or 0, created, is_gang=False)
    job.pods.append(pod)
    job.existing = 1
    return job


def _gang(key: Key, pods: Sequence[Pod], pod_groups: PodGroupCache, snapshot: Snapshot) -> Job:
    group, members = pod_groups.group(key), pod_groups.members(key)
    created = (group.metadata if group else pods[0].metadata).creation_timestamp or ""
    queue, priority = queue_name(group, pods[0]), pod_groups.priority(group, pods)
    job = Job("/".join(key), queue, group, priority, created, is_gang=True)
    job.existing = len({pod.metadata.uid for pod in (*members, *pods)})
    placed = placed_members(members, snapshot)
    job.placed = len(placed)
    job.roles = Counter(role_of(pod) for pod in placed)
    job.admitted = job.admitted or job.is_broken
    required, others = job.split_required(sorted(pods, key=_task_order))
    job.pods = [*required, *others]
    return job


def placed_members(members: Iterable[Pod], snapshot: Snapshot) -> list[Pod]:
    """The members of a gang that are on a node and not leaving, or have succeeded."""
    return [pod for pod in members if _is_placed(pod, snapshot)]


def is_gang_broken(gang: Key, pod_groups: PodGroupCache, snapshot: Snapshot) -> bool:
    """Whether some members of a gang are on nodes, but too few, or none of a role."""
    group = pod_groups.group(gang)
    placed = placed_members(pod_groups.members(gang), snapshot)
    return group is not None and len(placed) > 0 and not is_gang_satisfied(group, placed)


def _is_placed(pod: Pod, snapshot: Snapshot) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    occupant = snapshot.pods.known.get(pod.metadata.uid)
    return occupant is not None and not occupant.leaving


def _task_order(pod: Pod) -> tuple[int, str, str]:
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.name


def min_members(group: PodGroup) -> int:
    """How many pods of a gang must be placed together."""
    return max(group.spec.min_member or 1, 1)


def min_members_by_role(group: PodGroup) -> Mapping[str, int]:
    """How many pods of each role must be placed together; as in Volcano, only if minMember is that many."""
    roles = group.spec.min_task_member or {}
    return roles if min_members(group) >= sum(roles.values()) else {}


def is_gang_satisfied(group: PodGroup, members: Sequence[Pod]) -> bool:
    """Whether a gang is whole with these members on nodes."""
    return len(members) >= min_members(group) and _has_all(min_members_by_role(group), Counter(map(role_of, members)))


def _has_all(needed: Mapping[str, int], roles: Counter[str]) -> bool:
    return all(roles[role] >= least for role, least in needed.items())


def why_successor_unschedulable(pod: Pod, group: PodGroup | None, readiness: GangReadiness) -> str | None:
    """Why the successor of a member of a gang would not be scheduled, given the readiness of the gang now."""
    name = group_name(pod)
    if name is None:
        return None
    why = _why_incomplete(f"{pod.metadata.namespace or ''}/{name}", group, readiness.without(pod))
    return f"{why}: its successor would not be scheduled" if why is not None else None


def _why_incomplete(gang: str, group: PodGroup | None, readiness: GangReadiness) -> str | None:
    """Why no pod of a gang is placed. Of a gang with pods on nodes, any that bring it nearer to being whole are."""
    if group is None:
        return f"pod group {gang} does not exist"
    placed, waiting, needed = readiness.placed.total(), readiness.waiting.total(), min_members(group)
    if placed + waiting < needed:
        fewer = "" if placed + waiting == readiness.existing else f" and {placed + waiting} of them can be placed"
        return too_few_pods_message(gang, needed, readiness.existing) + fewer
    has_all_roles = _has_all(min_members_by_role(group), readiness.placed + readiness.waiting)
    return None if has_all_roles or (placed > 0 and waiting > 0) else missing_roles_message(gang)


def too_few_pods_message(gang: str, needed: int, existing: int) -> str:
    return f"pod group {gang} needs {counted_noun(needed, 'pod')}, {existing} exist"


def missing_roles_message(gang: str) -> str:
    return f"pod group {gang} lacks pods of a role that it needs"


def min_resources(group: PodGroup) -> dict[str, int]:
    """The minResources of a gang. Raises QuantityError."""
    return parse_amounts(group.spec.min_resources)
