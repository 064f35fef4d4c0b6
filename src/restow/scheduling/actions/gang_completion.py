"""Completing: what is kept for a gang of which some pods are on nodes and the rest fits nowhere.

Goes in: a session and such a job. Comes out: for each pod that is missing the node on which room is kept for it, the
one where the least of it is lacking; where something else is in the way everywhere, such as a host port or a pod that
it must not be near, one of those that may be free of it some day. Nobody else gets what becomes free there, so the lack
only shrinks, and the pod goes there, or wherever it fits sooner. What the missing pods ask for counts for their queue,
so that nobody behind them uses up what it may still take.
"""

from __future__ import annotations

import numpy as np

from restow.model.reservations.task_sizes import weightless
from restow.scheduling.framework import Cycle
from restow.scheduling.jobs import Job
from restow.scheduling.pod_group_cache import requests_of
from restow.scheduling.session import Session

_HELD = 64
"""For how many pods of a gang at most room is kept at once."""


def keep_room_for_missing(session: Session, job: Job, *, on_nodes: bool) -> dict[str, str]:
    """Keep for a broken gang what its missing pods may take of their queue and, if asked to, rooms: nodes by UID."""
    missing = job.pods[: min(max(job.min_available - job.placed, 1), _HELD)]
    for pod in missing:
        session.shares.charge(job.queue, requests_of(pod))
    nodes: dict[str, str] = {}
    with session.statement() as trial:  # so that each sees what is kept for those before it
        for pod in missing if on_nodes else ():
            cycle = Cycle(pod, session.snapshot, session.now)
            node = _nearest(session, cycle)
            if node is not None:
                trial.pipeline(cycle, node)
                nodes[pod.metadata.uid] = node
    return nodes


def _nearest(session: Session, cycle: Cycle) -> str | None:
    """Of the nodes that refuse a pod for nothing but its size, the one that lacks least for it; if there is none, of
    those that refuse it for nothing that lasts."""
    snapshot = session.snapshot
    rows, ready = session.engine.resolvable_rows(Cycle(weightless(cycle.pod), snapshot, session.now))
    asked = [(column, amount) for column, amount in cycle.pod_class.shape.amounts if amount > 0]
    if any(column >= len(snapshot.room.free) for column, _ in asked):  # no node has ever had any of it
        return None
    free, whole = snapshot.room.free[:, rows], snapshot.room.allocatable.cells[:, rows]
    lacking, fits = np.zeros(len(rows)), np.ones(len(rows), dtype=bool)
    for column, amount in asked:
        fits &= whole[column] >= amount
        lacking = np.maximum(lacking, (amount - free[column]) / np.maximum(whole[column], 1))
    found = [(not ready[one], lacking[one], snapshot.rows.name(rows[one]) or "") for one in np.flatnonzero(fits)]
    return min(found)[2] if found else None
