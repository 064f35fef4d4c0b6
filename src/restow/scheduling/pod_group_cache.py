"""The PodGroup cache: which pods belong to which gang, which queue they are in, and what the pods of each queue take.

Goes in: pods, PodGroups, queues and priority classes as the API shows them, at the same time as the snapshot gets them;
and what the scheduler decides ahead of the API. Comes out: the members of every gang, priorities, and what each queue
uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from restow.model.cluster.owner_chains import group_name
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, PodGroup
from restow.model.pods import is_finished
from restow.model.queues import queue_name
from restow.model.resources import PODS, Vector, add_vectors, pod_requests, subtract_vectors
from restow.scheduling.gang_readiness import GangReadiness
from restow.scheduling.priority_classes import PriorityClasses
from restow.scheduling.queue_cache import QueueCache


class PodGroupCache:
    def __init__(self) -> None:
        self.queues = QueueCache()
        self.priority_classes = PriorityClasses()
        self._groups: dict[Key, PodGroup] = {}
        self._members: dict[Key, dict[str, Pod]] = {}
        self._gang_of: dict[str, Key] = {}
        self._readiness: dict[Key, GangReadiness] = {}
        self._counted: dict[str, Pod] = {}
        """The pods that count for their queue: on nodes, or assumed there."""
        self._usage: dict[str, dict[str, int]] | None = None
        """By queue; None while it has to be added up anew."""
        self._last_requests: tuple[Pod, Vector] | None = None

    # --- what the API shows -------------------------------------------------------------------------------------------

    def apply_pod(self, pod: Pod) -> None:
        uid, key = pod.metadata.uid, self.gang_of(pod)
        if self._gang_of.get(uid) != key:
            self._leave_gang(uid)
        if key is not None:
            self._gang_of[uid] = key
            self._members.setdefault(key, {})[uid] = pod
            self._readiness.pop(key, None)
        if is_finished(pod):
            self._stop_counting(uid)
        elif pod.spec.node_name:
            self.assume(pod)

    def remove_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._stop_counting(uid)
        self._leave_gang(uid)

    def apply_group(self, group: PodGroup) -> None:
        key = key_of(group)
        old = self._groups.get(key)
        self._groups[key] = group
        if old is None or old.spec.queue != group.spec.queue:
            self._usage = None  # its pods may be in another queue now

    def remove_group(self, group: PodGroup) -> None:
        if self._groups.pop(key_of(group), None):
            self._usage = None

    # --- what the scheduler decides, ahead of the API -----------------------------------------------------------------

    def assume(self, pod: Pod) -> None:
        """Count a pod for its queue from now on; a pod that is counted already is counted as it is now."""
        uid = pod.metadata.uid
        if self._usage is not None:
            self._stop_counting(uid)
            self._count(self._usage, pod)
        self._counted[uid] = pod

    def forget(self, pod: Pod) -> None:
        """The inverse of `assume`; harmless for a pod that does not count."""
        self._stop_counting(pod.metadata.uid)

    # --- gangs --------------------------------------------------------------------------------------------------------

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
        """How many pods of a gang are there: counted once, however often it is asked for."""
        readiness = self._readiness.get(key)
        if readiness is None:
            readiness = self._readiness[key] = GangReadiness.of(self._members.get(key, {}).values())
        return readiness

    def gang_of(self, pod: Pod) -> Key | None:
        name = group_name(pod)
        return None if name is None else (pod.metadata.namespace or "", name)

    def priority(self, group: PodGroup | None, pods: Iterable[Pod]) -> int:
        """The gang's own priority class, else the most important of its pods."""
        named = self.priority_classes.value(group.spec.priority_class_name or "") if group else None
        return named if named is not None else max((pod.spec.priority or 0 for pod in pods), default=0)

    # --- queues -------------------------------------------------------------------------------------------------------

    def queue_of(self, pod: Pod) -> str:
        key = self.gang_of(pod)
        return queue_name(self._groups.get(key) if key else None, pod)

    def usage(self) -> Mapping[str, Vector]:
        """What the pods of each queue take on nodes."""
        if self._usage is None:
            self._usage = {}
            for pod in self._counted.values():
                self._count(self._usage, pod)
        return self._usage

    def requests_of(self, pod: Pod) -> Vector:
        """`requests_of`, worked out once for a pod that is looked at several times in a row."""
        if self._last_requests is None or self._last_requests[0] is not pod:
            self._last_requests = (pod, requests_of(pod))
        return self._last_requests[1]

    def _leave_gang(self, uid: str) -> None:
        key = self._gang_of.pop(uid, None)
        if key is not None:
            self._readiness.pop(key, None)
            del self._members[key][uid]
            if not self._members[key]:
                del self._members[key]

    def _stop_counting(self, uid: str) -> None:
        pod = self._counted.pop(uid, None)
        if pod is not None and self._usage is not None:
            queue = self.queue_of(pod)
            self._usage[queue] = subtract_vectors(self._usage.get(queue, {}), requests_of(pod))

    def _count(self, usage: dict[str, dict[str, int]], pod: Pod) -> None:
        queue = self.queue_of(pod)
        usage[queue] = add_vectors(usage.get(queue, {}), self.requests_of(pod))


def requests_of(pod: Pod) -> dict[str, int]:
    """What a pod counts for in its queue: its requests, and one pod."""
    return {**pod_requests(pod), PODS: 1}
