"""Backfill: start what is behind a job that waits, on room that does not delay it.

The room the waiting job will start on is kept for it already, so whatever still fits takes nothing from it. How long
pods run is not known, so nothing is put on kept room for the time being.
"""

from __future__ import annotations

from restow.scheduling.actions.starting import Started, start
from restow.scheduling.session import Session


def backfill(session: Session) -> None:
    for job in session.jobs:
        while job.pods:
            session.keep_for_nominated(job.priority)
            result = start(session, job)
            if not isinstance(result, Started):
                session.refuse(job, result.message, result.plugins, result.code)
    session.jobs = []
