"""The pending jobs that the scheduler would place if nodes had room: only for these a plan makes room.

Goes in: the pending pods with their gangs and queues. Comes out: the jobs that only lack room; and a refusal for each
other pod, in the words of the scheduler: its gang is not admitted or not complete, its queue may not take it, or it
requests a reservation by name. Pods that have the seat of a reservation need no room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import pod_refusal
from restow.planning.plan import PlanRefusal
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
    """What the queues may still take."""
    refusals: tuple[PlanRefusal, ...]
    pending_count: int
    """How many pods are pending, with those that are refused."""
    seated_count: int
    """How many of them have the seat of a reservation."""


def schedulable_jobs(snapshot: Snapshot, request: PlanRequest) -> SchedulableJobs:
    """Run the scheduler's actions that come before the search for nodes. The snapshot is left as it was."""
    pod_groups, mark = request.pod_groups or PodGroupCache(), snapshot.mark()
    session = Session(
        snapshot,
        request.engine,
        pod_groups,
        PendingWork(request.pending),
        now=request.now,
        scheduler_names=request.scheduler_names,
    )
    try:
        backlog = session.backlog()
        for action in request.actions:
            if action not in (allocate, backfill):
                backlog = action(session, backlog)
        # Jobs that need room beside their seats get it when it is their turn.
        for job in backlog.jobs:
            if job in backlog.seat_seekers:
                take_seats_in_turn(session, job)
        backlog = backlog.of_unplaced()
    finally:
        # The session has assumed the seated pods: undo that in the cache and in the snapshot.
        seated = [decision.pod for decision in session.decided if isinstance(decision, Assign)]
        for pod in seated:
            pod_groups.forget(pod)
        snapshot.undo_to(mark)
    refusals = [*_refusals(session.decided)]
    jobs: list[Job] = []
    for job in backlog.jobs:
        failure = why_job_inadmissible(session, job)
        if failure is None:
            jobs.append(job)
        else:
            refusals += [pod_refusal(pod, failure.message) for pod in job.pods]
    gated = sum(1 for refusal in request.pending_refusals if refusal.pod)
    return SchedulableJobs(
        jobs, session.shares, (*refusals, *request.pending_refusals), len(request.pending) + gated, len(seated)
    )


def _refusals(decisions: Sequence[Decision]) -> Iterator[PlanRefusal]:
    return (pod_refusal(decision.pod, decision.message) for decision in decisions if isinstance(decision, RefusePod))
