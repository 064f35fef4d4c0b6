"""What one pass of the queue controller decides, from one state of the cluster.

Goes in: the snapshot (without locks), the queues, the jobs, the pods and the rules of eviction. Comes out: the locks as
they should be, the status of every queue, the foreign pods on nodes of Guaranteed queues, the jobs that are obsolete,
and the parameters by which the API server refuses guarantees. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from restow.control.queues.foreign_pods import ForeignPods, JobsByPod, find_foreign_pods, obsolete_jobs
from restow.control.queues.settings import QueueControllerConfiguration
from restow.eviction.protections import eviction_refusal
from restow.migration.arguments import MigrationArguments
from restow.migration.limits import too_few_replicas
from restow.model.objects import GuaranteePolicy, Pod, PodMigrationJob, Queue, QueueStatus
from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.queues.admission_parameters import AcceptedGuarantee, admission_parameters
from restow.queues.job_counts import JobCounts, count_jobs
from restow.queues.node_capacity import read_node_capacity
from restow.queues.node_locks import GuaranteeDecision, decide_locks, locks_in_status
from restow.queues.queue_status import QueueObservation, next_queue_status
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.queue_shares import cluster_totals, why_queue_closed


class PassInputs(msgspec.Struct, frozen=True, kw_only=True):
    """One state of the cluster."""

    snapshot: Snapshot
    pod_groups: PodGroupCache
    queues: list[Queue]
    migration_jobs: list[PodMigrationJob]
    pods: list[Pod]
    """The pods of our schedulers."""
    eviction_rules: ConfiguredEvictionRules


class PassDecision(msgspec.Struct, frozen=True, kw_only=True):
    locks: dict[str, GuaranteeDecision]
    """By queue, in the order in which they may be written."""
    statuses: dict[str, tuple[Queue, QueueStatus]]
    """By queue: the queue as it was read, and its status as it should be."""
    foreign_pods: dict[str, ForeignPods]
    """By Guaranteed queue."""
    obsolete_jobs: tuple[PodMigrationJob, ...]
    parameters: dict[str, str]
    """What the API server refuses guarantees by."""

    def queues_in_writing_order(self) -> list[str]:
        """Queues that keep no node come first: they give up nodes that others may get. The accepted ones follow in the
        order in which their locks were decided."""
        accepted = [name for name, lock in self.locks.items() if lock.is_accepted]
        return [*sorted({*self.statuses} - {*accepted}), *accepted]


def decide_pass(inputs: PassInputs, configuration: QueueControllerConfiguration) -> PassDecision:
    queues, snapshot, groups = inputs.queues, inputs.snapshot, inputs.pod_groups
    arguments, now = configuration.arguments, inputs.eviction_rules.now
    # 1. Which nodes should be locked for which queue.
    locked = locks_in_status(queues)
    locks: dict[str, GuaranteeDecision] = {}
    if locked or any(queue.spec.guarantee is not None for queue in queues):
        locks = decide_locks(read_node_capacity(snapshot, groups), queues, locked, arguments.lock_options)
    # 2. Which foreign pods leave the nodes of Guaranteed queues. Only nodes whose lock the status shows already: else
    #    the scheduler could send a successor, or any other pod, back to the node.
    cleared_nodes = {
        name: [node for node in lock.nodes if node in locked.get(name, ())]
        for name, lock in locks.items()
        if lock.policy is GuaranteePolicy.GUARANTEED
    }
    foreign_pods = _foreign_pods(inputs, cleared_nodes, configuration)
    # 3. The status of every queue.
    job_counts, usage = count_jobs(inputs.pods, groups), groups.usage()
    statuses = {}
    for queue in queues:
        name = queue.metadata.name
        observation = QueueObservation(
            lock=locks.get(name),
            job_counts=job_counts.get(name, JobCounts()),
            allocated=usage.get(name, {}),
            waiting_message=str(foreign_pods.get(name, "")),
            now=now,
        )
        statuses[name] = queue, next_queue_status(queue, observation)
    # 4. The jobs that have lost their purpose, and what the API server may let in from now on.
    return PassDecision(
        locks=locks,
        statuses=statuses,
        foreign_pods=foreign_pods,
        obsolete_jobs=tuple(obsolete_jobs(inputs.migration_jobs, cleared_nodes)),
        parameters=admission_parameters(
            arguments.ceilings, cluster_totals(snapshot), _accepted_guarantees(queues, locks)
        ),
    )


def _foreign_pods(
    inputs: PassInputs, cleared_nodes: Mapping[str, Sequence[str]], configuration: QueueControllerConfiguration
) -> dict[str, ForeignPods]:
    """By queue: the pods of other queues on the nodes that are to be cleared for it."""
    if not cleared_nodes:
        return {}
    rules, groups = inputs.eviction_rules, inputs.pod_groups
    jobs = JobsByPod(inputs.migration_jobs, rules.now, configuration.settings.retry_failed_after)
    refusal_reason = partial(_why_never_movable, configuration.migration, rules, groups)
    return {
        queue: find_foreign_pods(queue, nodes, inputs.snapshot, groups, jobs, refusal_reason)
        for queue, nodes in cleared_nodes.items()
    }


def _why_never_movable(
    migration: MigrationArguments, rules: ConfiguredEvictionRules, pod_groups: PodGroupCache, pod: Pod
) -> str | None:
    """Why a job for a pod would only wait: arbitration would refuse it, or the scheduler its reservation. None if the
    pod may be moved."""
    if not migration.enabled:
        return "may not be moved: migrations are disabled"
    context = rules.eviction_context(pod)
    reason = eviction_refusal(pod, migration.protections, context)
    if reason is None and context.replicas is not None:
        reason = too_few_replicas(context.replicas, migration.limits)
    if reason is None and (closed := why_queue_closed(pod_groups, pod_groups.queue_of(pod))) is not None:
        reason = f"its {closed}"
    return reason


def _accepted_guarantees(queues: list[Queue], locks: dict[str, GuaranteeDecision]) -> list[AcceptedGuarantee]:
    with_locks = [(queue, locks.get(queue.metadata.name)) for queue in queues]
    return [
        AcceptedGuarantee(queue.metadata.name, queue.spec.priority or 0, lock.accepted)
        for queue, lock in with_locks
        if lock is not None and lock.is_accepted
    ]
