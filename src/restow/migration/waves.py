"""Waves: the moves of one plan begin in order, wave after wave.

Goes in: jobs, in any phase. Comes out: for a job, the earlier wave of its plan that must end first, and which earlier
moves failed. The room that a failed move was to free may be missing, so the jobs after it are in doubt: the scheduler
validates them again when it looks for their seats, and a job that gets no seat fails instead of waiting for the room.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from restow.migration.conditions import is_job_ended
from restow.migration.job_annotations import PLAN_ANNOTATION, WAVE_ANNOTATION, integer_annotation
from restow.model.objects import JobPhase, PodMigrationJob


def plan_of_job(job: PodMigrationJob) -> str | None:
    return (job.metadata.annotations or {}).get(PLAN_ANNOTATION) or None


def wave_of_job(job: PodMigrationJob) -> int:
    """The wave of a job in its plan; a job without an integer there is in the first."""
    return integer_annotation(job, WAVE_ANNOTATION) or 0


class _Plan(msgspec.Struct):
    open: dict[int, int]
    """How many jobs of a wave have not ended."""
    failed: dict[int, list[str]]
    """The names of the jobs of a wave that did not succeed."""


class PlanWaves:
    """The plans that jobs belong to, and how far they are."""

    def __init__(self, jobs: Iterable[PodMigrationJob]) -> None:
        self._plans: dict[str, _Plan] = {}
        for job in jobs:
            plan = plan_of_job(job)
            if plan is not None:
                self._count_job(self._plans.setdefault(plan, _Plan({}, {})), job)

    def _count_job(self, plan: _Plan, job: PodMigrationJob) -> None:
        wave = wave_of_job(job)
        if not is_job_ended(job):
            plan.open[wave] = plan.open.get(wave, 0) + 1
        elif job.status.phase != JobPhase.SUCCEED:
            plan.failed.setdefault(wave, []).append(job.metadata.name)

    def earlier_wave(self, job: PodMigrationJob) -> str | None:
        """The earlier wave that a job waits for, in a sentence; None if all earlier waves have ended."""
        name = plan_of_job(job)
        if name is None:
            return None
        plan, wave = self._plans[name], wave_of_job(job)
        earlier = min((other for other in plan.open if other < wave), default=None)
        if earlier is None:
            return None
        left = plan.open[earlier]
        progress = f"{left} of its jobs {'has' if left == 1 else 'have'} not ended"
        return f"wave {earlier} of plan {name} comes first, and {progress}"

    def failed_moves_before(self, job: PodMigrationJob) -> list[str]:
        """The moves of earlier waves of the plan that did not succeed, by name."""
        name = plan_of_job(job)
        if name is None:
            return []
        wave = wave_of_job(job)
        return sorted(job for at, jobs in self._plans[name].failed.items() if at < wave for job in jobs)
