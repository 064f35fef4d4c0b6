"""Arbitration: which of the waiting jobs are admitted, and what the others wait for.

Goes in: all jobs, and the cluster around them. Comes out: one verdict per waiting job, in the order in which they were
considered. A job that may never begin is refused; a job that may not begin now waits, and its verdict has the limit
with its numbers. The order is Koordinator's: quality of service, priority, costs, migration priority, failed jobs, how
often the workload was moved, how many of its pods are migrating; then age and name, which makes it total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from restow.eviction.costs import deletion_cost, eviction_cost
from restow.eviction.protections import PodContext, lasting_eviction_refusal, missing_objects
from restow.eviction.qos_and_priority import koordinator_qos, pod_priority
from restow.migration.arguments import MigrationArguments
from restow.migration.cluster_context import ClusterContext, MigrationCandidate, migration_candidate
from restow.migration.conditions import is_job_ended, is_job_running
from restow.migration.facts import Objections
from restow.migration.history import MigrationHistory, find_pod
from restow.migration.job_annotations import PRIORITY_ANNOTATION, integer_annotation
from restow.migration.limit_usage import LimitReached, LimitUsage, unavailability_limit_reached
from restow.migration.limits import too_few_replicas
from restow.migration.waves import PlanWaves
from restow.model.objects import JobMode, JobReason, Pod, PodMigrationJob

_ORDER: Final = "its order"


class JobAdmitted(msgspec.Struct, frozen=True):
    """The job begins."""

    job: PodMigrationJob
    message: str
    workload: str | None
    """The UID of its pod's workload, which is recorded on the job (history.WORKLOAD_ANNOTATION)."""
    failed_before: tuple[str, ...] = ()
    """Earlier moves of its plan that failed: the cluster may not be what the plan expected."""


class JobWaiting(msgspec.Struct, frozen=True):
    """The job may begin later."""

    job: PodMigrationJob
    limit: str
    message: str
    retry_at: float | None = None
    """When the limit has room again, if nothing else happens until then."""


class JobRefused(msgspec.Struct, frozen=True):
    """The job may never begin."""

    job: PodMigrationJob
    reason: JobReason
    message: str


ArbitrationVerdict = JobAdmitted | JobWaiting | JobRefused


def arbitrate(
    jobs: Iterable[PodMigrationJob], context: ClusterContext, arguments: MigrationArguments
) -> list[ArbitrationVerdict]:
    """Verdicts for the jobs that wait for admission and whose pod exists; paused jobs do not wait."""
    all_jobs = list(jobs)
    history = MigrationHistory(all_jobs, context.pods, context.workloads)
    usage = LimitUsage(all_jobs, context, history, arguments.limits)
    waves = PlanWaves(all_jobs)
    verdicts: list[ArbitrationVerdict] = []
    candidates: list[MigrationCandidate] = []
    # 1. Group and filter: jobs that cannot begin whatever the limits say.
    for job in all_jobs:
        if is_job_ended(job) or is_job_running(job) or job.spec.paused:
            continue
        pod = find_pod(context.pods, job.spec.pod_ref)
        if pod is None:
            continue
        candidate = migration_candidate(job, pod, context)
        verdict = _verdict_on_pod(candidate, context, arguments)
        if verdict is not None:
            verdicts.append(verdict)
        else:
            candidates.append(candidate)
    # 2. Sort, and admit in order while the limits have room.
    in_order = sort_candidates(candidates, history, usage)
    return verdicts + [_verdict_within_limits(candidate, waves, usage) for candidate in in_order]


def _verdict_on_pod(
    candidate: MigrationCandidate, context: ClusterContext, arguments: MigrationArguments
) -> ArbitrationVerdict | None:
    """The verdict on a job whose pod must not be evicted, at all or now; None if nothing speaks against it."""
    job, meta = candidate.job, candidate.pod.metadata
    if forbidden := why_forbidden(candidate, context, arguments):
        message = f"pod {meta.namespace}/{meta.name} cannot be moved: {forbidden}"
        return JobRefused(job, JobReason.FORBIDDEN_MIGRATE_POD, message)
    if missing := missing_information(candidate, context, arguments):
        return JobWaiting(job, "news", f"waits for information: {missing}")
    if order := waits_for_order(candidate, context):
        return JobWaiting(job, _ORDER, order)
    return None


# --- one pod ----------------------------------------------------------------------------------------------------------


def objections_to_eviction(
    candidate: MigrationCandidate,
    context: ClusterContext,
    arguments: MigrationArguments,
    may_be_leaving: Callable[[Pod], bool],
) -> Objections:
    """What speaks against evicting the pod of an admitted job now. Arbitration has checked the same, but the cluster
    may have changed since. `may_be_leaving` says whether an eviction of another pod may still take effect."""
    limit = unavailability_limit_reached(candidate, context, arguments.limits, may_be_leaving)
    return Objections(
        forbidden=why_forbidden(candidate, context, arguments),
        missing_information=missing_information(candidate, context, arguments),
        waits_for_order=waits_for_order(candidate, context),
        workload_unavailable=_waiting_message(limit) if limit is not None else None,
    )


def why_forbidden(candidate: MigrationCandidate, context: ClusterContext, arguments: MigrationArguments) -> str | None:
    """Why a job may never evict its pod, by what the pod is and by what is configured."""
    workload = candidate.workload
    reason = lasting_eviction_refusal(candidate.pod, arguments.protections, _pod_context(candidate, context))
    if reason is None and workload is not None:
        reason = too_few_replicas(workload.replicas, arguments.limits)
    mode = candidate.job.spec.mode or arguments.default_mode
    if reason is None and arguments.requires_reservation and mode == JobMode.EVICT_DIRECTLY:
        reason = "nodeFit is set, and without a reservation nothing shows that another node fits"
    return reason


def missing_information(
    candidate: MigrationCandidate, context: ClusterContext, arguments: MigrationArguments
) -> str | None:
    """The objects that have to be known before a pod may be evicted, and are not."""
    return missing_objects(candidate.pod, arguments.protections, _pod_context(candidate, context))


def waits_for_order(candidate: MigrationCandidate, context: ClusterContext) -> str | None:
    """The pods that a StatefulSet wants Ready before it would create this one again."""
    order = context.workloads.waits_for_order(candidate.pod)
    return f"waits for {_ORDER}: {order}" if order else None


def _pod_context(candidate: MigrationCandidate, context: ClusterContext) -> PodContext:
    pod, workload = candidate.pod, candidate.workload
    return PodContext(
        now=context.now,
        replicas=workload.replicas if workload else None,
        job_failure_by_loss=context.workloads.job_failure_by_loss(pod),
        node_named_by_template=context.workloads.node_named_by_template(pod),
        claims_shared_with=context.shared_claims.shared_with(pod),
        claims=context.claims.get(pod.metadata.namespace or "", {}),
        budgets=candidate.budgets,
        node_labels=context.node_labels.get(pod.spec.node_name or "", {}),
        priority_classes=context.priority_classes,
    )


# --- order ------------------------------------------------------------------------------------------------------------


def migration_priority(job: PodMigrationJob) -> int:
    """The integer in the job's annotation; 0 without one."""
    return integer_annotation(job, PRIORITY_ANNOTATION) or 0


def sort_candidates(
    candidates: Iterable[MigrationCandidate], history: MigrationHistory, usage: LimitUsage
) -> list[MigrationCandidate]:
    """The candidates in the order in which they are considered.

    How many pods of a workload are migrating counts as it will be when a job's turn has come, so that jobs of
    different workloads take turns.
    """
    ranked = sorted((_sort_key(candidate, history), _age(candidate), candidate) for candidate in candidates)
    migrating: dict[str, int] = {}
    ordered = []
    for key, age, candidate in ranked:
        uid = candidate.workload.uid if candidate.workload else candidate.pod.metadata.uid
        migrating[uid] = migrating.get(uid, usage.migrating_pods(uid) - 1) + 1
        ordered.append((key, migrating[uid], age, candidate))
    return [candidate for *_, candidate in sorted(ordered, key=lambda entry: entry[:3])]


def _sort_key(candidate: MigrationCandidate, history: MigrationHistory) -> tuple[int, ...]:
    pod, workload = candidate.pod, candidate.workload
    return (
        -koordinator_qos(pod),
        -pod_priority(pod),
        eviction_cost(pod),
        deletion_cost(pod),
        -migration_priority(candidate.job),
        history.failed_jobs(pod),
        history.times_moved(workload.uid) if workload else 0,
    )


def _age(candidate: MigrationCandidate) -> tuple[str, str]:
    """Older jobs first, then by name, which is unique."""
    metadata = candidate.job.metadata
    return metadata.creation_timestamp or "", metadata.name


# --- limits -----------------------------------------------------------------------------------------------------------


def _verdict_within_limits(candidate: MigrationCandidate, waves: PlanWaves, usage: LimitUsage) -> ArbitrationVerdict:
    job = candidate.job
    earlier_wave = waves.earlier_wave(job)
    if earlier_wave is not None:
        return JobWaiting(job, "waves", f"waits for its wave: {earlier_wave}")
    limit = usage.first_limit_reached(candidate)
    if limit is not None:
        return JobWaiting(job, limit.limit, _waiting_message(limit), limit.retry_at)
    usage.admit(candidate)
    failed = waves.failed_moves_before(job)
    message = "within all limits"
    if failed:
        message += f"; {len(failed)} earlier moves of its plan failed, so it is validated again"
    return JobAdmitted(job, message, candidate.workload.uid if candidate.workload else None, tuple(failed))


def _waiting_message(limit: LimitReached) -> str:
    return f"waits for {limit.limit}: {limit.numbers}"
