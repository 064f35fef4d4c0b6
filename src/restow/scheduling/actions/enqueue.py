"""Enqueue: which gangs are admitted to their queue, so that a cluster is not flooded with pods that cannot start.

A gang with `minResources` is admitted while all gangs admitted so far fit into what the cluster has left,
over-committed by a fifth because jobs end, and into what its queue may take. A gang without `minResources` is admitted.
So is a gang that stays inside its queue's guarantee, however full the cluster is, so that its refusals say what keeps
it from starting.
"""

from __future__ import annotations

from restow.model.quantity import quantity_of
from restow.model.resources import Vector, add_vectors, subtract_vectors
from restow.scheduling.cluster_events import QUEUE
from restow.scheduling.jobs import Job, min_resources
from restow.scheduling.queue_shares import total_allocatable, total_requested
from restow.scheduling.session import Backlog, Session

_OVERCOMMIT = (6, 5)
_NO_ROOM = "its minResources do not fit beside the pod groups admitted before it"


def enqueue(session: Session, backlog: Backlog) -> Backlog:
    waiting = [job for job in backlog.jobs if not job.admitted]
    if not waiting:
        return backlog
    admission = _Admission(session)
    for job in waiting:
        assert job.group is not None, "only gangs wait for admission"
        refusal = admission.admit(job, min_resources(job.group))
        if refusal is None:
            job.admitted = True
        else:
            session.decisions.refuse(job, refusal, [QUEUE])
    return backlog.of_unplaced()


class _Admission:
    """What was admitted during a session: altogether, and by queue."""

    def __init__(self, session: Session) -> None:
        self._shares = session.shares
        self._left = _left(session)
        self._admitted: Vector = {}
        self._admitted_of_queue: dict[str, Vector] = {}

    def admit(self, job: Job, needed: Vector) -> str | None:
        """Count a job as admitted, or say why it is not."""
        refusal = self._shares.why_exceeded(job.queue, needed)
        if refusal is not None:
            return refusal
        together, of_queue = (
            add_vectors(self._admitted, needed),
            add_vectors(self._admitted_of_queue.get(job.queue, {}), needed),
        )
        over = self._over(needed)
        if over and not self._shares.is_guaranteed(job.queue, of_queue):
            return f"pod group {job.name} is not admitted: {_NO_ROOM}: {', '.join(over)}"
        self._admitted, self._admitted_of_queue[job.queue] = together, of_queue
        return None

    def _over(self, needed: Vector) -> list[str]:
        """Of what is needed, what is not left, with figures."""
        return [
            f"{name} (left {quantity_of(name, left)}, admitted {quantity_of(name, admitted)}, "
            f"needed {quantity_of(name, amount)})"
            for name, amount in sorted(needed.items())
            if amount > 0 and (admitted := self._admitted.get(name, 0)) + amount > (left := self._left.get(name, 0))
        ]


def _left(session: Session) -> dict[str, int]:
    """What the cluster has, over-committed, less what is taken."""
    more, than = _OVERCOMMIT
    stretched = {name: amount * more // than for name, amount in total_allocatable(session.snapshot).items()}
    return subtract_vectors(stretched, total_requested(session.snapshot))


def admit_all(session: Session, backlog: Backlog) -> Backlog:
    """Admit every job: the action that runs if `enqueue` is not configured."""
    for job in backlog.jobs:
        job.admitted = True
    return backlog
