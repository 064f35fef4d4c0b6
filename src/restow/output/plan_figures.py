"""The figures of a plan in words: rows for a table, and one sentence about how close the plan is to the optimum.

The plan itself has the figures under names for programs, such as freeNodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from restow.model.counted_nouns import counted_noun
from restow.planning.plan import Measures, Plan

_NAMES: Final[Mapping[str, str]] = {
    "freeNodes": "free nodes",
    "slots": "pods of the shape that fit",
    "nodesAbove": "nodes above the threshold",
    "imbalance.mean": "mean imbalance",
    "imbalance.deviation": "standard deviation of imbalance",
    "imbalance.largest": "largest imbalance",
    "measuredNodes": "nodes with measured usage",
    "busyNodes": "busy nodes, by measured usage",
}
_BETTER: Final[Mapping[str, str]] = {
    "free-nodes": "frees more nodes",
    "slots": "makes room for more pods of the shape",
    "pending": "places more of them",
}
"""What a better plan would do, by objective."""
_UTILISATION, _PLACED = "utilisation.", "placed."
_PENDING_PODS, _PLACED_PODS = "pendingPods", "placedPods"


class FigureRow(NamedTuple):
    name: str
    before: str
    after: str


def figure_rows(plan: Plan) -> list[FigureRow]:
    """All figures with their values before and after the plan."""
    names = [name for name in plan.before if name != _PENDING_PODS]
    return [
        FigureRow(_title(name), _value(name, plan.before), _value(name, {**plan.before, **plan.after}))
        for name in names
    ]


def objective_figure(plan: Plan) -> str | None:
    """The name of the figure that the objective maximises."""
    match plan.objective:
        case "free-nodes":
            return "freeNodes"
        case "slots":
            return "slots"
        case "pending":
            return next((name for name in plan.after if name.startswith(_PLACED)), _PLACED_PODS)
    return None


def verdict(plan: Plan, max_moves: int | None = None) -> str:
    """The distance to the optimum in one sentence; empty if no bound is known.

    `max_moves` is the move limit that the planner was given. A saved plan does not say it.
    """
    name = objective_figure(plan)
    if plan.bound is None or name is None or name not in plan.after:
        return ""
    if plan.objective == "pending" and not plan.before.get(_PENDING_PODS, 1):
        return ""  # nothing to place; a refusal says so
    reached, gap = f"{plan.after[name]:g} {_title(name)}", plan.after.get("gap", 0)
    limit = "within the move limit" if max_moves is None else f"with at most {counted_noun(max_moves, 'move')}"
    if not gap:
        return f"{reached}; optimal: no plan {limit} {_BETTER[plan.objective]}"
    return f"{reached}; at most {gap:g} % below the optimum: no plan {limit} reaches more than {plan.bound:g}"


def _title(name: str) -> str:
    if name.startswith(_UTILISATION):
        return f"{name.removeprefix(_UTILISATION)} requested on occupied nodes, %"
    if name.startswith(_PLACED):
        return f"{name.removeprefix(_PLACED)} for pending pods"
    return "pending pods with a place" if name == _PLACED_PODS else _NAMES.get(name, name)


def _value(name: str, figures: Measures) -> str:
    total = f" of {figures[_PENDING_PODS]:g}" if name == _PLACED_PODS and _PENDING_PODS in figures else ""
    return f"{figures[name]:g}{total}"
