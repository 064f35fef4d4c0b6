"""Builders of small clusters, plan requests and budgets for the planning tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from restow.eviction.budgets import Budgets
from restow.eviction.protections import Protections
from restow.eviction.workloads import Workloads
from restow.model.cluster.storage import StorageObject
from restow.model.objects import (
    Condition,
    Node,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    SelectorSpec,
)
from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import ConfiguredEvictionRules, WorkloadLimit
from restow.planning.measures import cluster_overview
from restow.planning.plan import Move, Plan
from restow.planning.plan_request import PlanRequest
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from tests.model.cluster.builders import node, pod

NOW = 1_000_000.0
TEN = {"cpu": "10", "memory": "10Gi", "pods": "20"}
ENGINE = read_profile({}).engine


def owner(name: str, kind: str = "ReplicaSet") -> OwnerReference:
    return OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=f"{kind}-{name}", controller=True)


def node_of_ten(name: str, **fields: Any) -> Node:
    """A node with ten of everything."""
    return node(name, TEN, **fields)


def app(
    name: str, cpu: str = "1", memory: str = "1Gi", *, of: str = "app", kind: str = "ReplicaSet", **fields: Any
) -> Pod:
    """A pod that a controller would make again."""
    return pod(name, {"cpu": cpu, "memory": memory}, owner=owner(of, kind), **{"phase": "Running", **fields})


def with_annotations(one: Pod, annotations: dict[str, str]) -> Pod:
    return replace(one, metadata=replace(one.metadata, annotations=annotations))


def not_ready_node(one: Node) -> Node:
    return replace(one, status=replace(one.status, conditions=[Condition(type="Ready", status="False")]))


def snapshot_of(nodes: Iterable[Node], pods: Iterable[Pod], storage: Iterable[StorageObject] = ()) -> Snapshot:
    snapshot = Snapshot()
    for item in storage:
        snapshot.apply_storage(item)
    for each in nodes:
        snapshot.apply_node(each)
    for each_pod in pods:
        snapshot.apply_pod(each_pod)
    return snapshot


def plan_request(
    snapshot: Snapshot,
    arguments: Mapping[str, Any] | None = None,
    *,
    budgets: Iterable[PodDisruptionBudget] = (),
    limit: WorkloadLimit = lambda replicas, has_budget: None,
    protections: Protections | None = None,
    pod_groups: PodGroupCache | None = None,
    **fields: Any,
) -> PlanRequest:
    known, workloads = Budgets(), Workloads()
    for budget in budgets:
        known.put(budget)
    for one in snapshot.pods.known.values():
        workloads.put_pod(one.pod)
    claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
    for claim in snapshot.storage.claims.every():
        claims.setdefault(claim.metadata.namespace or "", {})[claim.metadata.name] = claim
    mobility = ConfiguredEvictionRules(
        snapshot=snapshot,
        pod_groups=pod_groups or PodGroupCache(),
        now=NOW,
        protections=protections or Protections(),
        budgets=known,
        workloads=workloads,
        claims=claims,
        workload_limit=limit,
    )
    return PlanRequest(
        engine=ENGINE, eviction_rules=mobility, now=NOW, pod_groups=pod_groups, arguments=arguments or {}, **fields
    )


def budget(name: str, allowed: int, app: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=SelectorSpec(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed, current_healthy=allowed + 1, desired_healthy=1),
    )


def move_triples(plan: Plan | Iterable[Move]) -> list[tuple[str, str, str]]:
    found = plan.moves if isinstance(plan, Plan) else plan
    return [(move.pod, move.source, move.target) for move in found]


def refusal_reasons(plan: Plan) -> dict[str, str]:
    """Why pods stay, by name."""
    return {refusal.pod: refusal.reason for refusal in plan.refusals}


def free_nodes(snapshot: Snapshot) -> int:
    return int(cluster_overview(snapshot, ())["freeNodes"])
