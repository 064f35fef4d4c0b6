"""What queues still allow pending pods to take, and what they say about the pods that they do not allow.

Goes in: the pending pods with their queues. Comes out: quotas for the search, which knows the limits of each queue by
itself; `queue_charger` for placing pods one by one by the rule of the scheduler, which also keeps the guarantees of
other queues; and refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from restow.model.cluster.room import LIMIT
from restow.model.counted_nouns import counted_noun
from restow.model.objects import Pod
from restow.model.pods import namespaced_name
from restow.model.resources import Vector
from restow.planning.eviction_rules import general_refusal, pod_refusal
from restow.planning.optimal.packing_problem import Ints, QueueQuota
from restow.planning.optimal.pending_values import PendingGroup, PendingPods
from restow.planning.plan import Place, PlanRefusal
from restow.scheduling.pod_group_cache import requests_of


def queue_quotas(pending: PendingPods) -> list[QueueQuota]:
    """The quota of each queue of a pending pod that has limits."""
    quotas = []
    for queue in sorted({group.queue for group in pending.groups}) if pending.shares.is_limited else ():
        left = pending.shares.left(queue)
        requests = {
            index: requests_of(group.pods[0]) for index, group in enumerate(pending.groups) if group.queue == queue
        }
        if left:
            by_demand = {index: _array(each, left) for index, each in requests.items()}
            quotas.append(QueueQuota(_array(left, left), by_demand))
    return quotas


def _array(vector: Vector, names: Iterable[str]) -> Ints:
    """The amounts as an array. An amount that is too large for one is cut, and checked by `queue_charger` later."""
    return np.array([min(vector.get(name, 0), LIMIT) for name in names], np.int64)


@contextmanager
def queue_charger(pending: PendingPods) -> Iterator[Callable[[PendingGroup, Pod], bool]]:
    """A function that charges a pod to the queue of its group, and returns whether the queue could take it. At the end
    all charges are undone."""
    charged: list[tuple[str, Vector]] = []

    def charge(group: PendingGroup, pod: Pod) -> bool:
        if queue_refusal(pending, group, pod) is not None:
            return False
        charged.append((group.queue, requests_of(pod)))
        pending.shares.charge(*charged[-1])
        return True

    try:
        yield charge
    finally:
        for queue, requests in charged:
            pending.shares.discharge(queue, requests)


def queue_refusal(pending: PendingPods, group: PendingGroup, pod: Pod) -> str | None:
    """Why the queue of a pod cannot take it; None if it can."""
    return pending.shares.why_exceeded(group.queue, requests_of(pod)) if pending.shares.is_limited else None


def unplaced_refusals(
    pending: PendingPods, places: Iterable[Place], proven_for: int | None = None
) -> Iterator[PlanRefusal]:
    """What queues say to pods without a place, once the others have theirs, and sentences about all pending pods.

    `proven_for` is the move limit, if it is proven that no plan within it places any of them."""
    with_place = {(place.namespace, place.pod) for place in places}
    pods = [(group, pod) for group in pending.groups for pod in group.pods]
    is_placed = [namespaced_name(pod) in with_place for _, pod in pods]
    with queue_charger(pending) as charge:
        for (group, pod), placed in zip(pods, is_placed, strict=True):
            if placed:
                charge(group, pod)
        for (group, pod), placed in zip(pods, is_placed, strict=True):
            reason = None if placed else queue_refusal(pending, group, pod)
            if reason is not None:
                yield pod_refusal(pod, reason)
    total = pending.pod_count
    if pending.seated_count:
        yield general_refusal(f"{pending.seated_count} of {total} pending pods have the seat of a reservation")
    left = total - pending.seated_count - len(with_place)
    if left:
        message = f"{left} of {total} pending pods are not placed"
        if proven_for is not None and left == total:
            message = f"none of {total} pending pods can be placed with at most {counted_noun(proven_for, 'move')}"
        yield general_refusal(message)
