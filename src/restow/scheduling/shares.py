"""Shares: which queue is next, and what it may still take.

Goes in: queues, what each uses, what the cluster has. Comes out: an order (higher priority first, then the smaller
share of what the queue deserves or, without `deserved`, of the cluster by weight) and refusals that name the limit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Snapshot
from restow.model.objects import Queue, QueueState
from restow.model.quantity import quantity_of
from restow.model.resources import Vector, add, amounts, subtract
from restow.scheduling.jobs import DEFAULT_QUEUE, Roster


class Shares:
    """The queues during one session: what is placed is charged at once, so that shares are always fresh."""

    def __init__(self, roster: Roster, snapshot: Snapshot) -> None:
        self._queues = roster.queues
        self.counts = roster.counts
        self._offered = offered(snapshot) if self.counts else {}
        self._used: dict[str, Vector] = _usage(roster, snapshot) if self.counts else {}

    def order(self, name: str) -> tuple[int, float, str]:
        """The smaller, the sooner."""
        queue = self._queues.get(name)
        if queue is None:
            return 0, 0.0, name
        return -(queue.spec.priority or 0), self._share(queue, self._used.get(name, {})), name

    def refusal(self, name: str, request: Vector) -> str | None:
        """Why a queue cannot take this much more; None if it can."""
        queue = self._queues.get(name)
        if queue is None:
            return f"queue {name} does not exist"
        state = queue.status.state or QueueState.OPEN
        if state in (QueueState.CLOSED, QueueState.CLOSING):
            return f"queue {name} is {state}"
        return self._over(queue, request)

    def charge(self, name: str, request: Vector) -> None:
        if self.counts:
            self._used[name] = add(self._used.get(name, {}), request)

    def discharge(self, name: str, request: Vector) -> None:
        """The inverse of `charge`."""
        if self.counts:
            self._used[name] = subtract(self._used.get(name, {}), request)

    def used(self, name: str) -> Vector:
        return self._used.get(name, {})

    def _share(self, queue: Queue, used: Vector) -> float:
        deserved = amounts(queue.spec.deserved)
        if deserved:
            return _dominant(used, deserved)
        return _dominant(used, self._offered) / (queue.spec.weight or 1)

    def _over(self, queue: Queue, request: Vector) -> str | None:
        limits, used = amounts(queue.spec.capability), self._used.get(queue.metadata.name, {})
        over = [
            f"{name} (limit {quantity_of(name, limit)}, used {quantity_of(name, used.get(name, 0))}, "
            f"requested {quantity_of(name, request[name])})"
            for name, limit in sorted(limits.items())
            if request.get(name, 0) > 0 and used.get(name, 0) + request[name] > limit
        ]
        return f"queue {queue.metadata.name} would exceed its capability: {', '.join(over)}" if over else None


def over_share(snapshot: Snapshot, namespace: str, request: Vector, percent: int) -> str | None:
    """Why a namespace may not hold this much more by reservations; None if it may. They are not subject to quota, so
    that this is all that keeps one namespace from holding the cluster."""
    held, limits = snapshot.reservations.holdings.of_namespace(namespace), offered(snapshot)
    over = [
        f"{name} (limit {quantity_of(name, limit)}, held {quantity_of(name, held.get(name, 0))}, "
        f"requested {quantity_of(name, amount)})"
        for name, amount in sorted(request.items())
        if amount > 0 and held.get(name, 0) + amount > (limit := limits.get(name, 0) * percent // 100)
    ]
    if not over:
        return None
    return f"namespace {namespace} may hold {percent}% of the cluster by reservations: {', '.join(over)}"


def _usage(roster: Roster, snapshot: Snapshot) -> dict[str, Vector]:
    """What each queue uses: its pods on nodes, and the seats that its reservations hold."""
    usage = dict(roster.usage())
    for queue, held in snapshot.reservations.holdings.by_queue().items():
        name = queue or DEFAULT_QUEUE
        usage[name] = add(usage.get(name, {}), held)
    return usage


def offered(snapshot: Snapshot) -> dict[str, int]:
    """What all nodes offer together."""
    return _sums(snapshot, snapshot.room.allocatable.cells)


def requested(snapshot: Snapshot) -> dict[str, int]:
    """What all pods on nodes take together."""
    return _sums(snapshot, snapshot.room.requested.cells)


def _sums(snapshot: Snapshot, cells: NDArray[np.int64]) -> dict[str, int]:
    return dict(zip(snapshot.room.resources.names, cells.sum(axis=1).tolist(), strict=False))


def _dominant(used: Vector, of: Mapping[str, int]) -> float:
    """The largest part of any resource."""
    return max((used.get(name, 0) / amount for name, amount in of.items() if amount > 0), default=0.0)
