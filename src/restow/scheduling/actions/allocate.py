"""Allocate: start jobs, queue by queue and in order, each as a whole or not at all.

A job that fits starts; what it has beyond its minimum takes its turn again. One that fits only on room that others are
leaving (terminating pods; for a gang, pods whose end is known) keeps that room and holds up its queue: what is behind
it is left to `backfill`. One that does not fit waits with its reasons, and holds up nobody. Where only the first jobs
of a queue are in the session and it would be that queue's turn after them, the rest is postponed.
"""

from __future__ import annotations

from restow.scheduling.actions.starting import Started, keep_room, start
from restow.scheduling.jobs import Job
from restow.scheduling.session import Session

_ROOM_KEPT_FOR = 64
"""How many jobs at most are tried on room that others are leaving in one session."""


def allocate(session: Session) -> None:
    line = _Line(session)
    tries = 0
    while (job := line.next()) is not None:
        session.keep_for_nominated(job.priority)
        result = start(session, job)
        if isinstance(result, Started):
            line.again(job)
            continue
        if result.may_wait and tries < _ROOM_KEPT_FOR and (job.is_gang or session.leaving()):
            tries += 1
            if keep_room(session, job, result.plugins):
                if job.reservation is None:
                    session.held_up.add(job.queue)
                else:
                    line.again(job)
                continue
        session.refuse(job, result.message, result.plugins, result.code, result.nominated)
    session.jobs = [job for job in session.jobs if job.pods]
    if line.is_cut:
        session.postpone()


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

    def next(self) -> Job | None:
        """Broken gangs first, whatever their queue."""
        ready = [name for name, jobs in self._jobs.items() if jobs and name not in self._session.held_up]
        if not ready:
            return None
        if len(ready) == 1 and not self._cut:
            return self._jobs[ready[0]].pop()
        best = min(ready, key=lambda name: (not self._jobs[name][-1].is_broken, self._session.shares.order(name)))
        self.is_cut = not self._jobs[best][-1].is_broken and self._is_behind(best)
        return None if self.is_cut else self._jobs[best].pop()

    def _is_behind(self, queue: str) -> bool:
        """Whether it is the turn of another queue, of which nothing is left here."""
        shares, held_up = self._session.shares, self._session.held_up
        missing = [name for name in self._cut if not self._jobs[name] and name not in held_up]
        return any(shares.order(name) < shares.order(queue) for name in missing)

    def again(self, job: Job) -> None:
        """A started job that has more pods takes its turn again."""
        if job.pods:
            self._jobs[job.queue].append(job)
