"""When pods that run now will be gone, as far as that is known.

Goes in: the snapshot and the time. Comes out: pods with the time of their end. A terminating pod ends with its grace
period, a pod with `activeDeadlineSeconds` when these are over at the latest. The end of all other pods is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from restow.model.cluster import Occupant
from restow.model.objects import Pod, Reservation
from restow.model.reservations.reservation_annotations import awaited_pods
from restow.model.snapshot import Snapshot
from restow.model.times import TimeError, parse_time

OVERDUE = 120.0
"""Seconds after its end from which a pod that is still there is not counted on to leave."""


class ExpectedEnd(msgspec.Struct, frozen=True):
    at: float
    occupant: Occupant


class ExpectedEnds:
    """The expected ends of a session's pods, looked up only when they are needed."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._now = now
        self._terminating: tuple[int, list[Occupant]] = (-1, [])
        self._ends: list[ExpectedEnd] | None = None

    def terminating(self) -> list[Occupant]:
        """Pods that are terminating now."""
        generation = self._snapshot.room.changes.generation
        if self._terminating[0] != generation:
            self._terminating = (generation, terminating_pods(self._snapshot, self._now))
        return self._terminating[1]

    def leaving_for(self, reservation: Reservation | None) -> list[Occupant]:
        """Pods whose room may be counted on: terminating ones, and the pods that the reservation awaits."""
        if reservation is None:
            return self.terminating()
        awaited = (self._snapshot.pods.known.get(uid) for uid in awaited_pods(reservation))
        return self.terminating() + [pod for pod in awaited if pod is not None and not pod.leaving]

    def soonest_first(self) -> list[ExpectedEnd]:
        """Every pod whose end is known, as the session first asks for it."""
        if self._ends is None:
            self._ends = expected_ends(self._snapshot, self._now)
        return self._ends


def terminating_pods(snapshot: Snapshot, now: float) -> list[Occupant]:
    """Pods that are terminating and not stuck in it, by node and key."""
    releasing = snapshot.room.releasing.cells[:, : snapshot.rows.size]
    names = [snapshot.rows.name(int(row)) for row in np.flatnonzero(releasing.any(axis=0))]
    leaving = [occupant for name in names if name for occupant in snapshot.occupants(name) if occupant.leaving]
    return [end.occupant for end in _not_overdue(leaving, now)]


def expected_ends(snapshot: Snapshot, now: float) -> list[ExpectedEnd]:
    """Every pod whose end is known, the soonest first."""
    known = snapshot.pods.known.values()
    ending = (
        occupant for occupant in known if occupant.leaving or occupant.pod.spec.active_deadline_seconds is not None
    )
    return sorted(_not_overdue(ending, now), key=lambda end: (end.at, end.occupant.key))


def latest_end(pods: Iterable[Pod], now: float) -> float | None:
    """When pods that start now are all over at the latest; None if that is not known of each."""
    seconds = [pod.spec.active_deadline_seconds for pod in pods]
    return now + max((each for each in seconds if each is not None), default=0) if None not in seconds else None


def _not_overdue(occupants: Iterable[Occupant], now: float) -> list[ExpectedEnd]:
    timed = [(_expected_end(occupant.pod), occupant) for occupant in occupants]
    return [ExpectedEnd(at, occupant) for at, occupant in timed if at is not None and now <= at + OVERDUE]


def _expected_end(pod: Pod) -> float | None:
    try:
        if pod.metadata.deletion_timestamp:
            return parse_time(pod.metadata.deletion_timestamp)
        if pod.status.start_time and pod.spec.active_deadline_seconds is not None:
            return parse_time(pod.status.start_time) + pod.spec.active_deadline_seconds
    except TimeError:
        pass
    return None
