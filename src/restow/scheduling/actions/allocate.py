"""Allocate: start jobs, queue by queue and in order, each as a whole or not at all.

A job that fits starts; what it has beyond its minimum takes its turn again. One that fits only on room that others are
leaving (terminating pods; for a gang, pods whose end is known) keeps that room and holds up its queue: what is behind
it is left to `backfill`. One that does not fit waits with its reasons, and holds up nobody; if some of its pods are on
nodes already, what it can have is kept for it. Where only the first jobs of a queue are in the session and it would be
that queue's turn after them, the rest is postponed. Who needs more than the seats it has is seated here (`reserve`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

from restow.scheduling.actions.gang_completion import keep_for_rest
from restow.scheduling.actions.job_start import Failure, Started, broken_by, keep_room, start
from restow.scheduling.actions.reserve import take_turn
from restow.scheduling.jobs import Job
from restow.scheduling.queue_shares import Order
from restow.scheduling.session import Session

_ROOM_KEPT_FOR = 64
"""How many jobs at most are tried on room that others are leaving in one session."""


def allocate(session: Session) -> None:
    line = _Line(session)
    tries = 0
    while (job := line.next()) is not None:
        session.keep_for_nominated(job.priority)
        if take_turn(session, job):
            line.again(job)
            continue
        result = start(session, job)
        if isinstance(result, Started):
            line.again(job)
            continue
        failure: Failure | None = result
        if result.may_wait and tries < _ROOM_KEPT_FOR and (job.is_gang or session.leaving_for(job)):
            tries += 1
            failure = keep_room(session, job, result)
        if failure is not None:
            _refuse(session, job, failure)
        elif job.reservation is None:
            session.held_up.add(job.queue)
        else:
            line.again(job)
    session.jobs = [job for job in session.jobs if job.pods]
    if line.is_cut:
        session.postpone()


def _refuse(session: Session, job: Job, failure: Failure) -> None:
    """A job has to wait. One that is bound in part keeps what it can from everybody behind it."""
    rest: dict[str, str] = {}
    try:
        rest = keep_for_rest(session, job, rooms=failure.may_wait) if job.is_broken else {}
    except Exception as error:
        failure = broken_by(error)
    nominated = {**rest, **failure.nominated}
    session.refuse(job, failure.message, failure.plugins, failure.code, nominated)


Rank = tuple[bool, Order]


class _Line:
    """The jobs of every queue in order; the queue with the smallest share is next."""

    def __init__(self, session: Session) -> None:
        self.is_cut = False
        """Whether it ended because the next job is not here."""
        self._session = session
        self._jobs: dict[str, list[Job]] = {}
        for job in reversed(session.jobs):
            if job.admitted:
                self._jobs.setdefault(job.queue, []).append(job)
        self._cut = [name for name in sorted(session.cut) if name in self._jobs]
        self._waiting = [(self._rank(name), name) for name in self._jobs]
        """A heap of the queues as they were ranked last: who was next since has taken something, and comes later."""
        heapify(self._waiting)

    def next(self) -> Job | None:
        """Broken gangs first, whatever their queue."""
        best = self._best()
        if best is None:
            return None
        self.is_cut = bool(self._cut) and not self._jobs[best][-1].is_broken and self._is_behind(best)
        return None if self.is_cut else self._jobs[best].pop()

    def _best(self) -> str | None:
        waiting = self._waiting
        while waiting:
            rank, name = waiting[0]
            if not self._jobs[name] or name in self._session.held_up:
                heappop(waiting)
            elif len(waiting) > 1 and (now := self._rank(name)) != rank:
                heapreplace(waiting, (now, name))
            else:
                return name
        return None

    def _rank(self, queue: str) -> Rank:
        return not self._jobs[queue][-1].is_broken, self._session.shares.order(queue)

    def _is_behind(self, queue: str) -> bool:
        """Whether it is the turn of another queue, of which nothing is left here."""
        shares, held_up = self._session.shares, self._session.held_up
        missing = [name for name in self._cut if not self._jobs[name] and name not in held_up]
        return any(shares.order(name) < shares.order(queue) for name in missing)

    def again(self, job: Job) -> None:
        """A started job that has more pods takes its turn again."""
        if job.pods:
            self._jobs[job.queue].append(job)
