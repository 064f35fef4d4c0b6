"""Answers about a cluster that was written into a file, or listed once: where pending pods would go, which pods should
move, and whether a plan is valid.

Goes in: an `Inventory`, a scheduler profile, the configuration and the time. Comes out: values that print as a table or
as JSON. The session is the one that runs against a live cluster; nothing is written. `explanation` answers about a
single pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from restow.eviction.eviction_feeder import EvictionFeeder
from restow.migration.arguments import MigrationArguments
from restow.migration.limits import workload_limit
from restow.migration.plans import last_migrations, pods_not_to_plan
from restow.model import kinds
from restow.model.counted_nouns import counted_noun
from restow.model.inventory import Inventory
from restow.model.kinds import Kind
from restow.model.objects import Pod
from restow.model.pods import is_pending, namespaced_name, scheduler_of
from restow.model.reservations.seat import UNKNOWN_VERSION
from restow.model.reservations.spec import is_for_scheduler
from restow.model.reservations.validation import spec_problems
from restow.model.resources import Vector
from restow.planning.arguments import LOAD_AWARE, read_load_aware
from restow.planning.descheduling.metrics_providers import PrometheusProvider
from restow.planning.descheduling.policy import DeschedulerPolicy
from restow.planning.descheduling.profile_cycle import GuardedEvictionRules
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.planning.plan import Plan, PlanRefusal, configuration_fingerprint
from restow.planning.plan_request import PlanProgress, PlanRequest
from restow.planning.replay import ReplayResult, replay_plan
from restow.planning.strategies import STRATEGY_PLUGINS, make_plan
from restow.planning.usage_samples import PrometheusQueries, samples_from_metrics
from restow.scheduling.decisions import Assign, RecordEvent, RefusePod
from restow.scheduling.framework import Code
from restow.scheduling.registry import Profile
from restow.scheduling.session import PendingWork, Session
from restow.scheduling.snapshot_feeder import SnapshotFeeder


class OfflinePlacement(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    node: str


class Unschedulable(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    message: str


class Schedule(msgspec.Struct, frozen=True):
    """Where the pending pods would go. All pods of other schedulers are one counted refusal."""

    placements: list[OfflinePlacement]
    unschedulable: list[Unschedulable]


_SNAPSHOT_KINDS: Final[tuple[Kind[Any], ...]] = (
    *kinds.OWNERS,
    *kinds.STORAGE,
    kinds.NAMESPACE,
    kinds.NODE,
    kinds.PRIORITY_CLASS,
    kinds.QUEUE,
    kinds.POD_GROUP,
)
"""What the snapshot reads before the pods, so that the class of each pod is known when it comes."""


class OfflineCluster:
    """The objects of an inventory as scheduling and planning see them: snapshot, PodGroup cache, usage."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.pods = [_with_uid(pod) for pod in inventory.of(kinds.POD)]
        feeder = SnapshotFeeder()
        self.snapshot, self.pod_groups = feeder.snapshot, feeder.pod_groups
        for kind in _SNAPSHOT_KINDS:
            for item in inventory.of(kind):
                feeder.put(kind, item)
        for pod in self.pods:
            feeder.put_pod(pod)
        # Reservations come last. A consumer of a seat that is not among the pods by now does not exist any more.
        self.snapshot.pods_seen_through(str(UNKNOWN_VERSION))
        for reservation in inventory.of(kinds.RESERVATION):
            feeder.put(kinds.RESERVATION, reservation)
        self.usage_samples = samples_from_metrics(inventory.of(kinds.NODE_METRICS), inventory.of(kinds.POD_METRICS))
        """What nodes and pods really use, as far as the inventory has metrics."""

    def pending_pods(self) -> list[Pod]:
        return [pod for pod in self.pods if is_pending(pod)]


class PlanningConfiguration(Protocol):
    """The sections of the configuration that planning reads; each method raises WireError."""

    def read_descheduler(self) -> DeschedulerPolicy: ...

    def read_migration(self) -> MigrationArguments: ...


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `restow plan`."""

    strategy: str
    objective: str = "free-nodes"
    shape: Vector = {}
    max_moves: int = 50
    time_limit: float = 5.0
    work_limit: int | None = None
    seed: int = 0


def plan_offline(
    cluster: OfflineCluster,
    profile: Profile,
    configuration: PlanningConfiguration,
    options: PlanOptions,
    clock: Callable[[], float],
    report_progress: Callable[[PlanProgress], None] = lambda progress: None,
) -> Plan:
    """Which pods should move where. Raises WireError for a wrong configuration."""
    request = offline_plan_request(cluster, profile, configuration, options, clock)
    plan = make_plan(options.strategy, cluster.snapshot, replace(request, report_progress=report_progress))
    return replace(plan, configuration=configuration_fingerprint(configuration))


def replay_offline(
    cluster: OfflineCluster, profile: Profile, configuration: PlanningConfiguration, plan: Plan, now: float
) -> ReplayResult:
    """Whether a plan is valid, step by step. Raises WireError for a wrong configuration."""
    options = PlanOptions(strategy=plan.strategy)
    return replay_plan(
        cluster.snapshot, plan, offline_plan_request(cluster, profile, configuration, options, lambda: now)
    )


def offline_plan_request(
    cluster: OfflineCluster,
    profile: Profile,
    configuration: PlanningConfiguration,
    options: PlanOptions,
    clock: Callable[[], float],
) -> PlanRequest:
    """What a strategy is asked, as far as a file can answer it. Raises WireError for a wrong configuration."""
    jobs = cluster.inventory.of(kinds.POD_MIGRATION_JOB)
    now, pending = clock(), cluster.pending_pods()
    ours = _pods_of_profile(pending, profile)
    refused = _gated_pods(ours, profile) + _pods_of_other_schedulers(len(pending) - len(ours), profile)
    rules = offline_eviction_rules(cluster, configuration, now)
    return PlanRequest(
        engine=profile.engine,
        eviction_rules=GuardedEvictionRules(rules, (), pods_not_to_plan(jobs, now, 0.0)),
        now=now,
        pending=tuple(pod for pod in ours if not _gate_reason(pod, profile)),
        pending_refusals=tuple(
            PlanRefusal(namespace=pod.namespace, pod=pod.pod, reason=pod.message) for pod in refused
        ),
        scheduler_names=profile.scheduler_names,
        actions=profile.actions,
        pod_groups=cluster.pod_groups,
        last_migrations=last_migrations(jobs),
        measured_usage=cluster.usage_samples,
        arguments=_strategy_arguments(configuration.read_descheduler(), options.strategy),
        max_moves=options.max_moves,
        objective=options.objective,
        shape=options.shape,
        seed=options.seed,
        time_limit=options.time_limit,
        work_limit=options.work_limit,
        clock=clock,
        started_at=now,
    )


def prometheus_queries_of(
    configuration: PlanningConfiguration, strategy: str
) -> tuple[PrometheusProvider, PrometheusQueries] | None:
    """The Prometheus that a strategy reads usage from, and its queries; None if it does not read from Prometheus.
    Raises WireError for a wrong configuration."""
    if STRATEGY_PLUGINS.get(strategy) != LOAD_AWARE:
        return None
    policy = configuration.read_descheduler()
    queries = read_load_aware(_strategy_arguments(policy, strategy)).usage_source.queries
    return (policy.prometheus, queries) if policy.prometheus is not None and queries is not None else None


def _strategy_arguments(policy: DeschedulerPolicy, strategy: str) -> Mapping[str, Any]:
    """The arguments of a strategy's plugin in the first profile that has some."""
    plugin = STRATEGY_PLUGINS.get(strategy, "")
    return next((profile.arguments[plugin] for profile in policy.profiles if plugin in profile.arguments), {})


def offline_eviction_rules(
    cluster: OfflineCluster, configuration: PlanningConfiguration, now: float
) -> ConfiguredEvictionRules:
    """The rules of eviction for a cluster. Raises WireError for a wrong configuration."""
    arguments = configuration.read_migration()
    feeder = EvictionFeeder()
    for kind in feeder.fed_kinds:
        for item in cluster.pods if kind is kinds.POD else cluster.inventory.of(kind):
            feeder.put(kind, item)
    return ConfiguredEvictionRules(
        snapshot=cluster.snapshot,
        pod_groups=cluster.pod_groups,
        now=now,
        protections=arguments.protections,
        budgets=feeder.budgets,
        workloads=feeder.workloads,
        sharing=feeder.shared_claims,
        claims=feeder.claims,
        priority_classes=feeder.priority_classes,
        workload_limit=workload_limit(arguments.limits),
    )


class OfflineDecisions(msgspec.Struct, frozen=True):
    """What a session decides, and the Events that it would record about pods."""

    schedule: Schedule
    events: Mapping[tuple[str, str], Sequence[RecordEvent]]
    """By namespace and name."""


def schedule_offline(cluster: OfflineCluster, profile: Profile, now: float) -> Schedule:
    """Where the pending pods would go."""
    return decide_session(cluster, profile, now).schedule


def decide_session(cluster: OfflineCluster, profile: Profile, now: float) -> OfflineDecisions:
    """One session about all pending pods and all reservations with unplaced seats, in the order that a live cluster
    would use."""
    pending = cluster.pending_pods()
    ours = _pods_of_profile(pending, profile)
    refused = _gated_pods(ours, profile)
    placements: list[OfflinePlacement] = []
    events: dict[tuple[str, str], list[RecordEvent]] = {}
    pods = [pod for pod in ours if not _gate_reason(pod, profile)]
    reservations = [
        reservation
        for reservation in cluster.inventory.of(kinds.RESERVATION)
        if is_for_scheduler(reservation, profile.scheduler_names) and not spec_problems(reservation)
    ]
    session = Session(
        cluster.snapshot,
        profile.engine,
        cluster.pod_groups,
        PendingWork(pods, reservations),
        now=now,
        scheduler_names=profile.scheduler_names,
    )
    for decision in session.run(profile.actions):
        if isinstance(decision, Assign):
            placements.append(OfflinePlacement(*namespaced_name(decision.pod), decision.node))
        elif isinstance(decision, RefusePod):
            refused.append(Unschedulable(*namespaced_name(decision.pod), decision.message))
        elif isinstance(decision, RecordEvent):
            events.setdefault(namespaced_name(decision.pod), []).append(decision)
    refused.sort(key=lambda refusal: (refusal.namespace, refusal.pod))
    placements.sort(key=lambda placement: (placement.namespace, placement.pod))
    foreign = _pods_of_other_schedulers(len(pending) - len(ours), profile)
    return OfflineDecisions(Schedule(placements, refused + foreign), events)


def _gated_pods(pods: Sequence[Pod], profile: Profile) -> list[Unschedulable]:
    """The pods that PreEnqueue keeps out of the scheduling queue, each with its reason."""
    return [Unschedulable(*namespaced_name(pod), reason) for pod in pods if (reason := _gate_reason(pod, profile))]


def _gate_reason(pod: Pod, profile: Profile) -> str:
    """Why PreEnqueue keeps a pod out of the scheduling queue; empty if it does not."""
    verdicts = [gate.pre_enqueue(pod) for gate in profile.pre_enqueue]
    return next((", ".join(verdict.reasons) for verdict in verdicts if verdict.code is not Code.SUCCESS), "")


def _pods_of_other_schedulers(count: int, profile: Profile) -> list[Unschedulable]:
    """One refusal for all pending pods that another scheduler places."""
    if not count:
        return []
    names = ", ".join(sorted(profile.scheduler_names))
    advice = "list the name under scheduler.schedulerNames in --config to include them"
    return [
        Unschedulable(
            "", "", f"{counted_noun(count, 'pending pod', 'belong')} to schedulers other than {names}: {advice}"
        )
    ]


def _pods_of_profile(pods: Sequence[Pod], profile: Profile) -> list[Pod]:
    return [pod for pod in pods if scheduler_of(pod) in profile.scheduler_names]


def _with_uid(pod: Pod) -> Pod:
    """The pod, with a UID in any case: a file written by hand has none, and inside one file the name is unique."""
    if pod.metadata.uid:
        return pod
    metadata = replace(pod.metadata, uid=f"{pod.metadata.namespace or ''}/{pod.metadata.name}")
    return replace(pod, metadata=metadata)
