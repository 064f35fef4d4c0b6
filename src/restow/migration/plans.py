"""Earlier plans, as their jobs show them: which plan is under way, and which nodes and pods were moved lately.

Goes in: all jobs. Comes out: what planning must know of earlier plans, which are stored nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.migration.conditions import is_job_ended, job_ended_at
from restow.migration.history import eviction_intended_at
from restow.migration.reservation import target_node
from restow.migration.waves import plan_of_job
from restow.model.counted_nouns import counted_noun
from restow.model.objects import JobPhase, PodMigrationJob
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION


def plan_under_way(jobs: Iterable[PodMigrationJob]) -> str:
    """The plan that is being carried out, in a sentence; empty if none is."""
    counts: dict[str, list[int]] = {}
    for job in jobs:
        plan = plan_of_job(job)
        if plan is not None:
            count = counts.setdefault(plan, [0, 0])
            count[0] += not is_job_ended(job)
            count[1] += 1
    live = {plan: count for plan, count in sorted(counts.items()) if count[0]}
    if not live:
        return ""
    plan, (left, total) = next(iter(live.items()))
    more = f" (and {counted_noun(len(live) - 1, 'plan')} more)" if len(live) > 1 else ""
    have = "has" if left == 1 else "have"
    return f"plan {plan} is under way{more}: {left} of its {counted_noun(total, 'job')} {have} not ended"


def last_migrations(jobs: Iterable[PodMigrationJob]) -> dict[str, float]:
    """By node: when a migration last moved a pod from it or to it."""
    last: dict[str, float] = {}
    for job in jobs:
        when = job_ended_at(job)
        if when is None or (job.status.phase != JobPhase.SUCCEED and eviction_intended_at(job) is None):
            continue
        source = (job.metadata.annotations or {}).get(MOVED_FROM_ANNOTATION)
        for node in (source, job.status.node_name or target_node(job)):
            if node:
                last[node] = max(when, last.get(node, when))
    return last


def pods_not_to_plan(jobs: Iterable[PodMigrationJob], now: float, after_failure: float) -> dict[str, str]:
    """The pods that planning must leave alone now, by UID, each with the reason: a job moves them, or has failed to
    move them less than `after_failure` seconds ago."""
    reasons: dict[str, str] = {}
    for job in sorted(jobs, key=lambda job: job.metadata.name):
        uid, name = job.spec.pod_ref.uid or "", job.metadata.name
        if not is_job_ended(job):
            reasons[uid] = f"job {name} moves it already"
            continue
        when = job_ended_at(job)
        if job.status.phase != JobPhase.SUCCEED and when is not None and abs(now - when) < after_failure:
            left = after_failure - (now - when)
            cause = job.status.message or job.status.reason
            reasons.setdefault(uid, f"job {name} could not move it: {cause}; left alone for {left:.0f}s")
    return reasons
