"""Queue shares: which queue is next, and what it may still take.

Goes in: queues, what each uses, what the cluster has. Comes out: an order and refusals that name the limit.

    order       higher priority first; then queues that use less than their guarantee; then the smaller share: of
                `deserved`, or without it of the cluster, by weight
    capability  a queue never uses more than that
    guarantee   what is guaranteed to a queue and not used yet is kept from other queues: all queues together take no
                more than the cluster has, each counted with its usage or its guarantee, whichever is more. A queue
                inside its guarantee is therefore never refused for that. A guarantee that was rejected counts for
                nothing

`reclaimable` is not read: this scheduler takes nothing back from a queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from restow.model.guarantees import ClusterCapacity
from restow.model.objects import Queue, Reservation
from restow.model.quantity import quantity_of
from restow.model.queues import DEFAULT_QUEUE, is_closed
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.resources import Vector, add_vectors, parse_amounts, subtract_vectors
from restow.model.snapshot import Snapshot
from restow.scheduling.pod_group_cache import PodGroupCache, requests_of

ROOT_QUEUE = "root"
"""The parent that Volcano gives to queues without one."""

Order = tuple[int, bool, float, str]
_NOTHING: Mapping[str, int] = {}


class QueueShares:
    """The queues during one session: what is placed is charged at once, so that shares are always up to date."""

    def __init__(self, pod_groups: PodGroupCache, snapshot: Snapshot) -> None:
        self._pod_groups = pod_groups
        self._queues = pod_groups.queues.by_name
        self.is_limited = pod_groups.queues.is_usage_limited
        self._offered = total_allocatable(snapshot) if self.is_limited else {}
        self._used: dict[str, Vector] = _usage(pod_groups, snapshot) if self.is_limited else {}
        self._guaranteed = pod_groups.queues.guarantees(cluster_totals(snapshot)) if self.is_limited else {}
        self._taken = self._all_taken()
        """Of every guaranteed resource, what all queues take: each its usage, or its guarantee if that is more."""
        self._orders: dict[str, Order] = {}

    def order(self, name: str) -> Order:
        """The smaller, the sooner."""
        order = self._orders.get(name)
        if order is None:
            order = self._orders[name] = self._order(name)
        return order

    def may_refuse(self, name: str) -> bool:
        """Whether a queue may refuse anything: usage is limited, or there is no queue of that name."""
        return self.is_limited or name not in self._queues

    def why_exceeded(self, name: str, request: Vector) -> str | None:
        """Why a queue cannot take this much more; None if it can."""
        why_not = why_queue_closed(self._pod_groups, name)
        return why_not or self._over_capability(self._queues[name], request) or self._over_guarantees(name, request)

    def left(self, name: str) -> Vector:
        """How much a queue may still take of what its capability limits."""
        queue, used = self._queues.get(name), self.used(name)
        limits = parse_amounts(queue.spec.capability) if queue is not None else _NOTHING
        return {each: max(limit - used.get(each, 0), 0) for each, limit in limits.items()}

    def is_guaranteed(self, name: str, request: Vector) -> bool:
        """Whether a queue asks for something that is guaranteed to it, and stays inside with this much more."""
        guaranteed, used = self._guaranteed.get(name, _NOTHING), self.used(name)
        asked = [each for each in guaranteed if request.get(each, 0) > 0]
        return bool(asked) and all(used.get(each, 0) + request[each] <= guaranteed[each] for each in asked)

    def charge(self, name: str, request: Vector) -> None:
        if self.is_limited:
            self._use(name, add_vectors(self.used(name), request))

    def discharge(self, name: str, request: Vector) -> None:
        """The inverse of `charge`."""
        if self.is_limited:
            self._use(name, subtract_vectors(self.used(name), request))

    def used(self, name: str) -> Vector:
        return self._used.get(name, _NOTHING)

    # --- order --------------------------------------------------------------------------------------------------------

    def _order(self, name: str) -> Order:
        queue = self._queues.get(name)
        if queue is None:
            return 0, True, 0.0, name
        used, guaranteed = self.used(name), self._guaranteed.get(name, _NOTHING)
        return -(queue.spec.priority or 0), not _is_below(used, guaranteed), self._share(queue, used), name

    def _share(self, queue: Queue, used: Vector) -> float:
        deserved = parse_amounts(queue.spec.deserved)
        if deserved:
            return _dominant(used, deserved)
        return _dominant(used, self._offered) / (queue.spec.weight or 1)

    # --- limits -------------------------------------------------------------------------------------------------------

    def _over_capability(self, queue: Queue, request: Vector) -> str | None:
        limits, used = parse_amounts(queue.spec.capability), self.used(queue.metadata.name)
        over = [
            f"{name} (limit {quantity_of(name, limit)}, used {quantity_of(name, used.get(name, 0))}, "
            f"requested {quantity_of(name, request[name])})"
            for name, limit in sorted(limits.items())
            if request.get(name, 0) > 0 and used.get(name, 0) + request[name] > limit
        ]
        return f"queue {queue.metadata.name} would exceed its capability: {', '.join(over)}" if over else None

    def _over_guarantees(self, name: str, request: Vector) -> str | None:
        over = [each for each in sorted(self._taken) if self._is_over(name, each, request.get(each, 0))]
        if not over:
            return None
        parts = [self._figures(name, each, request[each]) for each in over]
        return f"queue {name} would take what is guaranteed to other queues: {', '.join(parts)}"

    def _is_over(self, name: str, each: str, more: int) -> bool:
        """Whether a queue that takes more of a resource leaves other queues less than their guarantees."""
        used, own = self.used(name).get(each, 0), self._guaranteed.get(name, _NOTHING).get(each, 0)
        grows = max(used + more, own) - max(used, own)
        too_much = more > 0 and grows > 0 and self._taken[each] + grows > self._offered.get(each, 0)
        return too_much and self._kept_from(name, each) > 0

    def _figures(self, name: str, each: str, more: int) -> str:
        used = sum(vector.get(each, 0) for vector in self._used.values())
        figures = {"total": self._offered.get(each, 0), "used": used, "kept": self._kept_from(name, each)}
        parts = ", ".join(f"{label} {quantity_of(each, amount)}" for label, amount in figures.items())
        return f"{each} ({parts}, requested {quantity_of(each, more)})"

    def _kept_from(self, name: str, each: str) -> int:
        """What is guaranteed to other queues, and not used by them."""
        others = (other for other in self._guaranteed if other != name)
        return sum(max(self._guaranteed[other].get(each, 0) - self.used(other).get(each, 0), 0) for other in others)

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _all_taken(self) -> dict[str, int]:
        taken: dict[str, int] = {}
        for name, guaranteed in self._guaranteed.items():
            used = self.used(name)
            for each, amount in guaranteed.items():
                taken[each] = taken.get(each, 0) + max(amount - used.get(each, 0), 0)
        for used in self._used.values() if taken else ():
            for each in taken:
                taken[each] += used.get(each, 0)
        return taken

    def _use(self, name: str, now: Vector) -> None:
        before, guaranteed = self.used(name), self._guaranteed.get(name, _NOTHING)
        for each in self._taken:
            least = guaranteed.get(each, 0)
            self._taken[each] += max(now.get(each, 0), least) - max(before.get(each, 0), least)
        self._used[name] = now
        self._orders.pop(name, None)


def why_queue_closed(pod_groups: PodGroupCache, name: str) -> str | None:
    """Why a queue admits nothing, whatever is requested; None if it may."""
    queue = pod_groups.queues.by_name.get(name)
    if queue is None:
        return f"queue {name} does not exist"
    if name in pod_groups.queues.unreadable:
        return f"queue {name} has limits that cannot be read: {pod_groups.queues.unreadable[name]}"
    if queue.spec.parent not in (None, "", ROOT_QUEUE):
        return f"queue {name} has the parent {queue.spec.parent}: Restow does not support spec.parent of queues"
    if queue.metadata.deletion_timestamp:
        return f"queue {name} is being deleted"
    return f"queue {name} is {queue.status.state}" if is_closed(queue) else None


def _is_below(used: Vector, guaranteed: Vector) -> bool:
    """Whether a queue uses less than its guarantee of some resource, and more of none."""
    less = [used.get(name, 0) - amount for name, amount in guaranteed.items()]
    return any(amount < 0 for amount in less) and all(amount <= 0 for amount in less)


class NamespaceShare:
    """What one namespace may hold by reservations. They are not subject to ResourceQuota, so that only this share keeps
    a namespace from holding the whole cluster. It is rounded up: otherwise the only GPU could never be held. There is
    no share of a resource that no node has: the search for a node refuses it."""

    def __init__(self, snapshot: Snapshot, namespace: str, percent: int) -> None:
        self._limit_message = f"namespace {namespace} may hold {percent}% of the cluster (reservations.namespaceShare)"
        self._held = snapshot.reservations.reserved_pods.usage.of_namespace(namespace)
        self._limits = {
            name: -(-amount * percent // 100) for name, amount in total_allocatable(snapshot).items() if amount > 0
        }

    def release(self, amounts: Vector) -> None:
        """Do not count so much of what is held."""
        self._held = subtract_vectors(self._held, amounts)

    def why_exceeded(self, request: Vector) -> str | None:
        """Why the namespace may not hold this much more; None if it may."""
        held, limits = self._held, self._limits
        over = [
            f"{name} (limit {quantity_of(name, limits[name])}, held {quantity_of(name, held.get(name, 0))}, "
            f"requested {quantity_of(name, amount)})"
            for name, amount in sorted(request.items())
            if amount > 0 and name in limits and held.get(name, 0) + amount > limits[name]
        ]
        return f"{self._limit_message}: {', '.join(over)}" if over else None


def credit_of_migrating_pod(
    snapshot: Snapshot, pod_groups: PodGroupCache, reservation: Reservation, queue: str
) -> Vector:
    """What a queue gets back for the pod that is to move into a seat charged to it. If another reservation has a seat
    for the same pod, it was given back for that one already."""
    index, uid = snapshot.reservations, migrating_pod(reservation)
    migrating = snapshot.pods.known.get(uid) if uid is not None else None
    if uid is None or migrating is None or pod_groups.queue_of(migrating.pod) != queue:
        return {}
    others = (
        other for other in index.placements.made_to_migrate(uid) if other.metadata.uid != reservation.metadata.uid
    )
    seats = (seat for other in others for seat in index.seats(other.metadata.namespace or "", other.metadata.name))
    return {} if any(seat.is_open for seat in seats) else requests_of(migrating.pod)


def _usage(pod_groups: PodGroupCache, snapshot: Snapshot) -> dict[str, Vector]:
    """What each queue uses: its pods on nodes, and the seats that its reservations hold."""
    usage = dict(pod_groups.usage())
    for queue, held in snapshot.reservations.reserved_pods.usage.by_queue().items():
        name = queue or DEFAULT_QUEUE
        usage[name] = add_vectors(usage.get(name, {}), held)
    return usage


def cluster_totals(snapshot: Snapshot) -> ClusterCapacity:
    """What there is to be shared: the number of nodes, and what they offer."""
    return ClusterCapacity(int(np.count_nonzero(snapshot.nodes.present)), total_allocatable(snapshot))


def total_allocatable(snapshot: Snapshot) -> dict[str, int]:
    """What all nodes offer together."""
    return _sums(snapshot, snapshot.room.allocatable.cells)


def total_requested(snapshot: Snapshot) -> dict[str, int]:
    """What all pods on nodes take together."""
    return _sums(snapshot, snapshot.room.requested.cells)


def _sums(snapshot: Snapshot, cells: NDArray[np.int64]) -> dict[str, int]:
    return dict(zip(snapshot.room.resources.names, cells.sum(axis=1).tolist(), strict=False))


def _dominant(used: Vector, of: Mapping[str, int]) -> float:
    """The largest part of any resource."""
    return max((used.get(name, 0) / amount for name, amount in of.items() if amount > 0), default=0.0)
