"""Answers about a cluster that was written down, or looked at once: where pending pods would go, which pods should move
and whether a plan for that is valid; why one pod is where it is, says `explaining`.

Goes in: an `Inventory`, a scheduler's profile, the configuration and the time. Comes out: values that print as a table
or as JSON. The scheduler is the very one that runs against a cluster; only nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from restow.eviction.budgets import Budgets
from restow.eviction.shared_claims import Sharing
from restow.eviction.workloads import Workloads
from restow.migration.arguments import MigrationArguments
from restow.migration.limits import workload_limit
from restow.migration.plans import last_migrations, pods_not_to_plan
from restow.model.inventory import Inventory
from restow.model.kinds import (
    NAMESPACE,
    NODE,
    NODE_METRICS,
    OWNERS,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    POD_METRICS,
    POD_MIGRATION_JOB,
    POD_UNAVAILABLE_BUDGET,
    PRIORITY_CLASS,
    QUEUE,
    RESERVATION,
    STORAGE,
    WORKLOADS,
)
from restow.model.objects import PersistentVolumeClaim, Pod
from restow.model.pods import full_name, is_pending, scheduler_of
from restow.model.reservations.seat import UNKNOWN_VERSION
from restow.model.reservations.spec import is_for
from restow.model.reservations.validation import problems
from restow.model.resources import Vector
from restow.model.snapshot import Snapshot
from restow.model.words import number_of
from restow.planning.arguments import LOAD_AWARE, read_load_aware
from restow.planning.descheduling.metrics_providers import PrometheusProvider
from restow.planning.descheduling.policy import DeschedulerPolicy
from restow.planning.descheduling.profile_cycle import GuardedEvictionRules
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.planning.plan import Plan, Refusal, configuration_fingerprint
from restow.planning.plan_request import PlanProgress, PlanRequest
from restow.planning.replay import ReplayResult
from restow.planning.replay import replay_plan as replay_plan
from restow.planning.strategies import STRATEGY_PLUGINS, make_plan
from restow.planning.usage_samples import PrometheusQueries, samples_from_metrics
from restow.scheduling.decisions import Assign, RecordEvent, RefusePod
from restow.scheduling.framework import Code
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import Profile
from restow.scheduling.session import Session


class OfflinePlacement(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    node: str


class Unschedulable(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    message: str


class Schedule(msgspec.Struct, frozen=True):
    """Where the pending pods would go. Pods of other schedulers are one refusal, counted."""

    placements: list[OfflinePlacement]
    unschedulable: list[Unschedulable]


class OfflineCluster:
    """The snapshot of an inventory, and what scheduling keeps beside it."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.pods = [_identified(pod) for pod in inventory.of(POD)]
        self.snapshot = snapshot = Snapshot()
        self.roster = roster = PodGroupCache()
        for kind in OWNERS:
            for owner in inventory.of(kind):
                snapshot.apply_owner(owner.metadata)
        for kind in STORAGE:
            for item in inventory.of(kind):
                snapshot.apply_storage(item)
        for namespace in inventory.of(NAMESPACE):
            snapshot.apply_namespace(namespace)
        for node in inventory.of(NODE):
            snapshot.apply_node(node)
        for priority in inventory.of(PRIORITY_CLASS):
            roster.apply_priority_class(priority)
        for queue in inventory.of(QUEUE):
            snapshot.apply_queue(queue)
            roster.apply_queue(queue)
        for group in inventory.of(POD_GROUP):
            snapshot.apply_group(group)
            roster.apply_group(group)
        for pod in self.pods:
            snapshot.apply_pod(pod)
            roster.apply_pod(pod)
        snapshot.pods_seen_through(str(UNKNOWN_VERSION))  # a pod that is not in the file does not exist any more
        for reservation in inventory.of(RESERVATION):
            snapshot.apply_reservation(reservation)
        self.measured = samples_from_metrics(inventory.of(NODE_METRICS), inventory.of(POD_METRICS))
        """What nodes and pods really use, as far as the inventory says."""

    def pending(self) -> list[Pod]:
        return [pod for pod in self.pods if is_pending(pod)]


class ConfigurationSections(Protocol):
    """What planning reads of the configuration; each raises WireError."""

    def read_descheduler(self) -> DeschedulerPolicy: ...

    def read_migration(self) -> MigrationArguments: ...


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is asked for with, on the command line."""

    strategy: str
    objective: str = "free-nodes"
    shape: Vector = {}
    max_moves: int = 50
    time_limit: float = 5.0
    work_limit: int | None = None
    seed: int = 0


def plan(
    cluster: OfflineCluster,
    profile: Profile,
    sections: ConfigurationSections,
    asked: PlanOptions,
    clock: Callable[[], float],
    tell: Callable[[PlanProgress], None] = lambda stand: None,
) -> Plan:
    """Which pods should move where; `tell` hears how far the search is. Raises WireError for a wrong configuration."""
    request = msgspec.structs.replace(plan_request(cluster, profile, sections, asked, clock), report_progress=tell)
    found = make_plan(asked.strategy, cluster.snapshot, request)
    return msgspec.structs.replace(found, configuration=configuration_fingerprint(sections))


def replay(
    cluster: OfflineCluster, profile: Profile, sections: ConfigurationSections, written: Plan, now: float
) -> ReplayResult:
    """Whether a plan is valid, step by step. Raises WireError for a wrong configuration."""
    request = plan_request(cluster, profile, sections, PlanOptions(strategy=written.strategy), lambda: now)
    return replay_plan(cluster.snapshot, written, request)


def plan_request(
    cluster: OfflineCluster,
    profile: Profile,
    sections: ConfigurationSections,
    asked: PlanOptions,
    clock: Callable[[], float],
) -> PlanRequest:
    """Everything a strategy is asked with, read off a cluster. Raises WireError for a wrong configuration."""
    jobs = cluster.inventory.of(POD_MIGRATION_JOB)
    now, waiting = clock(), cluster.pending()
    ours = _ours(waiting, profile)
    left_out = _gated(ours, profile) + _foreign(len(waiting) - len(ours), profile)
    return PlanRequest(
        engine=profile.engine,
        eviction_rules=GuardedEvictionRules(
            offline_movability(cluster, sections, now), (), pods_not_to_plan(jobs, now, 0.0)
        ),
        now=now,
        pending=tuple(pod for pod in ours if not _gate(pod, profile)),
        pending_refusals=tuple(Refusal(namespace=one.namespace, pod=one.pod, reason=one.message) for one in left_out),
        scheduler_names=profile.scheduler_names,
        actions=profile.actions,
        pod_groups=cluster.roster,
        last_migrations=last_migrations(jobs),
        measured_usage=cluster.measured,
        arguments=_strategy_arguments(sections.read_descheduler(), asked.strategy),
        max_moves=asked.max_moves,
        objective=asked.objective,
        shape=asked.shape,
        seed=asked.seed,
        time_limit=asked.time_limit,
        work_limit=asked.work_limit,
        clock=clock,
        started_at=now,
    )


def prometheus_of(
    sections: ConfigurationSections, strategy: str
) -> tuple[PrometheusProvider, PrometheusQueries] | None:
    """Whom a strategy's arguments have asked what is really used, and what; None where it is not Prometheus. Raises
    WireError for a wrong configuration."""
    if STRATEGY_PLUGINS.get(strategy) != LOAD_AWARE:
        return None
    policy = sections.read_descheduler()
    queries = read_load_aware(_strategy_arguments(policy, strategy)).usage_source.queries
    return (policy.prometheus, queries) if policy.prometheus is not None and queries is not None else None


def _strategy_arguments(policy: DeschedulerPolicy, strategy: str) -> Mapping[str, Any]:
    """The arguments of a strategy's plugin, in the first profile that has some."""
    plugin = STRATEGY_PLUGINS.get(strategy, "")
    return next((one.arguments[plugin] for one in policy.profiles if plugin in one.arguments), {})


def offline_movability(cluster: OfflineCluster, sections: ConfigurationSections, now: float) -> ConfiguredEvictionRules:
    """The rules of eviction, read off a cluster. Raises WireError for a wrong configuration."""
    inventory, arguments = cluster.inventory, sections.read_migration()
    budgets, workloads, sharing = Budgets(), Workloads(), Sharing()
    for disruption in inventory.of(POD_DISRUPTION_BUDGET):
        budgets.put(disruption)
    for unavailable in inventory.of(POD_UNAVAILABLE_BUDGET):
        budgets.put(unavailable)
    for kind in WORKLOADS:
        for owner in inventory.of(kind):
            workloads.put_owner(owner)
    for pod in cluster.pods:
        workloads.put_pod(pod)
        sharing.put_pod(pod)
    claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
    for claim in inventory.of(PERSISTENT_VOLUME_CLAIM):
        claims.setdefault(claim.metadata.namespace or "", {})[claim.metadata.name] = claim
    return ConfiguredEvictionRules(
        snapshot=cluster.snapshot,
        pod_groups=cluster.roster,
        now=now,
        protections=arguments.protections,
        budgets=budgets,
        workloads=workloads,
        sharing=sharing,
        claims=claims,
        priority_classes={one.metadata.name: one.value for one in inventory.of(PRIORITY_CLASS)},
        workload_limit=workload_limit(arguments.limits),
    )


class SessionDecisions(msgspec.Struct, frozen=True):
    """What a session decides, and what it tells of pods beside that, as Events would."""

    schedule: Schedule
    events: Mapping[tuple[str, str], Sequence[RecordEvent]]
    """By namespace and name."""


def schedule(cluster: OfflineCluster, profile: Profile, now: float) -> Schedule:
    """Where the pending pods would go."""
    return decide_session(cluster, profile, now).schedule


def decide_session(cluster: OfflineCluster, profile: Profile, now: float) -> SessionDecisions:
    """One session over all pending pods, and over what reservations have left to place: they come before or after pods
    as they would in a cluster."""
    pending = cluster.pending()
    ours = _ours(pending, profile)
    refused = _gated(ours, profile)
    placements: list[OfflinePlacement] = []
    told: dict[tuple[str, str], list[RecordEvent]] = {}
    free = [pod for pod in ours if not _gate(pod, profile)]
    asked = [
        one for one in cluster.inventory.of(RESERVATION) if is_for(one, profile.scheduler_names) and not problems(one)
    ]
    session = Session(
        cluster.snapshot,
        profile.engine,
        cluster.roster,
        now=now,
        pods=free,
        reservations=asked,
        names=profile.scheduler_names,
    )
    for decision in session.run(profile.actions):
        if isinstance(decision, Assign):
            placements.append(OfflinePlacement(*full_name(decision.pod), decision.node))
        elif isinstance(decision, RefusePod):
            refused.append(Unschedulable(*full_name(decision.pod), decision.message))
        elif isinstance(decision, RecordEvent):
            told.setdefault(full_name(decision.pod), []).append(decision)
    refused.sort(key=lambda one: (one.namespace, one.pod))
    placements.sort(key=lambda one: (one.namespace, one.pod))
    return SessionDecisions(Schedule(placements, refused + _foreign(len(pending) - len(ours), profile)), told)


def _gated(pods: Sequence[Pod], profile: Profile) -> list[Unschedulable]:
    return [Unschedulable(*full_name(pod), reason) for pod in pods if (reason := _gate(pod, profile))]


def _gate(pod: Pod, profile: Profile) -> str:
    """Why a pod may not be tried yet, if so."""
    verdicts = [gate.pre_enqueue(pod) for gate in profile.gates]
    return next((", ".join(verdict.reasons) for verdict in verdicts if verdict.code is not Code.SUCCESS), "")


def _foreign(count: int, profile: Profile) -> list[Unschedulable]:
    if not count:
        return []
    names = ", ".join(sorted(profile.scheduler_names))
    advice = "list the name under scheduler.schedulerNames in --config to include them"
    return [
        Unschedulable("", "", f"{number_of(count, 'pending pod', 'belong')} to schedulers other than {names}: {advice}")
    ]


def _ours(pods: Sequence[Pod], profile: Profile) -> list[Pod]:
    return [pod for pod in pods if scheduler_of(pod) in profile.scheduler_names]


def _identified(pod: Pod) -> Pod:
    """Files written by hand have no uids; inside one file the name is as good."""
    if pod.metadata.uid:
        return pod
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.namespace or ''}/{pod.metadata.name}")
    return msgspec.structs.replace(pod, metadata=metadata)
