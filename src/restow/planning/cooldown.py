"""Cool-down: what was moved lately is left alone for a while, so that no two runs undo each other.

Goes in: a snapshot, whose pods say when and from where they were moved, and what finished migrations tell. Comes out:
the nodes that rest, and the node a pod must not be sent back to. Times are of other machines, whose clocks may be
ahead: what was moved so far in the future that it could not matter yet does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.objects import Pod
from restow.model.reservations.reservation_annotations import MOVED_AT_ANNOTATION, MOVED_FROM_ANNOTATION
from restow.model.snapshot import Snapshot
from restow.model.times import TimeError, parse_time


def nodes_cooling_down(snapshot: Snapshot, migrated: Mapping[str, float], now: float, seconds: float) -> frozenset[str]:
    """Nodes that a pod left or came to by migration less than so many seconds ago."""
    if seconds <= 0:
        return frozenset()
    times = last_migration_times(snapshot, migrated, now + seconds)
    return frozenset(node for node, when in times.items() if now - when < seconds)


def cool_down_message(seconds: float, node: str = "") -> str:
    """What nodes do that rest, and why; or one of them, by name."""
    return f"{f'{node} rests' if node else 'rest'}, as a pod came or left less than {seconds:g}s ago"


def last_migration_times(snapshot: Snapshot, migrated: Mapping[str, float], until: float) -> dict[str, float]:
    """By node: when a pod last left it or came to it by migration before some time, as far as anybody can tell."""
    found = {node: when for node, when in migrated.items() if when < until}
    for one in snapshot.pods.known.values():
        move = _last_move(one.pod)
        if move is not None and move[1] < until:
            for node in (one.node, move[0]):
                found[node] = max(move[1], found.get(node, move[1]))
    return found


def recent_source(pod: Pod, now: float, seconds: float) -> str | None:
    """The node a pod was moved from less than so many seconds ago; None if it was not."""
    move = _last_move(pod)
    return move[0] if move is not None and abs(now - move[1]) < seconds else None


def _last_move(pod: Pod) -> tuple[str, float] | None:
    """From where a pod was moved, and when."""
    annotations = pod.metadata.annotations
    if not annotations or MOVED_AT_ANNOTATION not in annotations or MOVED_FROM_ANNOTATION not in annotations:
        return None
    try:
        return annotations[MOVED_FROM_ANNOTATION], parse_time(annotations[MOVED_AT_ANNOTATION])
    except TimeError:
        return None
