"""Backfill: start what is behind a job that waits, on room that does not delay it.

The room the waiting job will start on is kept for it already, so whatever still fits takes nothing from it. A job that
is over before the waiting one can start (`activeDeadlineSeconds`) may use kept room in the meantime; how long other
jobs run is not known, so they may not.
"""

from __future__ import annotations

from restow.scheduling.actions.job_start import JobStarted, start_job
from restow.scheduling.actions.reserve import take_seats_in_turn
from restow.scheduling.session import Backlog, Session


def backfill(session: Session, backlog: Backlog) -> Backlog:
    seat_seekers = set(backlog.seat_seekers)
    for job in backlog.jobs:
        while job.pods:
            session.kept_room.keep_for_nominated(job.priority)
            if job in seat_seekers:
                seat_seekers.remove(job)
                if take_seats_in_turn(session, job):
                    continue
            result = start_job(session, job)
            if not isinstance(result, JobStarted):
                session.decisions.refuse(job, result.message, result.plugins, result.code, result.nominated)
    return Backlog((), frozenset(), backlog.postponed)
