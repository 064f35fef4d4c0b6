"""Endings: when pods that run now will be gone, as far as that is known.

A terminating pod goes at the end of its grace period, one with `activeDeadlineSeconds` when they are over at the
latest. Of all others nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from restow.model.cluster import Occupant
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.model.times import TimeError, parse_time

OVERDUE = 120.0
"""Seconds after its end from which a pod that is still there is not waited for."""


class ExpectedEnd(msgspec.Struct, frozen=True):
    at: float
    occupant: Occupant


def terminating_pods(snapshot: Snapshot, now: float) -> list[Occupant]:
    """Pods that are terminating and not stuck in it, by node and key."""
    releasing = snapshot.room.releasing.cells[:, : snapshot.rows.size]
    names = [snapshot.rows.name(int(row)) for row in np.flatnonzero(releasing.any(axis=0))]
    found = [one for name in names if name for one in snapshot.occupants(name) if one.leaving]
    return [one.occupant for one in _timely(found, now)]


def expected_ends(snapshot: Snapshot, now: float) -> list[ExpectedEnd]:
    """Every pod of which it is known when it ends, the soonest first."""
    known = snapshot.pods.known.values()
    found = _timely((one for one in known if one.leaving or one.pod.spec.active_deadline_seconds is not None), now)
    return sorted(found, key=lambda one: (one.at, one.occupant.key))


def latest_end(pods: Iterable[Pod], now: float) -> float | None:
    """When pods that start now are all over at the latest; None if that is not known of each."""
    seconds = [pod.spec.active_deadline_seconds for pod in pods]
    return now + max((one for one in seconds if one is not None), default=0) if None not in seconds else None


def _timely(occupants: Iterable[Occupant], now: float) -> list[ExpectedEnd]:
    timed = [(_end(one.pod), one) for one in occupants]
    return [ExpectedEnd(at, one) for at, one in timed if at is not None and now <= at + OVERDUE]


def _end(pod: Pod) -> float | None:
    try:
        if pod.metadata.deletion_timestamp:
            return parse_time(pod.metadata.deletion_timestamp)
        if pod.status.start_time and pod.spec.active_deadline_seconds is not None:
            return parse_time(pod.status.start_time) + pod.spec.active_deadline_seconds
    except TimeError:
        pass
    return None
