"""Arbitration: which of the waiting jobs may begin, and what the others wait for.

Goes in: all jobs, and the cluster around them. Comes out: one verdict per waiting job, in the order in which they were
considered. A job that may never begin is refused; one that may, but not now, is told the limit it waits for with its
numbers. The order is that of the design: quality of service, priority, costs, migration priority, failed tries, how
often the workload was moved, how much of it is on its way; then age and name, so that it is total.
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
    """The job may begin."""

    job: PodMigrationJob
    message: str
    workload: str | None
    """The UID of its pod's workload, to be written on the job (history.WORKLOAD_ANNOTATION)."""
    failed_before: tuple[str, ...] = ()
    """Moves of its plan that failed: what it was planned on may have changed."""


class JobWaiting(msgspec.Struct, frozen=True):
    """The job may begin later."""

    job: PodMigrationJob
    limit: str
    message: str
    retry_at: float | None = None
    """When, if nothing happens until then."""


class JobRefused(msgspec.Struct, frozen=True):
    """The job may never begin."""

    job: PodMigrationJob
    reason: JobReason
    message: str


ArbitrationVerdict = JobAdmitted | JobWaiting | JobRefused


def arbitrate(
    jobs: Iterable[PodMigrationJob], scene: ClusterContext, arguments: MigrationArguments
) -> list[ArbitrationVerdict]:
    """Judge the jobs that wait for admission and have a pod; paused ones do not wait."""
    everyone = list(jobs)
    history = MigrationHistory(everyone, scene.pods, scene.workloads)
    occupation = LimitUsage(everyone, scene, history, arguments.limits)
    waves = PlanWaves(everyone)
    verdicts: list[ArbitrationVerdict] = []
    candidates: list[MigrationCandidate] = []
    for job in everyone:
        if is_job_ended(job) or is_job_running(job) or job.spec.paused:
            continue
        pod = find_pod(scene.pods, job.spec.pod_ref)
        if pod is None:
            continue
        one = migration_candidate(job, pod, scene)
        reason = why_forbidden(one, scene, arguments)
        if reason is not None:
            told = f"pod {pod.metadata.namespace}/{pod.metadata.name} cannot be moved: {reason}"
            verdicts.append(JobRefused(job, JobReason.FORBIDDEN_MIGRATE_POD, told))
        elif missing := missing_information(one, scene, arguments):
            verdicts.append(JobWaiting(job, "news", f"waits for information: {missing}"))
        elif others := waits_for_order(one, scene):
            verdicts.append(JobWaiting(job, _ORDER, others))
        else:
            candidates.append(one)
    verdicts += [
        _verdict_within_limits(one, waves, occupation) for one in sort_candidates(candidates, history, occupation)
    ]
    return verdicts


def objections_to_eviction(
    one: MigrationCandidate, scene: ClusterContext, arguments: MigrationArguments, is_leaving: Callable[[Pod], bool]
) -> Objections:
    """What was asked before a job began, and may be otherwise by now. `is_leaving` says of pods that seem to stay
    whether they were sent away."""
    scarce = unavailability_limit_reached(one, scene, arguments.limits, is_leaving)
    return Objections(
        forbidden=why_forbidden(one, scene, arguments),
        missing_information=missing_information(one, scene, arguments),
        waits_for_order=waits_for_order(one, scene),
        workload_unavailable=_waiting_message(scarce) if scarce is not None else None,
    )


def why_forbidden(one: MigrationCandidate, scene: ClusterContext, arguments: MigrationArguments) -> str | None:
    """Why a job may never begin, nor go on, by what its pod is."""
    workload = one.workload
    reason = lasting_eviction_refusal(one.pod, arguments.protections, _pod_context(one, scene))
    if reason is None and workload is not None:
        reason = too_few_replicas(workload.replicas, arguments.limits)
    if reason is None and arguments.requires_reservation and _job_mode(one.job, arguments) == JobMode.EVICT_DIRECTLY:
        reason = "nodeFit is set, and without a reservation nothing shows that another node fits"
    return reason


def missing_information(one: MigrationCandidate, scene: ClusterContext, arguments: MigrationArguments) -> str | None:
    """What has to be known of a job's pod before it may begin, or go on, and is not."""
    return missing_objects(one.pod, arguments.protections, _pod_context(one, scene))


def waits_for_order(one: MigrationCandidate, scene: ClusterContext) -> str | None:
    """Whom a job has to wait for, because nobody would be made in its pod's place."""
    others = scene.workloads.out_of_order(one.pod)
    return f"waits for {_ORDER}: {others}" if others else None


def _pod_context(one: MigrationCandidate, scene: ClusterContext) -> PodContext:
    pod, workload = one.pod, one.workload
    return PodContext(
        now=scene.now,
        replicas=workload.replicas if workload else None,
        end_by_loss=scene.workloads.end_by_loss(pod),
        node_named_by_template=scene.workloads.node_named_by_template(pod),
        claims_shared_with=scene.shared_claims.shared_with(pod),
        claims=scene.claims.get(pod.metadata.namespace or "", {}),
        budgets=one.budgets,
        node_labels=scene.node_labels.get(pod.spec.node_name or "", {}),
        priority_classes=scene.priority_classes,
    )


def _job_mode(job: PodMigrationJob, arguments: MigrationArguments) -> str:
    return job.spec.mode or arguments.default_mode


# --- order ------------------------------------------------------------------------------------------------------------


def migration_priority(job: PodMigrationJob) -> int:
    """What its annotation says; 0 where it says nothing that is a number."""
    return integer_annotation(job, PRIORITY_ANNOTATION) or 0


def sort_candidates(
    candidates: Iterable[MigrationCandidate], history: MigrationHistory, occupation: LimitUsage
) -> list[MigrationCandidate]:
    """The candidates, the first to be considered first.

    How much of a workload is on its way counts as it will be when a job's turn has come, so that jobs of many
    workloads take turns.
    """
    ranked = sorted((_sort_key(one, history), _age(one), one) for one in candidates)
    ahead: dict[str, int] = {}
    placed = []
    for rank, age, one in ranked:
        uid = one.workload.uid if one.workload else one.pod.metadata.uid
        ahead[uid] = ahead.get(uid, occupation.migrating_pods(uid) - 1) + 1
        placed.append((rank, ahead[uid], age, one))
    return [one for *_, one in sorted(placed, key=lambda entry: entry[:3])]


def _sort_key(one: MigrationCandidate, history: MigrationHistory) -> tuple[int, ...]:
    pod, workload = one.pod, one.workload
    return (
        -koordinator_qos(pod),
        -pod_priority(pod),
        eviction_cost(pod),
        deletion_cost(pod),
        -migration_priority(one.job),
        history.failed_jobs(pod),
        history.times_moved(workload.uid) if workload else 0,
    )


def _age(one: MigrationCandidate) -> tuple[str, str]:
    """Older first, then by name, which is unique."""
    metadata = one.job.metadata
    return metadata.creation_timestamp or "", metadata.name


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _verdict_within_limits(one: MigrationCandidate, waves: PlanWaves, occupation: LimitUsage) -> ArbitrationVerdict:
    job = one.job
    blocker = waves.earlier_wave(job)
    if blocker is not None:
        return JobWaiting(job, "waves", f"waits for its wave: {blocker}")
    full = occupation.first_limit_reached(one)
    if full is not None:
        return JobWaiting(job, full.limit, _waiting_message(full), full.retry_at)
    occupation.admit(one)
    failed = waves.failed_moves_before(job)
    message = "every limit allows it"
    if failed:
        message += f"; {len(failed)} earlier moves of its plan failed, so it is validated anew"
    return JobAdmitted(job, message, one.workload.uid if one.workload else None, tuple(failed))


def _waiting_message(full: LimitReached) -> str:
    return f"waits for {full.limit}: {full.numbers}"
