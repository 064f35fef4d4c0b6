"""Queueing: how many of those who wait their queues let through, and what is said about the others.

Goes in: a `Line`. Comes out: `quotas` for the search, which knows what a capability limits; `charging` for whoever
places pods one by one, by the rule of the scheduler, which knows guarantees of others, too; and refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from restow.model.cluster.room import LIMIT
from restow.model.objects import Pod
from restow.model.pods import namespaced_name
from restow.model.resources import Vector
from restow.planning.eviction_rules import general_refusal, pod_refusal
from restow.planning.optimal.packing_problem import Ints, QueueQuota
from restow.planning.optimal.pending_values import PendingGroup, PendingPods
from restow.planning.plan import Place, Refusal
from restow.scheduling.pod_group_cache import requests_of


def queue_quotas(line: PendingPods) -> list[QueueQuota]:
    """What the queues of those who wait may take, where that is limited."""
    found = []
    for queue in sorted({one.queue for one in line.groups}) if line.shares.is_limited else ():
        left = line.shares.left(queue)
        asked = {which: requests_of(one.pods[0]) for which, one in enumerate(line.groups) if one.queue == queue}
        if left:
            found.append(QueueQuota(_listed(left, left), {which: _listed(each, left) for which, each in asked.items()}))
    return found


def _listed(vector: Vector, names: Iterable[str]) -> Ints:
    """As an array; what is too large for one is taken for less, and left to the queue itself."""
    return np.array([min(vector.get(name, 0), LIMIT) for name in names], np.int64)


@contextmanager
def queue_charger(line: PendingPods) -> Iterator[Callable[[PendingGroup, Pod], bool]]:
    """A function that charges a pod to the queue of its group, and says whether the queue could take it. In the end
    queues are as they were."""
    charged: list[tuple[str, Vector]] = []

    def charge(group: PendingGroup, pod: Pod) -> bool:
        if queue_refusal(line, group, pod) is not None:
            return False
        charged.append((group.queue, requests_of(pod)))
        line.shares.charge(*charged[-1])
        return True

    try:
        yield charge
    finally:
        for queue, asked in charged:
            line.shares.discharge(queue, asked)


def queue_refusal(line: PendingPods, group: PendingGroup, pod: Pod) -> str | None:
    """Why the queue of a pod cannot take it; None if it can."""
    return line.shares.why_exceeded(group.queue, requests_of(pod)) if line.shares.is_limited else None


def unplaced_refusals(line: PendingPods, places: Iterable[Place]) -> Iterator[Refusal]:
    """What queues say to pods that still wait, once the places are taken, and a sentence about all of them."""
    taken = {(place.namespace, place.pod) for place in places}
    every = [(one, pod) for one in line.groups for pod in one.pods]
    placed = [namespaced_name(pod) in taken for _, pod in every]
    with queue_charger(line) as charge:
        for (group, pod), has_place in zip(every, placed, strict=True):
            if has_place:
                charge(group, pod)
        for (group, pod), has_place in zip(every, placed, strict=True):
            why = None if has_place else queue_refusal(line, group, pod)
            if why is not None:
                yield pod_refusal(pod, why)
    if line.seated_count:
        yield general_refusal(f"{line.seated_count} of {line.pod_count} pending pods have the seat of a reservation")
    left = line.pod_count - line.seated_count - len(taken)
    if left:
        yield general_refusal(f"{left} of {line.pod_count} pending pods are not placed")
