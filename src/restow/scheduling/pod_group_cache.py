"""The roster: which pods belong to which gang, which queues there are, and what the pods of each take.

Goes in: pods, PodGroups, queues and priority classes as the API shows them, as the snapshot is fed, and what the
scheduler decides ahead of it. Comes out: the members of every gang, priorities, and what each queue uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from restow.model.cluster.owner_chains import group_name
from restow.model.guarantees import ClusterCapacity, GuaranteeRequest, is_rejected, limit_problems, read_guarantee
from restow.model.object_key import Key, key_of
from restow.model.objects import ObjectMeta, Pod, PodGroup, PodSpec, PriorityClass, Queue, Reservation
from restow.model.pods import is_finished
from restow.model.queues import DEFAULT_QUEUE, is_open, queue_name
from restow.model.resources import PODS, Vector, add, pod_requests, subtract
from restow.scheduling.gang_readiness import GangReadiness


class PodGroupCache:
    """The members of gangs, the queues, and what the pods of each queue take."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {DEFAULT_QUEUE: Queue(metadata=ObjectMeta(name=DEFAULT_QUEUE))}
        self.unreadable_queues: dict[str, str] = {}
        """Queues with limits that cannot be read, and what is wrong with them: nobody knows what they may take."""
        self._groups: dict[Key, PodGroup] = {}
        self._members: dict[Key, dict[str, Pod]] = {}
        self._gang_of: dict[str, Key] = {}
        self._turnouts: dict[Key, GangReadiness] = {}
        self._priorities: dict[str, int] = {}
        self.default_priority_class = ""
        """The priority class of pods that name none, if there is one."""
        self._placed: dict[str, Pod] = {}
        self._usage: dict[str, dict[str, int]] | None = None
        self._guarantees: tuple[ClusterCapacity, dict[str, Vector]] | None = None
        self._asked: tuple[Pod, Vector] | None = None

    # --- what the API shows -------------------------------------------------------------------------------------------

    def apply_pod(self, pod: Pod) -> None:
        uid, key = pod.metadata.uid, self.gang_of(pod)
        if self._gang_of.get(uid) != key:
            self._leave_gang(uid)
        if key is not None:
            self._gang_of[uid] = key
            self._members.setdefault(key, {})[uid] = pod
            self._turnouts.pop(key, None)
        if is_finished(pod):
            self._displace(uid)
        elif pod.spec.node_name:
            self.assume(pod)

    def remove_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._displace(uid)
        self._leave_gang(uid)

    def apply_group(self, group: PodGroup) -> None:
        key = key_of(group)
        old = self._groups.get(key)
        self._groups[key] = group
        if old is None or old.spec.queue != group.spec.queue:
            self._usage = None

    def remove_group(self, group: PodGroup) -> None:
        if self._groups.pop(key_of(group), None):
            self._usage = None

    def apply_queue(self, queue: Queue) -> None:
        name, problems = queue.metadata.name, limit_problems(queue)
        if name == DEFAULT_QUEUE and queue.metadata.deletion_timestamp:
            self.remove_queue(queue)
            return
        self._guarantees = None
        self.unreadable_queues.pop(name, None)
        if problems:
            self.unreadable_queues[name] = "; ".join(map(str, problems))
            queue = replace(queue, spec=replace(queue.spec, capability=None, deserved=None, guarantee=None))
        self.queues[name] = queue

    def remove_queue(self, queue: Queue) -> None:
        """The default queue always exists: without limits, where nobody made one."""
        self._guarantees = None
        self.unreadable_queues.pop(queue.metadata.name, None)
        self.queues.pop(queue.metadata.name, None)
        self.queues.setdefault(DEFAULT_QUEUE, Queue(metadata=ObjectMeta(name=DEFAULT_QUEUE)))

    def apply_priority_class(self, priority: PriorityClass) -> None:
        self._priorities[priority.metadata.name] = priority.value or 0
        if priority.global_default:
            self.default_priority_class = priority.metadata.name
        elif self.default_priority_class == priority.metadata.name:
            self.default_priority_class = ""

    def remove_priority_class(self, priority: PriorityClass) -> None:
        self._priorities.pop(priority.metadata.name, None)
        if self.default_priority_class == priority.metadata.name:
            self.default_priority_class = ""

    # --- what the scheduler decides, ahead of the API -----------------------------------------------------------------

    def assume(self, pod: Pod) -> None:
        """A pod counts for its queue from now on; one that did already as it is now, in size and queue."""
        uid = pod.metadata.uid
        if self._usage is not None:
            self._displace(uid)
            self._charge(self._usage, pod)
        self._placed[uid] = pod

    def forget(self, pod: Pod) -> None:
        """The inverse; harmless for a pod that does not count."""
        self._displace(pod.metadata.uid)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def is_usage_limited(self) -> bool:
        """Whether it matters what a queue uses: there are several, or the only one is limited."""
        limited = (one.spec.capability or one.spec.parent or one.status.state for one in self.queues.values())
        return len(self.queues) > 1 or bool(self.unreadable_queues) or any(limited)

    def usage(self) -> Mapping[str, Vector]:
        """What the pods of each queue take on nodes."""
        if self._usage is None:
            self._usage = {}
            for pod in self._placed.values():
                self._charge(self._usage, pod)
        return self._usage

    def guarantees(self, cluster: ClusterCapacity) -> Mapping[str, Vector]:
        """What is guaranteed to each queue that is open; nothing that was rejected, or is to be."""
        if self._guarantees is None or self._guarantees[0] != cluster:
            queues = [queue for queue in self.queues.values() if is_open(queue) and not is_rejected(queue)]
            asked = {queue.metadata.name: read_guarantee(queue, cluster) for queue in queues}
            granted = {name: one.amounts for name, one in asked.items() if isinstance(one, GuaranteeRequest)}
            self._guarantees = (cluster, granted)
        return self._guarantees[1]

    def group(self, key: Key) -> PodGroup | None:
        return self._groups.get(key)

    def groups(self) -> list[PodGroup]:
        """Every PodGroup, by namespace and name."""
        return [self._groups[key] for key in sorted(self._groups)]

    def members(self, key: Key) -> list[Pod]:
        """The pods of a gang, whatever their state, by name."""
        members = self._members.get(key, {})
        return sorted(members.values(), key=lambda pod: (pod.metadata.name, pod.metadata.uid))

    def readiness(self, key: Key) -> GangReadiness:
        """Who of a gang is there: counted once, however many of its pods are asked about."""
        found = self._turnouts.get(key)
        if found is None:
            found = self._turnouts[key] = GangReadiness.of(self._members.get(key, {}).values())
        return found

    def gang_of(self, pod: Pod) -> Key | None:
        name = group_name(pod)
        return None if name is None else (pod.metadata.namespace or "", name)

    def requests_of(self, pod: Pod) -> Vector:
        """What a pod counts for in its queue: worked out once for a pod that is looked at several times in a row."""
        if self._asked is None or self._asked[0] is not pod:
            self._asked = (pod, requests_of(pod))
        return self._asked[1]

    def queue_of(self, pod: Pod) -> str:
        key = self.gang_of(pod)
        return queue_name(self._groups.get(key) if key else None, pod)

    def priority(self, group: PodGroup | None, pods: Iterable[Pod]) -> int:
        """The gang's own priority class, else the most important of its pods."""
        named = self._priorities.get(group.spec.priority_class_name or "") if group else None
        return named if named is not None else max((pod.spec.priority or 0 for pod in pods), default=0)

    def missing_priority_class(self, reservation: Reservation) -> str | None:
        """A priority class that a reservation names and nobody knows: no pod could come to take its seat."""
        specs = [task.template.spec for task in reservation.spec.tasks or () if task.template.spec.priority is None]
        named = [spec.priority_class_name for spec in specs if spec.priority_class_name]
        return next((name for name in named if name not in self._priorities), None)

    def reservation_priority(self, reservation: Reservation) -> int:
        """That of the most important pod it is for, as the API server will set it."""
        specs = [task.template.spec for task in reservation.spec.tasks or ()]
        return max((self._future_priority(spec) for spec in specs), default=0)

    def _future_priority(self, spec: PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        return self._priorities.get(spec.priority_class_name or self.default_priority_class, 0)

    def _leave_gang(self, uid: str) -> None:
        key = self._gang_of.pop(uid, None)
        if key is not None:
            self._turnouts.pop(key, None)
            del self._members[key][uid]
            if not self._members[key]:
                del self._members[key]

    def _displace(self, uid: str) -> None:
        pod = self._placed.pop(uid, None)
        if pod is not None and self._usage is not None:
            queue = self.queue_of(pod)
            self._usage[queue] = subtract(self._usage.get(queue, {}), requests_of(pod))

    def _charge(self, usage: dict[str, dict[str, int]], pod: Pod) -> None:
        queue = self.queue_of(pod)
        usage[queue] = add(usage.get(queue, {}), self.requests_of(pod))


def requests_of(pod: Pod) -> dict[str, int]:
    """What a pod counts for in its queue, itself included."""
    return {**pod_requests(pod), PODS: 1}
