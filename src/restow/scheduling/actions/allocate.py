"""Allocate: start jobs, queue by queue and in order, each as a whole or not at all.

A job that fits starts; what it has beyond its minimum takes its turn again. A job that fits only on room that others
are leaving (terminating pods; for a gang, pods whose end is known) keeps that room and holds up its queue: what is
behind it is left to `backfill`. A job that does not fit waits with its reasons, and does not hold up its queue; if some
of its pods are on nodes already, what it can have is kept for it. If only the first jobs of a queue are in the session
and it would be that queue's turn after them, the rest of the session is postponed. A job that needs more than the seats
it has takes its seats here (`take_seats_in_turn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from restow.scheduling.actions.gang_completion import keep_room_for_missing
from restow.scheduling.actions.job_start import (
    JobFailure,
    JobStarted,
    failure_of_plugin,
    keep_room_for_job,
    start_job,
)
from restow.scheduling.actions.reserve import take_seats_in_turn
from restow.scheduling.jobs import Job
from restow.scheduling.queue_shares import Order
from restow.scheduling.session import Backlog, Session

_ROOM_KEPT_FOR = 64
"""How many jobs at most are tried on room that other pods are leaving in one session."""


def allocate(session: Session, backlog: Backlog) -> Backlog:
    line = _QueueLine(session, backlog.jobs)
    seat_seekers = set(backlog.seat_seekers)
    tries = 0
    while (job := line.next()) is not None:
        # 1. From here on the job sees the room of nominated pods that are as important as it is.
        session.kept_room.keep_for_nominated(job.priority)
        # 2. Seats of its reservations, and room beside them.
        if job in seat_seekers:
            seat_seekers.remove(job)
            if take_seats_in_turn(session, job):
                line.again(job)
                continue
        # 3. Room that is free now.
        result = start_job(session, job)
        if isinstance(result, JobStarted):
            line.again(job)
            continue
        # 4. Room that others are leaving: the job waits for it, and holds up its queue.
        failure: JobFailure | None = result
        if result.may_wait and tries < _ROOM_KEPT_FOR and _may_have_leaving_room(session, job):
            tries += 1
            failure = keep_room_for_job(session, job, result)
        # 5. The job did not start. Without kept room it is refused. A pod or gang with kept room holds up its queue. A
        #    reservation holds the seats that it was given on that room, and its other seats take their turn.
        if failure is not None:
            _refuse(session, job, failure)
        elif job.reservation is None:
            line.hold_up(job.queue)
        else:
            line.again(job)
    left = backlog.of_unplaced(seat_seekers)
    return Backlog((), frozenset(), left.jobs) if line.is_cut else left


def _may_have_leaving_room(session: Session, job: Job) -> bool:
    return job.is_gang or bool(session.ends.leaving_for(job.reservation))


def _refuse(session: Session, job: Job, failure: JobFailure) -> None:
    """A job has to wait. If it is bound in part, what it can have is kept from all jobs behind it."""
    rest: dict[str, str] = {}
    try:
        rest = keep_room_for_missing(session, job, on_nodes=failure.may_wait) if job.is_broken else {}
    except Exception as error:
        failure = failure_of_plugin(error)
    nominated = {**rest, **failure.nominated}
    session.decisions.refuse(job, failure.message, failure.plugins, failure.code, nominated)


Rank = tuple[bool, Order]


class _QueueLine:
    """The jobs of every queue in order; the queue with the smallest share is next."""

    def __init__(self, session: Session, jobs: Sequence[Job]) -> None:
        self.is_cut = False
        """Whether it ended because the next job is not here."""
        self._shares = session.shares
        self._jobs: dict[str, list[Job]] = {}
        for job in reversed(jobs):
            if job.admitted:
                self._jobs.setdefault(job.queue, []).append(job)
        self._truncated = [name for name in sorted(session.truncated_queues) if name in self._jobs]
        self._held_up: set[str] = set()
        self._heap = [(self._rank(name), name) for name in self._jobs]
        """The queues with the rank that they had last. A queue only moves back when one of its jobs takes something, so
        the rank of the first queue is enough to renew."""
        heapify(self._heap)

    def next(self) -> Job | None:
        """The next job; broken gangs first, whatever their queue."""
        best = self._best_queue()
        if best is None:
            return None
        self.is_cut = bool(self._truncated) and not self._jobs[best][-1].is_broken and self._is_behind(best)
        return None if self.is_cut else self._jobs[best].pop()

    def again(self, job: Job) -> None:
        """A started job that has more pods takes its turn again."""
        if job.pods:
            self._jobs[job.queue].append(job)

    def hold_up(self, queue: str) -> None:
        """The first job of a queue waits for room: the jobs behind it are left."""
        self._held_up.add(queue)

    def _best_queue(self) -> str | None:
        heap = self._heap
        while heap:
            rank, name = heap[0]
            if not self._jobs[name] or name in self._held_up:
                heappop(heap)
            elif len(heap) > 1 and (now := self._rank(name)) != rank:
                heapreplace(heap, (now, name))
            else:
                return name
        return None

    def _rank(self, queue: str) -> Rank:
        return not self._jobs[queue][-1].is_broken, self._shares.order(queue)

    def _is_behind(self, queue: str) -> bool:
        """Whether it is the turn of another queue, of which nothing is left here."""
        missing = [name for name in self._truncated if not self._jobs[name] and name not in self._held_up]
        return any(self._shares.order(name) < self._shares.order(queue) for name in missing)
