"""Backfill: start what is behind a job that waits, on room that does not delay it.

The room the waiting job will start on is kept for it already, so whatever still fits takes nothing from it. A job that
is over before the waiting one can start (`activeDeadlineSeconds`) may use kept room in the meantime; of others nobody
knows how long they run, so they may not.
"""

from __future__ import annotations

from restow.scheduling.actions.job_start import Started, start
from restow.scheduling.actions.reserve import take_turn
from restow.scheduling.session import Session


def backfill(session: Session) -> None:
    for job in session.jobs:
        while job.pods:
            session.keep_for_nominated(job.priority)
            if take_turn(session, job):
                continue
            result = start(session, job)
            if not isinstance(result, Started):
                session.refuse(job, result.message, result.plugins, result.code, result.nominated)
    session.jobs = []
