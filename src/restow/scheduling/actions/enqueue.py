"""Enqueue: which gangs are let into their queue, so that a cluster is not flooded with pods that cannot start.

A gang that says what it needs (`minResources`) is let in while everything let in so far fits into what the cluster has
left, over-committed by a fifth because jobs end, and into its queue's capability. One that does not say is let in.
"""

from __future__ import annotations

from restow.model.resources import Vector, add, fits, subtract
from restow.scheduling.jobs import Job, least_resources
from restow.scheduling.session import Session
from restow.scheduling.shares import offered, requested
from restow.scheduling.wakeups import QUEUE

_OVERCOMMIT = (6, 5)


def enqueue(session: Session) -> None:
    waiting = [job for job in session.jobs if not job.admitted]
    if not waiting:
        return
    left = _left(session)
    promised: Vector = {}
    for job in waiting:
        assert job.group is not None, "only gangs wait"
        needed = least_resources(job.group)
        refusal = _refusal(session, job, needed, add(promised, needed), left)
        if refusal is None:
            promised = add(promised, needed)
            job.admitted = True
        else:
            session.refuse(job, refusal, [QUEUE])
    session.jobs = [job for job in session.jobs if job.pods]


def _refusal(session: Session, job: Job, needed: Vector, together: Vector, left: Vector) -> str | None:
    refusal = session.shares.refusal(job.queue, needed)
    if refusal is None and not fits(together, left):
        return f"pod group {job.name} is not let in: what it needs to start does not fit beside what was let in already"
    return refusal


def _left(session: Session) -> dict[str, int]:
    """What the cluster has, over-committed, less what is taken."""
    more, than = _OVERCOMMIT
    stretched = {name: amount * more // than for name, amount in offered(session.snapshot).items()}
    return subtract(stretched, requested(session.snapshot))


def admit(session: Session) -> None:
    """Let everybody in: what is done when `enqueue` is not configured."""
    for job in session.jobs:
        job.admitted = True
