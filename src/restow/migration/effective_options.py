"""Effective options: what a job's spec says, and the configured default where it says nothing."""

from __future__ import annotations

import msgspec

from restow.migration.arguments import POLICIES, PROPAGATION, MigrationArguments
from restow.migration.job_annotations import PRIORITY_ANNOTATION, WAVE_ANNOTATION, unreadable_annotations
from restow.model.objects import DeleteOptions, JobMode, Pod, PodMigrationJob, Preconditions
from restow.model.times import TimeError, parse_duration

DEFAULT_GRACE_PERIOD = 30.0
"""Seconds that a pod without terminationGracePeriodSeconds may take to stop, as the API server fills in."""


class EffectiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    mode: str = JobMode.RESERVATION_FIRST
    ttl: float = 300.0
    """Seconds from admission to the end; 0 for no limit."""
    waiting_ttl: float = 0.0
    """Seconds that a job may wait for admission; 0 for no limit."""
    eviction_policy: str = POLICIES[0]
    grace_seconds: int | None = None
    """Seconds that the pod may take to stop; None for the pod's own terminationGracePeriodSeconds."""
    propagation_policy: str | None = None
    dry_run: bool = False
    scheduler_names: frozenset[str] | None = None
    """The schedulers whose pods are moved; None for all."""
    problem: str = ""
    """What is wrong with the job's options; empty if nothing is."""

    def grace_period_of(self, pod: Pod) -> float:
        """The seconds that a pod may take to stop when this job evicts it."""
        own = pod.spec.termination_grace_period_seconds if self.grace_seconds is None else self.grace_seconds
        return DEFAULT_GRACE_PERIOD if own is None else float(own)


def effective_options(job: PodMigrationJob, arguments: MigrationArguments) -> EffectiveOptions:
    spec, problems = job.spec, []
    options = spec.delete_options or DeleteOptions()
    mode = spec.mode or arguments.default_mode
    if mode not in set(JobMode):
        problems.append(f"spec.mode: {mode!r} is not one of {', '.join(JobMode)}")
    ttl = arguments.default_ttl
    try:
        ttl = parse_duration(spec.ttl) if spec.ttl else ttl
    except TimeError as error:
        problems.append(f"spec.ttl: {error}")
    if ttl < 0:
        problems.append(f"spec.ttl: {spec.ttl} is negative")
    grace = options.grace_period_seconds
    if grace is not None and grace < 0:
        problems.append(f"spec.deleteOptions.gracePeriodSeconds: {grace} is negative")
    problems += _unmet_preconditions(options.preconditions, spec.pod_ref.uid) if options.preconditions else []
    problems += _unsupported_options(options)
    problems += unreadable_annotations(job, (WAVE_ANNOTATION, PRIORITY_ANNOTATION))
    propagation = options.propagation_policy
    if propagation not in (None, *PROPAGATION):
        problems.append(f"spec.deleteOptions.propagationPolicy: {propagation!r} is not one of {', '.join(PROPAGATION)}")
    return EffectiveOptions(
        mode=mode,
        ttl=ttl,
        waiting_ttl=arguments.waiting_ttl,
        eviction_policy=arguments.eviction_policy,
        grace_seconds=arguments.grace_seconds if grace is None else grace,
        propagation_policy=propagation or arguments.propagation_policy,
        dry_run=arguments.dry_run or bool(options.dry_run),
        scheduler_names=arguments.protections.scheduler_names,
        problem="; ".join(problems),
    )


def _unsupported_options(options: DeleteOptions) -> list[str]:
    """Problems for deleteOptions that an API server would follow, and our evictions would not."""
    problems = []
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
        problems.append(f"spec.deleteOptions.orphanDependents: use propagationPolicy: {policy}")
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        path = "spec.deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential"
        problems.append(f"{path}: a pod that cannot be read is not moved; leave it out")
    return problems


def _unmet_preconditions(preconditions: Preconditions, uid: str | None) -> list[str]:
    """Problems for preconditions that the pod does not meet, or that cannot be kept until the eviction."""
    path, problems = "spec.deleteOptions.preconditions", []
    if uid and preconditions.uid not in (None, "", uid):
        problems.append(f"{path}.uid: {preconditions.uid} is not {uid}, the UID of the pod")
    if preconditions.resource_version:
        problems.append(f"{path}.resourceVersion: it changes before the pod is evicted; leave it out")
    return problems
