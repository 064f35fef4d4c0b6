"""The figures of a plan in words: what it brings, and how far it is from the best that any plan could do.

Goes in: a plan. Comes out: rows for a table, and one sentence. The names in the plan itself are for programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from restow.planning.plan import Measures, Plan

_NAMES: Final[Mapping[str, str]] = {
    "freeNodes": "free nodes",
    "slots": "pods of the shape that fit",
    "nodesAbove": "nodes above the threshold",
    "imbalance.mean": "imbalance, mean",
    "imbalance.deviation": "imbalance, deviation",
    "imbalance.largest": "imbalance, largest",
    "measuredNodes": "nodes whose use is measured",
    "busyNodes": "nodes that are really busy",
}
_USE, _PLACED = "utilisation.", "placed."
_WAITING, _HAVE_PLACE = "pendingPods", "placedPods"


class Row(NamedTuple):
    name: str
    before: str
    after: str


def rows(plan: Plan) -> list[Row]:
    """Every figure that has a before and an after."""
    names = [name for name in plan.before if name != _WAITING]
    return [Row(_title(name), _value(name, plan.before), _value(name, {**plan.before, **plan.after})) for name in names]


def goal(plan: Plan) -> str | None:
    """The name of the figure that the objective is about."""
    match plan.objective:
        case "free-nodes":
            return "freeNodes"
        case "slots":
            return "slots"
        case "pending":
            return next((name for name in plan.after if name.startswith(_PLACED)), _HAVE_PLACE)
    return None


def verdict(plan: Plan) -> str:
    """How good the plan is, where that is known."""
    name = goal(plan)
    if plan.bound is None or name is None or name not in plan.after:
        return ""
    reached, gap = f"{plan.after[name]:g} {_title(name)}", plan.after.get("gap", 0)
    if not gap:
        return f"{reached}: proven best, no plan of so many moves reaches more"
    return f"{reached}: at most {gap:g} % short of the best, no plan of so many moves reaches more than {plan.bound:g}"


def _title(name: str) -> str:
    if name.startswith(_USE):
        return f"{name.removeprefix(_USE)} requested on nodes that are not free, %"
    if name.startswith(_PLACED):
        return f"{name.removeprefix(_PLACED)} for waiting pods"
    return "waiting pods with a place" if name == _HAVE_PLACE else _NAMES.get(name, name)


def _value(name: str, figures: Measures) -> str:
    whole = f" of {figures[_WAITING]:g}" if name == _HAVE_PLACE and _WAITING in figures else ""
    return f"{figures[name]:g}{whole}"
