"""The QoS class of a pod, derived from its spec as kube-apiserver does."""

from __future__ import annotations

from restow.model.objects import PodSpec, Quantities, ResourceRequirements
from restow.model.quantity import Quantity

_COUNTED = ("cpu", "memory")


def qos_class(spec: PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort.

    Guaranteed when every container's cpu and memory limits are set and equal its requests, BestEffort when nothing is
    requested or limited. Pod-level resources, when there are any, are looked at alone.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    every_limit_set = True
    for resources in _resources(spec):
        _add_positive(requests, resources.requests)
        limited = _add_positive(limits, resources.limits)
        if limited < len(_COUNTED) and (spec.resources is None or resources.limits):
            every_limit_set = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if every_limit_set and requests == limits else "Burstable"


def _resources(spec: PodSpec) -> list[ResourceRequirements]:
    if spec.resources is not None:
        return [spec.resources]
    return [container.resources for container in (*(spec.containers or ()), *(spec.init_containers or ()))]


def _add_positive(total: dict[str, int], written: Quantities | None) -> int:
    """Add the positive cpu and memory amounts; how many there were."""
    count = 0
    for name in _COUNTED:
        nano = Quantity.parse((written or {}).get(name, 0)).nano
        if nano > 0:
            total[name] = total.get(name, 0) + nano
            count += 1
    return count
