"""Order: a StatefulSet makes its pods one after the other, each only while all before it are Ready.

Goes in: a StatefulSet, one of its pods, and the pods that it has. Comes out: who keeps the set from making that one
again, were it gone. Source: processReplica of Kubernetes' StatefulSet controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from restow.model.objects import Pod, StatefulSet
from restow.model.pods import is_available

_PARALLEL: Final = "Parallel"


def out_of_order(owner: StatefulSet, pod: Pod, pods: Iterable[Pod]) -> str:
    """Why nobody would be made in a pod's place now; empty if somebody would."""
    name, _, ordinal = pod.metadata.name.rpartition("-")
    if owner.spec.pod_management_policy == _PARALLEL or name != owner.metadata.name or not ordinal.isdecimal():
        return ""
    there = {one.metadata.name for one in pods if is_available(one)}
    first = owner.spec.ordinals.start if owner.spec.ordinals else 0
    lacking = [one for number in range(first, int(ordinal)) if (one := f"{name}-{number}") not in there]
    if not lacking:
        return ""
    others = len(lacking) - 1
    who = f"{lacking[0]} is" if not others else f"{lacking[0]} and {others} more are"
    return f"StatefulSet {owner.metadata.namespace}/{name} makes nobody in its place while {who} not Ready"
