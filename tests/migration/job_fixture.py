"""Jobs and the cluster around them, in as few words as a test needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import convert

from restow.eviction.budgets import Budgets
from restow.eviction.workloads import Owner, Workloads
from restow.migration.cluster_context import ClusterContext
from restow.model.objects import Pod, PodDisruptionBudget, PodMigrationJob
from restow.model.times import format_time

NOW = 1_800_000_000.0


def job(
    name: str = "move",
    *,
    pod: str = "web-1",
    phase: str = "",
    plan: str = "",
    wave: int | None = None,
    evicted: float | None = None,
    **spec: Any,
) -> PodMigrationJob:
    """A job for a pod of the namespace shop. Running means admitted, unless a test denies it; `evicted` is the time of
    the eviction. `spec` may also have `annotations`, the time `created`, and the `namespace` of the pod."""
    annotations = dict(spec.pop("annotations", {}))
    if plan:
        annotations["restow.sh/plan"] = plan
    if wave is not None:
        annotations["restow.sh/wave"] = str(wave)
    conditions = []
    if phase == "Running" and spec.pop("admitted", True):
        conditions.append({"type": "Admitted", "status": "True", "reason": "Running"})
    if evicted is not None:
        moment = format_time(evicted)
        conditions.append({"type": "Eviction", "status": "True", "lastTransitionTime": moment})
    metadata: dict[str, Any] = {"name": name, "uid": name, "annotations": annotations}
    metadata["creationTimestamp"] = spec.pop("created", format_time(NOW))
    reference = {"namespace": spec.pop("namespace", "shop"), "name": pod, "uid": pod}
    status = {"phase": phase, "conditions": conditions}
    return convert({"metadata": metadata, "spec": {"podRef": reference, **spec}, "status": status}, PodMigrationJob)


def cluster_context(
    pods: Iterable[Pod], owners: Iterable[Owner] = (), budgets: Iterable[PodDisruptionBudget] = (), **more: Any
) -> ClusterContext:
    workloads, known = Workloads(), Budgets()
    for owner in owners:
        workloads.put_owner(owner)
    for budget in budgets:
        known.put(budget)
    found = list(pods)
    for pod in found:
        workloads.put_pod(pod)
    named = {(pod.metadata.namespace or "", pod.metadata.name): pod for pod in found}
    return ClusterContext(now=more.pop("now", NOW), pods=named, workloads=workloads, budgets=known, **more)
