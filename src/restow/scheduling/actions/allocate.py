"""Allocate: start jobs, queue by queue and in order, each as a whole or not at all.

A job that fits starts; what it has beyond its minimum takes its turn again. One that fits only on room that others are
leaving (terminating pods; for a gang, pods whose end is known) keeps that room and holds up its queue: what is behind
it is left to `backfill`. One that does not fit waits with its reasons, and holds up nobody.
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
                session.held_up.add(job.queue)
                continue
        session.refuse(job, result.message, result.plugins, result.code)
    session.jobs = [job for job in session.jobs if job.pods]


class _Line:
    """The jobs of every queue in order; the queue with the smallest share is next."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jobs: dict[str, list[Job]] = {}
        for job in reversed(session.jobs):
            if job.admitted:
                self._jobs.setdefault(job.queue, []).append(job)

    def next(self) -> Job | None:
        """Broken gangs first, whatever their queue."""
        ready = [name for name, jobs in self._jobs.items() if jobs and name not in self._session.held_up]
        if not ready:
            return None
        if len(ready) == 1:
            return self._jobs[ready[0]].pop()
        best = min(ready, key=lambda name: (not self._jobs[name][-1].is_broken, self._session.shares.order(name)))
        return self._jobs[best].pop()

    def again(self, job: Job) -> None:
        """A started job that has more pods takes its turn again."""
        if job.pods:
            self._jobs[job.queue].append(job)
