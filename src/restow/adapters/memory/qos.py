"""The quality-of-service class of a pod, from its requests and limits of cpu and memory."""

from __future__ import annotations

from typing import Any

from restow.model.quantity import Quantity, QuantityError

_COUNTED = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Guaranteed: every container has limits of both and no other requests. BestEffort: nobody asks for any."""
    pod_level = spec.get("resources") or {}
    containers = [pod_level] if _amounts(pod_level, "requests") or _amounts(pod_level, "limits") else []
    if not containers:
        listed = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        containers = [each.get("resources") or {} for each in listed]
    asked = [(_amounts(each, "requests"), _amounts(each, "limits")) for each in containers]
    if not any(requests or limits for requests, limits in asked):
        return "BestEffort"
    if all(set(limits) == set(_COUNTED) and (requests or limits) == limits for requests, limits in asked):
        return "Guaranteed"
    return "Burstable"


def _amounts(resources: dict[str, Any], side: str) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name in _COUNTED:
        text = (resources.get(side) or {}).get(name)
        if text is None:
            continue
        try:
            amount = Quantity.parse(text)
        except QuantityError:  # validation reports it
            continue
        if amount > Quantity.parse(0):
            found[name] = amount
    return found
