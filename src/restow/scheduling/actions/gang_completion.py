"""What is kept for a broken gang: some of its pods are on nodes, and the rest fits on no node now.

Goes in: a session and such a job. Comes out: for each missing pod the node on which room is kept for it. That is the
node where it lacks least room. If something else is in the way on every node, such as a host port or a pod that it must
not be near, it is a node that may be free of that some day. Other pods do not get what becomes free there, so the lack
only shrinks, and the pod goes there, or to another node that accepts it sooner. The requests of the missing pods count
for their queue, so that jobs behind them do not use up what it may still take.
"""

from __future__ import annotations

import numpy as np

from restow.model.reservations.task_sizes import without_requests
from restow.scheduling.framework import Cycle
from restow.scheduling.jobs import Job
from restow.scheduling.pod_group_cache import requests_of
from restow.scheduling.session import Session

_HELD = 64
"""The most pods of a gang for which room is kept at once."""


def keep_room_for_missing(session: Session, job: Job, *, on_nodes: bool) -> dict[str, str]:
    """Keep for a broken gang what its missing pods may take of their queue, and if asked to, room on nodes. Returns the
    nodes by the UID of the pod."""
    missing = job.pods[: min(max(job.min_available - job.placed, 1), _HELD)]
    for pod in missing:
        session.shares.charge(job.queue, requests_of(pod))
    nodes: dict[str, str] = {}
    with session.statement() as trial:  # so that each pod sees the room kept for those before it
        for pod in missing if on_nodes else ():
            cycle = Cycle(pod, session.snapshot, session.now)
            node = _node_lacking_least(session, cycle)
            if node is not None:
                trial.pipeline(cycle, node)
                nodes[pod.metadata.uid] = node
    return nodes


def _node_lacking_least(session: Session, cycle: Cycle) -> str | None:
    """Of the nodes that refuse a pod only for its size, the one that lacks least room; if there is none, of the nodes
    that refuse it only for what other pods may change by leaving."""
    snapshot = session.snapshot
    rows, ready = session.engine.resolvable_rows(Cycle(without_requests(cycle.pod), snapshot, session.now))
    requested = [(column, amount) for column, amount in cycle.pod_class.shape.amounts if amount > 0]
    if any(column >= len(snapshot.room.free) for column, _ in requested):  # no node has ever had any of it
        return None
    free, whole = snapshot.room.free[:, rows], snapshot.room.allocatable.cells[:, rows]
    lacking, fits = np.zeros(len(rows)), np.ones(len(rows), dtype=bool)
    for column, amount in requested:
        fits &= whole[column] >= amount
        lacking = np.maximum(lacking, (amount - free[column]) / np.maximum(whole[column], 1))
    nodes = [(not ready[each], lacking[each], snapshot.rows.name(rows[each]) or "") for each in np.flatnonzero(fits)]
    return min(nodes)[2] if nodes else None
