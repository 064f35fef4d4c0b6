"""StatefulSet order: a StatefulSet creates its pods by ordinal, each only while all lower ordinals are Ready.

Goes in: a StatefulSet, one of its pods, and all its pods. Comes out: the pods that keep the set from recreating that
one, and from which revision it would be recreated. Source: Kubernetes' StatefulSet controller (processReplica,
newVersionedStatefulSetPod).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from restow.model.objects import Pod, StatefulSet
from restow.model.pods import is_available

_PARALLEL: Final = "Parallel"


def ordinal_of(pod: Pod, owner: StatefulSet) -> int | None:
    """The ordinal in the name of a pod; None if the pod is not named after the set."""
    name, _, ordinal = pod.metadata.name.rpartition("-")
    return int(ordinal) if name == owner.metadata.name and ordinal.isdecimal() else None


def _first_ordinal(owner: StatefulSet) -> int:
    return owner.spec.ordinals.start if owner.spec.ordinals else 0


def is_made_from_current_revision(pod: Pod, owner: StatefulSet) -> bool:
    """Whether a set would recreate this pod from its current revision, and not from the updated template: below the
    partition of a rolling update."""
    strategy, place = owner.spec.update_strategy, ordinal_of(pod, owner)
    if strategy.type == "OnDelete" or place is None:
        return False
    update = strategy.rolling_update
    kept = (owner.status.current_replicas if update is None else update.partition) or 0
    return place < _first_ordinal(owner) + kept


def waits_for_order(owner: StatefulSet, pod: Pod, pods: Iterable[Pod]) -> str:
    """Why the set would not recreate a pod now; empty if it would."""
    name, place = owner.metadata.name, ordinal_of(pod, owner)
    if owner.spec.pod_management_policy == _PARALLEL or place is None:
        return ""
    available = {other.metadata.name for other in pods if is_available(other)}
    lower = (f"{name}-{number}" for number in range(_first_ordinal(owner), place))
    lacking = [other for other in lower if other not in available]
    if not lacking:
        return ""
    others = len(lacking) - 1
    unready = f"{lacking[0]} is" if not others else f"{lacking[0]} and {others} more are"
    return f"StatefulSet {owner.metadata.namespace}/{name} would not recreate it while {unready} not Ready"
