"""The cluster context: the cluster around the jobs, as arbitration looks at it, and the candidates for admission."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restow.eviction.budgets import Budget, Budgets
from restow.eviction.shared_claims import SharedClaims
from restow.eviction.workloads import Workload, Workloads
from restow.migration.history import PodLookup
from restow.model.objects import PersistentVolumeClaim, Pod, PodMigrationJob


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    now: float
    pods: PodLookup
    workloads: Workloads
    budgets: Budgets
    shared_claims: SharedClaims = msgspec.field(default_factory=SharedClaims)
    claims: Mapping[str, Mapping[str, PersistentVolumeClaim]] = {}
    """PersistentVolumeClaims by namespace and name."""
    node_labels: Mapping[str, Mapping[str, str]] = {}
    priority_classes: Mapping[str, int] = {}


class MigrationCandidate(msgspec.Struct, frozen=True):
    """A job and its pod, the workload of the pod, and the budgets that cover it."""

    job: PodMigrationJob
    pod: Pod
    workload: Workload | None
    budgets: tuple[Budget, ...]


def migration_candidate(job: PodMigrationJob, pod: Pod, context: ClusterContext) -> MigrationCandidate:
    budgets = context.budgets.covering(pod, context.workloads.owner_chain(pod))
    return MigrationCandidate(job, pod, context.workloads.workload_of(pod), tuple(budgets))
