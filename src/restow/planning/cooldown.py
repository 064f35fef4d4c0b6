"""Cool-down: what was moved lately is left alone for a while, so that no two runs undo each other.

Goes in: a snapshot, whose pods say when and from where they were moved, and what finished migrations tell. Comes out:
the nodes that rest, and the node a pod must not be sent back to.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.cluster import Snapshot
from restow.model.cluster.seat import MOVED_AT_ANNOTATION, MOVED_FROM_ANNOTATION
from restow.model.objects import Pod
from restow.model.times import TimeError, parse_time


def resting(snapshot: Snapshot, migrated: Mapping[str, float], now: float, seconds: float) -> frozenset[str]:
    """Nodes that a pod left or came to by migration less than so many seconds ago."""
    if seconds <= 0:
        return frozenset()
    found = {node for node, when in migrated.items() if now - when < seconds}
    for one in snapshot.pods.known.values():
        came_from = moved_from(one.pod, now, seconds)
        if came_from is not None:
            found |= {one.node, came_from}
    return frozenset(found)


def moved_from(pod: Pod, now: float, seconds: float) -> str | None:
    """The node a pod was moved from less than so many seconds ago; None if it was not."""
    annotations = pod.metadata.annotations
    if not annotations or MOVED_AT_ANNOTATION not in annotations:
        return None
    try:
        when = parse_time(annotations[MOVED_AT_ANNOTATION])
    except TimeError:
        return None
    return annotations.get(MOVED_FROM_ANNOTATION) if now - when < seconds else None
