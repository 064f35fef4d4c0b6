"""Enqueue: which gangs are let into their queue, so that a cluster is not flooded with pods that cannot start.

A gang that says what it needs (`minResources`) is let in while everything let in so far fits into what the cluster has
left, over-committed by a fifth because jobs end, and into what its queue may take. One that does not say is let in; so
is one that stays inside its queue's guarantee, however full the cluster is: what keeps it from starting is to be seen.
"""

from __future__ import annotations

from restow.model.quantity import quantity_of
from restow.model.resources import Vector, add, subtract
from restow.scheduling.cluster_events import QUEUE
from restow.scheduling.jobs import Job, min_resources
from restow.scheduling.queue_shares import total_allocatable, total_requested
from restow.scheduling.session import Backlog, Session

_OVERCOMMIT = (6, 5)
_NO_ROOM = "what it needs to start does not fit beside what was let in already"


def enqueue(session: Session, backlog: Backlog) -> Backlog:
    waiting = [job for job in backlog.jobs if not job.admitted]
    if not waiting:
        return backlog
    gate = _Gate(session)
    for job in waiting:
        assert job.group is not None, "only gangs wait"
        refusal = gate.let_in(job, min_resources(job.group))
        if refusal is None:
            job.admitted = True
        else:
            session.decisions.refuse(job, refusal, [QUEUE])
    return backlog.of_unplaced()


class _Gate:
    """What was let in during a session: altogether, and by queue."""

    def __init__(self, session: Session) -> None:
        self._shares = session.shares
        self._left = _left(session)
        self._promised: Vector = {}
        self._promised_to: dict[str, Vector] = {}

    def let_in(self, job: Job, needed: Vector) -> str | None:
        """Count a job as let in, or say why it is not."""
        refusal = self._shares.why_exceeded(job.queue, needed)
        if refusal is not None:
            return refusal
        together, of_queue = add(self._promised, needed), add(self._promised_to.get(job.queue, {}), needed)
        over = self._over(needed)
        if over and not self._shares.is_guaranteed(job.queue, of_queue):
            return f"pod group {job.name} is not let in: {_NO_ROOM}: {', '.join(over)}"
        self._promised, self._promised_to[job.queue] = together, of_queue
        return None

    def _over(self, needed: Vector) -> list[str]:
        """Of what is needed, what is not left, with figures."""
        return [
            f"{name} (left {quantity_of(name, left)}, let in {quantity_of(name, promised)}, "
            f"needed {quantity_of(name, amount)})"
            for name, amount in sorted(needed.items())
            if amount > 0 and (promised := self._promised.get(name, 0)) + amount > (left := self._left.get(name, 0))
        ]


def _left(session: Session) -> dict[str, int]:
    """What the cluster has, over-committed, less what is taken."""
    more, than = _OVERCOMMIT
    stretched = {name: amount * more // than for name, amount in total_allocatable(session.snapshot).items()}
    return subtract(stretched, total_requested(session.snapshot))


def admit_all(session: Session, backlog: Backlog) -> Backlog:
    """Admit every job: the action that runs if `enqueue` is not configured."""
    for job in backlog.jobs:
        job.admitted = True
    return backlog
