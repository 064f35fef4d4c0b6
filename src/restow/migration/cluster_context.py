"""The scene: the cluster around the jobs, as arbitration looks at it, and the jobs that are considered in it."""

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
    """By namespace and name."""
    node_labels: Mapping[str, Mapping[str, str]] = {}
    priority_classes: Mapping[str, int] = {}


class MigrationCandidate(msgspec.Struct, frozen=True):
    """A job and its pod, whom the pod belongs to, and the budgets that cover it."""

    job: PodMigrationJob
    pod: Pod
    workload: Workload | None
    budgets: tuple[Budget, ...]


def migration_candidate(job: PodMigrationJob, pod: Pod, scene: ClusterContext) -> MigrationCandidate:
    budgets = scene.budgets.covering(pod, scene.workloads.owner_chain(pod))
    return MigrationCandidate(job, pod, scene.workloads.workload_of(pod), tuple(budgets))
