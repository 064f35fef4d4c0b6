"""Costs: the annotations by which pods say which of them is evicted first, and which never."""

from __future__ import annotations

import re
from typing import Final

from restow.model.objects import Pod
from restow.model.pods import DELETION_COST

EVICTION_COST: Final = "scheduling.koordinator.sh/eviction-cost"
NEVER_EVICT: Final = 2**31 - 1
"""The eviction cost of a pod that must not be evicted."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,9}", re.ASCII)
_INT32 = range(-(2**31), 2**31)


def eviction_cost(pod: Pod) -> int:
    """Pods of lower cost are evicted first."""
    return _cost_annotation(pod, EVICTION_COST)


def deletion_cost(pod: Pod) -> int:
    """The cost by which the pod's controller chooses when it scales down."""
    return _cost_annotation(pod, DELETION_COST)


def _cost_annotation(pod: Pod, annotation: str) -> int:
    """An int32 in canonical spelling; anything else counts as absent, which is 0, as in Kubernetes and Koordinator."""
    text = (pod.metadata.annotations or {}).get(annotation, "")
    if not _INTEGER.fullmatch(text):
        return 0
    number = int(text)
    return number if number in _INT32 else 0
