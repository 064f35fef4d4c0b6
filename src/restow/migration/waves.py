"""Waves: the moves of one plan go in order, wave after wave.

Goes in: jobs, in any phase. Comes out: for a job, what of its plan must end before it may begin, and which moves before
it failed. The room that a failed move was to free may be missing now, so the jobs after it are in doubt: the scheduler
validates them anew when it looks for their seats, and they do not wait for room that nobody will give.
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
    """The wave of its plan; what is not a number is in the first."""
    return integer_annotation(job, WAVE_ANNOTATION) or 0


class _Plan(msgspec.Struct):
    open: dict[int, int]
    """How many jobs of a wave have not ended."""
    failed: dict[int, list[str]]


class PlanWaves:
    """The plans that are being carried out."""

    def __init__(self, jobs: Iterable[PodMigrationJob]) -> None:
        self._plans: dict[str, _Plan] = {}
        for job in jobs:
            plan = plan_of_job(job)
            if plan is not None:
                self._note(self._plans.setdefault(plan, _Plan({}, {})), job)

    def _note(self, plan: _Plan, job: PodMigrationJob) -> None:
        wave = wave_of_job(job)
        if not is_job_ended(job):
            plan.open[wave] = plan.open.get(wave, 0) + 1
        elif job.status.phase != JobPhase.SUCCEED:
            plan.failed.setdefault(wave, []).append(job.metadata.name)

    def earlier_wave(self, job: PodMigrationJob) -> str | None:
        """What it waits for."""
        name = plan_of_job(job)
        if name is None:
            return None
        plan, wave = self._plans[name], wave_of_job(job)
        before = min((one for one in plan.open if one < wave), default=None)
        if before is None:
            return None
        left = plan.open[before]
        told = f"{left} of its jobs {'has' if left == 1 else 'have'} not ended"
        return f"wave {before} of plan {name} comes first, and {told}"

    def failed_moves_before(self, job: PodMigrationJob) -> list[str]:
        """The moves of earlier waves of the plan that did not succeed, by name."""
        name = plan_of_job(job)
        if name is None:
            return []
        wave = wave_of_job(job)
        return sorted(one for at, names in self._plans[name].failed.items() if at < wave for one in names)
