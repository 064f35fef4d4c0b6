"""Workloads: which pods are replicas of one workload, and how many of them there should be.

Goes in: pods and the objects that own them, as the API shows them, in any order. Comes out: the workload of a pod,
which is the topmost controller above it with a number of replicas (the Deployment above a ReplicaSet), and the pods of
a workload. A controller of another kind, or one that is not known, is taken to want the pods that it has.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from restow.eviction.job_backoff import is_uncounted_failure, job_failure_by_loss
from restow.eviction.statefulset_order import is_made_from_current_revision, waits_for_order
from restow.model.objects import (
    Deployment,
    Job,
    OwnerReference,
    Pod,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from restow.model.pods import controller_of, is_finished

REVISION_LABEL = "controller-revision-hash"
Owner = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job


class Workload(msgspec.Struct, frozen=True, gc=False):
    uid: str
    kind: str
    namespace: str
    name: str
    replicas: int
    """How many pods it should have."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Workloads:
    """Kept up to date event by event."""

    def __init__(self) -> None:
        self._owners: dict[str, Owner] = {}
        self._below: dict[str, set[str]] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._uncounted_failures: dict[str, dict[str, Pod]] = {}
        """Failed pods that their Job has not counted yet, by the UID of the Job and their own. Kept apart, because
        their number is asked for each pod of a Job."""
        self._places: dict[str, str] = {}

    def put_owner(self, owner: Owner) -> None:
        uid = owner.metadata.uid
        self.drop_owner(uid)
        self._owners[uid] = owner
        above = controller_of(owner)
        if above is not None:
            self._below.setdefault(above.uid, set()).add(uid)

    def drop_owner(self, uid: str) -> None:
        known = self._owners.pop(uid, None)
        above = controller_of(known) if known else None
        if above is not None:
            self._below[above.uid].discard(uid)

    def put_pod(self, pod: Pod) -> None:
        """A pod as it is now; a finished pod is no replica any more."""
        self.drop_pod(pod.metadata.uid)
        owner = controller_of(pod)
        if owner is None:
            return
        uid = pod.metadata.uid
        self._places[uid] = owner.uid
        if not is_finished(pod):
            self._pods.setdefault(owner.uid, {})[uid] = pod
        if is_uncounted_failure(pod):
            self._uncounted_failures.setdefault(owner.uid, {})[uid] = pod

    def drop_pod(self, uid: str) -> None:
        owner = self._places.pop(uid, None)
        if owner is not None:
            for known in (self._pods, self._uncounted_failures):
                inside = known.get(owner, {})
                inside.pop(uid, None)
                if not inside:
                    known.pop(owner, None)

    def workload_of(self, pod: Pod) -> Workload | None:
        """The workload that a pod is a replica of; None for a bare pod."""
        owner = controller_of(pod)
        if owner is None:
            return None
        namespace = pod.metadata.namespace or ""
        known = self._owners.get(owner.uid)
        if known is None:
            return Workload(owner.uid, owner.kind, namespace, owner.name, len(self._pods.get(owner.uid, ())))
        while (above := controller_of(known)) and above.uid in self._owners:
            known = self._owners[above.uid]
        meta = known.metadata
        return Workload(meta.uid, type(known).__name__, namespace, meta.name, expected_replicas(known))

    def owner_chain(self, pod: Pod) -> Iterator[OwnerReference]:
        """The controller of a pod, its controller, and so on."""
        owner = controller_of(pod)
        while owner is not None:
            yield owner
            known = self._owners.get(owner.uid)
            owner = controller_of(known) if known else None

    def pod_template(self, pod: Pod) -> PodTemplate | None:
        """The template that the controller of a pod would recreate it from; None if that is not known.

        If this pod was created from the same template, the template's schedulerName and scheduling gates are left out:
        where the pod has others, a webhook has changed them, and will do so again."""
        owner = self._owner(pod)
        if owner is None or (isinstance(owner, StatefulSet) and is_made_from_current_revision(pod, owner)):
            return None
        template = owner.spec.template
        return (
            _without_scheduler_and_gates(template)
            if template is not None and _is_made_from_current_template(owner, pod)
            else template
        )

    def node_named_by_template(self, pod: Pod) -> str:
        """The node that the controller's template names; empty if the template leaves it to a scheduler."""
        template = self.pod_template(pod)
        return (template.spec.node_name if template is not None else None) or ""

    def job_failure_by_loss(self, pod: Pod) -> str:
        """Why the Job of a pod would fail if the pod were evicted; empty if it would not, or if there is no Job."""
        owner = self._owner(pod)
        if not isinstance(owner, Job) or is_finished(pod):
            return ""
        return job_failure_by_loss(owner, pod, self._uncounted_failures.get(owner.metadata.uid, {}).keys())

    def waits_for_order(self, pod: Pod) -> str:
        """Why the StatefulSet of a pod would not recreate it now; empty if it would, or if the pod is not of one."""
        owner = self._owner(pod)
        if not isinstance(owner, StatefulSet):
            return ""
        return waits_for_order(owner, pod, self._pods.get(owner.metadata.uid, {}).values())

    def _owner(self, pod: Pod) -> Owner | None:
        reference = controller_of(pod)
        return self._owners.get(reference.uid) if reference is not None else None

    def pods_of(self, uid: str) -> Iterator[Pod]:
        """The pods of a workload, of all its ReplicaSets."""
        yield from self._pods.get(uid, {}).values()
        for below in sorted(self._below.get(uid, ())):
            yield from self.pods_of(below)


def _is_made_from_current_template(owner: Owner, pod: Pod) -> bool:
    """Whether a pod was certainly created from the current template of its controller."""
    if isinstance(owner, StatefulSet):
        revision = (pod.metadata.labels or {}).get(REVISION_LABEL)
        return revision is not None and revision == owner.status.update_revision
    return isinstance(owner, Job) or controller_of(owner) is not None


def _without_scheduler_and_gates(template: PodTemplate) -> PodTemplate:
    if template.spec.scheduler_name is None and not template.spec.scheduling_gates:
        return template
    return replace(template, spec=replace(template.spec, scheduler_name=None, scheduling_gates=None))


def expected_replicas(owner: Owner) -> int:
    """How many pods a controller wants at once; 1 if it does not say, which is the API server's default."""
    if isinstance(owner, Job):
        wanted = 1 if owner.spec.parallelism is None else owner.spec.parallelism
        left = None if owner.spec.completions is None else owner.spec.completions - (owner.status.succeeded or 0)
        return max(0, wanted if left is None else min(wanted, left))
    return 1 if owner.spec.replicas is None else owner.spec.replicas
