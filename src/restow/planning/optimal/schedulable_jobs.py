"""Who waits for room: by the scheduler's own rules, so that a plan is for those whom the scheduler would place.

Goes in: the pending pods, their gangs and queues. Comes out: the jobs that only lack room, and everybody else with the
sentence that the scheduler has for them: gangs that are not let in or not all there, queues that may not take them, a
reservation that they insist on. Whoever has the seat of a reservation needs no other room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import pod_refusal
from restow.planning.plan import Refusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.backfill import backfill
from restow.scheduling.actions.job_start import why_job_inadmissible
from restow.scheduling.actions.reserve import take_seats_in_turn
from restow.scheduling.decisions import Assign, Decision, RefusePod
from restow.scheduling.jobs import Job
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.queue_shares import QueueShares
from restow.scheduling.session import PendingWork, Session


class SchedulableJobs(msgspec.Struct, frozen=True, eq=False):
    jobs: Sequence[Job]
    """In the scheduler's order."""
    shares: QueueShares
    """What their queues may still take."""
    refusals: tuple[Refusal, ...]
    pending_count: int
    """How many pods are pending, whatever becomes of them."""
    seated_count: int
    """How many of them have a seat."""


def schedulable_jobs(snapshot: Snapshot, request: PlanRequest) -> SchedulableJobs:
    """Ask the scheduler, which looks at everything but the room on nodes. The snapshot is left as it was."""
    roster, mark = request.pod_groups or PodGroupCache(), snapshot.mark()
    session = Session(
        snapshot,
        request.engine,
        roster,
        PendingWork(request.pending),
        now=request.now,
        scheduler_names=request.scheduler_names,
    )
    try:
        backlog = session.backlog()
        for action in request.actions:
            if action not in (allocate, backfill):
                backlog = action(session, backlog)
        for job in backlog.jobs:  # jobs that need room beside their seats get it when it is their turn
            if job in backlog.seat_seekers:
                take_seats_in_turn(session, job)
        backlog = backlog.of_unplaced()
    finally:
        seated = [one.pod for one in session.decided if isinstance(one, Assign)]
        for pod in seated:
            roster.forget(pod)
        snapshot.undo_to(mark)
    refusals = [*_said(session.decided)]
    jobs: list[Job] = []
    for job in backlog.jobs:
        failure = why_job_inadmissible(session, job)
        if failure is None:
            jobs.append(job)
        else:
            refusals += [pod_refusal(pod, failure.message) for pod in job.pods]
    gated = sum(1 for one in request.pending_refusals if one.pod)
    return SchedulableJobs(
        jobs, session.shares, (*refusals, *request.pending_refusals), len(request.pending) + gated, len(seated)
    )


def _said(decisions: Sequence[Decision]) -> Iterator[Refusal]:
    return (pod_refusal(one.pod, one.message) for one in decisions if isinstance(one, RefusePod))
