"""Workloads: which pods are replicas of one another, and how many of them there should be.

Goes in: pods and the objects that own them, as the API shows them, in any order. Comes out: the workload of a pod,
which is the topmost controller above it that says how many replicas it wants (the Deployment above a ReplicaSet), and
the pods of a workload. A controller that is unknown, or does not say, is taken to want the pods it has.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restow.model.objects import (
    Deployment,
    Job,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from restow.model.pods import controller_of, is_finished

Owner = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job


class Workload(msgspec.Struct, frozen=True, gc=False):
    uid: str
    kind: str
    namespace: str
    name: str
    replicas: int
    """How many it should have."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class _Known(msgspec.Struct, frozen=True):
    kind: str
    metadata: ObjectMeta
    replicas: int


class Workloads:
    """Kept up to date event by event."""

    def __init__(self) -> None:
        self._owners: dict[str, _Known] = {}
        self._below: dict[str, set[str]] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._places: dict[str, str] = {}

    def put_owner(self, owner: Owner) -> None:
        self.put_scale(type(owner).__name__, owner.metadata, expected_replicas(owner))

    def put_scale(self, kind: str, metadata: ObjectMeta, replicas: int) -> None:
        """Any other controller, of which only the scale is known."""
        self.drop_owner(metadata.uid)
        known = self._owners[metadata.uid] = _Known(kind, metadata, replicas)
        above = controller_of(known)
        if above is not None:
            self._below.setdefault(above.uid, set()).add(metadata.uid)

    def drop_owner(self, uid: str) -> None:
        known = self._owners.pop(uid, None)
        above = controller_of(known) if known else None
        if above is not None:
            self._below[above.uid].discard(uid)

    def put_pod(self, pod: Pod) -> None:
        """A pod as it is now; one that is over is nobody's replica any more."""
        self.drop_pod(pod.metadata.uid)
        owner = controller_of(pod)
        if owner is not None and not is_finished(pod):
            self._pods.setdefault(owner.uid, {})[pod.metadata.uid] = pod
            self._places[pod.metadata.uid] = owner.uid

    def drop_pod(self, uid: str) -> None:
        owner = self._places.pop(uid, None)
        if owner is not None:
            del self._pods[owner][uid]

    def of(self, pod: Pod) -> Workload | None:
        """The workload a pod is a replica of; None for a bare pod."""
        owner = controller_of(pod)
        if owner is None:
            return None
        namespace = pod.metadata.namespace or ""
        known = self._owners.get(owner.uid)
        if known is None:
            return Workload(owner.uid, owner.kind, namespace, owner.name, len(self._pods.get(owner.uid, ())))
        while (above := controller_of(known)) and above.uid in self._owners:
            known = self._owners[above.uid]
        return Workload(known.metadata.uid, known.kind, namespace, known.metadata.name, known.replicas)

    def chain(self, pod: Pod) -> Iterator[OwnerReference]:
        """The controller of a pod, its controller, and so on."""
        owner = controller_of(pod)
        while owner is not None:
            yield owner
            known = self._owners.get(owner.uid)
            owner = controller_of(known) if known else None

    def pods(self, uid: str) -> Iterator[Pod]:
        """The pods of a workload, whichever of its ReplicaSets they are of."""
        yield from self._pods.get(uid, {}).values()
        for below in sorted(self._below.get(uid, ())):
            yield from self.pods(below)


def expected_replicas(owner: Owner) -> int:
    """How many pods a controller wants at once; 1 where it does not say, as the API server would fill in."""
    if isinstance(owner, Job):
        wanted = 1 if owner.spec.parallelism is None else owner.spec.parallelism
        left = None if owner.spec.completions is None else owner.spec.completions - (owner.status.succeeded or 0)
        return max(0, wanted if left is None else min(wanted, left))
    return 1 if owner.spec.replicas is None else owner.spec.replicas
