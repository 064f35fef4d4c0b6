"""Taints and tolerations: which taints of a node keep a pod away.

Goes in: taints of a node, tolerations of a pod. Comes out: the taints nothing tolerates, in the node's order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from restow.model.objects import Taint, Toleration
from restow.model.selectors import compare_integers

NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE = "NoSchedule", "NoExecute", "PreferNoSchedule"
HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
"""What a node that is lost is tainted with, by its keys."""
MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE, NETWORK_UNAVAILABLE = (
    f"node.kubernetes.io/{problem}"
    for problem in ("memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable")
)
"""And one that is in trouble."""
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def tolerates_taint(toleration: Toleration, taint: Taint, *, comparisons: bool = False) -> bool:
    """Whether one toleration tolerates one taint. `comparisons` turns on Gt and Lt, off by default as in clusters."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    wanted, value = toleration.value or "", taint.value or ""
    match toleration.operator or "Equal":
        case "Equal":
            return wanted == value
        case "Exists":
            return True
        case "Gt" | "Lt" as operator:
            numeric = bool(_DECIMAL.fullmatch(wanted) and _DECIMAL.fullmatch(value))
            return comparisons and numeric and compare_integers("Gt" if operator == "Gt" else "Lt", value, wanted)
        case _:
            return False


def untolerated_taint(
    taints: Iterable[Taint] | None,
    tolerations: Collection[Toleration] | None,
    effects: Collection[str] = HARD_EFFECTS,
    *,
    comparisons: bool = False,
) -> list[Taint]:
    """The taints with one of these effects that no toleration tolerates."""
    return [
        taint
        for taint in taints or ()
        if taint.effect in effects
        and not any(tolerates_taint(toleration, taint, comparisons=comparisons) for toleration in tolerations or ())
    ]
