"""Cool-down: nodes rest for a while after a migration, and a pod does not move back, so that no two plans undo each
other.

Goes in: a snapshot with pods that have the time and the source of their last move as annotations, and the times of
finished migration jobs. Comes out: the nodes that rest, and the node that a pod must not move back to. The times were
written by other machines, and their clocks may be ahead of ours: a time that lies more than a cool-down in the future
is a mistake and is ignored, because it would stop planning until then.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.objects import Pod
from restow.model.reservations.reservation_annotations import MOVED_AT_ANNOTATION, MOVED_FROM_ANNOTATION
from restow.model.snapshot import Snapshot
from restow.model.times import TimeError, parse_time


def nodes_cooling_down(
    snapshot: Snapshot, last_migrations: Mapping[str, float], now: float, seconds: float
) -> frozenset[str]:
    """The nodes that a pod left or came to by migration less than so many seconds ago."""
    if seconds <= 0:
        return frozenset()
    times = last_migration_times(snapshot, last_migrations, now + seconds)
    return frozenset(node for node, when in times.items() if now - when < seconds)


def cool_down_message(seconds: float, node: str = "") -> str:
    """Why a node is left alone; without a node, the end of a sentence about several."""
    return f"{f'{node} rests' if node else 'rest'} after a migration less than {seconds:g}s ago"


def last_migration_times(snapshot: Snapshot, last_migrations: Mapping[str, float], until: float) -> dict[str, float]:
    """By node: when a pod last left it or came to it by migration, among the known migrations before `until`."""
    times = {node: when for node, when in last_migrations.items() if when < until}
    for occupant in snapshot.pods.known.values():
        move = _last_move(occupant.pod)
        if move is not None and move[1] < until:
            source, moved_at = move
            for node in (occupant.node, source):
                times[node] = max(moved_at, times.get(node, moved_at))
    return times


def recent_source(pod: Pod, now: float, seconds: float) -> str | None:
    """The node that a pod was moved from less than so many seconds ago; None if it was not moved since."""
    move = _last_move(pod)
    return move[0] if move is not None and abs(now - move[1]) < seconds else None


def _last_move(pod: Pod) -> tuple[str, float] | None:
    """The node that a pod was moved from, and when; None if its annotations do not say so."""
    annotations = pod.metadata.annotations
    if not annotations or MOVED_AT_ANNOTATION not in annotations or MOVED_FROM_ANNOTATION not in annotations:
        return None
    try:
        return annotations[MOVED_FROM_ANNOTATION], parse_time(annotations[MOVED_AT_ANNOTATION])
    except TimeError:
        return None
