"""Facts about pods that several controllers share: ready, available, active, and which to delete first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cmp_to_key

from restow.client.cache import Change
from restow.model.objects import Pod
from restow.model.pods import DELETION_COST, is_finished, is_ready, ready_condition
from restow.model.times import parse_time
from restow.sim.world.view import View

YOUNG = 10.0  # seconds
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_active(pod: Pod, view: View) -> bool:
    """Neither finished nor being deleted: it counts towards its controller's replicas."""
    return not is_finished(pod) and not view.is_leaving(pod)


def available_in(pod: Pod, min_ready: float, now: float) -> float | None:
    """Seconds until the pod counts as available (0: it does already), None if it is not even ready."""
    ready = ready_condition(pod)
    if ready is None:
        return None
    if not min_ready or not ready.last_transition_time:
        return 0.0
    return max(0.0, parse_time(ready.last_transition_time) + min_ready - now)


def is_lost_early(change: Change[Pod], now: float) -> bool:
    """Whether this change is the end of a pod that was made a moment ago and has never served."""
    pod, before = change.object, change.old or change.object
    if is_ready(before) or _is_lost(before):
        return False
    created = _created(pod)
    return (change.type == "DELETED" or _is_lost(pod)) and created is not None and now - created < YOUNG


def _is_lost(pod: Pod) -> bool:
    return pod.status.phase == "Failed" or pod.metadata.deletion_timestamp is not None


def deletion_cost(pod: Pod) -> int:
    text = (pod.metadata.annotations or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def restart_count(pod: Pod) -> int:
    return max((status.restart_count or 0 for status in pod.status.container_statuses or ()), default=0)


def deletion_order(pods: Sequence[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """The order in which a ReplicaSet gives up pods when scaled down (ActivePodsWithRanks of kube-controller-manager).

    Unassigned first, then by phase, readiness, deletion cost, pods of the family on the same node, shortest time ready,
    most restarts, youngest. Times are compared by order of magnitude, and within one by uid, as upstream does.
    """
    doubled = Counter(pod.spec.node_name for pod in related if pod.spec.node_name)

    def plain(pod: Pod) -> tuple[int, ...]:
        return (
            1 if pod.spec.node_name else 0,
            _PHASES.get(pod.status.phase or "Pending", 0),
            1 if is_ready(pod) else 0,
            deletion_cost(pod),
            -doubled[pod.spec.node_name] if pod.spec.node_name else 0,
        )

    def compare(pod: Pod, other: Pod) -> int:
        if plain(pod) != plain(other):
            return -1 if plain(pod) < plain(other) else 1
        if is_ready(pod):
            by_ready = _younger(_ready_since(pod), _ready_since(other), pod, other, now)
            if by_ready:
                return by_ready
        if restart_count(pod) != restart_count(other):
            return restart_count(other) - restart_count(pod)
        return _younger(_created(pod), _created(other), pod, other, now)

    return sorted(pods, key=cmp_to_key(compare))


def _ready_since(pod: Pod) -> float | None:
    ready = ready_condition(pod)
    return parse_time(ready.last_transition_time) if ready and ready.last_transition_time else None


def _created(pod: Pod) -> float | None:
    return parse_time(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else None


def _younger(since: float | None, other_since: float | None, pod: Pod, other: Pod, now: float) -> int:
    """Negative if `one` is younger; ages of the same magnitude are told apart by uid, so that neither is favoured."""
    if since == other_since:
        return 0
    if since is None or other_since is None:
        return -1 if since is None else 1
    difference = _magnitude(now - since) - _magnitude(now - other_since)
    if difference:
        return difference
    return -1 if pod.metadata.uid < other.metadata.uid else 1


def _magnitude(seconds: float) -> int:
    nanoseconds = seconds * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 1 else -1
