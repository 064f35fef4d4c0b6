"""The eviction feeder: where an object of each kind goes that the rules of eviction read.

Goes in: objects as the API shows them, or as they were written into a file, and deletions. Comes out: the workloads,
budgets, shared volumes, claims and priority classes by which it is decided whether a pod may be evicted.

    PriorityClass                               its value, by name
    PersistentVolumeClaim                       by namespace and name
    workloads (Deployment, ReplicaSet, ...)     the owners that make pods again
    PodDisruptionBudget, PodUnavailableBudget   the budgets that cover a pod
    Pod                                         replicas of its workload; the claims that it shares with other pods

The live view (`control.view`) and the cluster of a snapshot file (`snapshots.offline`) use the same table, as they do
for the snapshot (`scheduling.snapshot_feeder`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from restow.eviction.budgets import Budgets
from restow.eviction.shared_claims import SharedClaims
from restow.eviction.workloads import Workloads
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import PersistentVolumeClaim, Pod, PriorityClass
from restow.scheduling.snapshot_feeder import ObjectSink


class EvictionFeeder:
    """Keeps what the rules of eviction read in step with the objects of a cluster."""

    def __init__(self) -> None:
        self.workloads = Workloads()
        self.budgets = Budgets()
        self.shared_claims = SharedClaims()
        self.claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
        """By namespace and name."""
        self.priority_classes: dict[str, int] = {}
        """The value of each, by name."""
        workload = ObjectSink(self.workloads.put_owner, lambda owner: self.workloads.drop_owner(owner.metadata.uid))
        self._sinks: dict[Kind[Any], ObjectSink] = {
            kinds.PRIORITY_CLASS: ObjectSink(self._put_priority_class, self._remove_priority_class),
            kinds.PERSISTENT_VOLUME_CLAIM: ObjectSink(self._put_claim, self._remove_claim),
            **dict.fromkeys(kinds.WORKLOADS, workload),
            **{kind: ObjectSink(self.budgets.put, partial(self._remove_budget, kind)) for kind in kinds.BUDGETS},
            kinds.POD: ObjectSink(self._put_pod, self._remove_pod),
        }

    @property
    def fed_kinds(self) -> tuple[Kind[Any], ...]:
        """Every kind that is read, pods last."""
        return tuple(self._sinks)

    def sink_of(self, kind: Kind[Any]) -> ObjectSink:
        """Where objects of a kind go. Raises KeyError for a kind that no rule of eviction reads."""
        return self._sinks[kind]

    def put(self, kind: Kind[Any], item: Any) -> None:
        """Put an object as it is now."""
        self._sinks[kind].put(item)

    def _put_priority_class(self, priority: PriorityClass) -> None:
        self.priority_classes[priority.metadata.name] = priority.value

    def _remove_priority_class(self, priority: PriorityClass) -> None:
        self.priority_classes.pop(priority.metadata.name, None)

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        self.claims.setdefault(claim.metadata.namespace or "", {})[claim.metadata.name] = claim

    def _remove_claim(self, claim: PersistentVolumeClaim) -> None:
        self.claims.get(claim.metadata.namespace or "", {}).pop(claim.metadata.name, None)

    def _remove_budget(self, kind: Kind[Any], budget: Any) -> None:
        self.budgets.drop(kind.kind, budget.metadata.namespace or "", budget.metadata.name)

    def _put_pod(self, pod: Pod) -> None:
        self.workloads.put_pod(pod)
        self.shared_claims.put_pod(pod)

    def _remove_pod(self, pod: Pod) -> None:
        self.workloads.drop_pod(pod.metadata.uid)
        self.shared_claims.drop_pod(pod.metadata.uid)
