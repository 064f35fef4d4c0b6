"""Terms: what a job is carried out under, its own words or else those of the configuration."""

from __future__ import annotations

import msgspec

from restow.migration.arguments import POLICIES, PROPAGATION, Arguments
from restow.model.objects import DeleteOptions, JobMode, PodMigrationJob
from restow.model.times import TimeError, parse_duration


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    mode: str = JobMode.RESERVATION_FIRST
    ttl: float = 300.0
    """Seconds from admission to the end; 0 for no limit."""
    waiting: float = 0.0
    """Seconds it may wait for admission; 0 for no limit."""
    policy: str = POLICIES[0]
    grace: int | None = None
    """Seconds that the pod gets to stop; None leaves that to the pod."""
    propagation: str | None = None
    dry_run: bool = False
    schedulers: frozenset[str] | None = None
    """Whose pods are moved; None for anybody's."""
    problem: str = ""
    """What of the job's words cannot be understood."""


def terms_of(job: PodMigrationJob, arguments: Arguments) -> Terms:
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
    grace = options.grace_period_seconds
    if grace is not None and grace < 0:
        problems.append(f"spec.deleteOptions.gracePeriodSeconds: {grace} is negative")
    propagation = options.propagation_policy
    if propagation not in (None, *PROPAGATION):
        problems.append(f"spec.deleteOptions.propagationPolicy: {propagation!r} is not one of {', '.join(PROPAGATION)}")
    return Terms(
        mode=mode,
        ttl=ttl,
        waiting=arguments.waiting_ttl,
        policy=arguments.policy,
        grace=arguments.grace_seconds if grace is None else grace,
        propagation=propagation or arguments.propagation,
        dry_run=arguments.dry_run or bool(options.dry_run),
        schedulers=arguments.protections.scheduler_names,
        problem="; ".join(problems),
    )
