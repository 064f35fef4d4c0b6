"""Limits of budgets and workloads shape the waves of an optimal plan and drop no move."""

from __future__ import annotations

from collections import Counter

import pytest

from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import WorkloadLimit
from restow.planning.plan import Plan
from tests.planning.clusters import app, budget, cluster, reasons, ten
from tests.planning.optimal.optimal_plans import planned


def crowded_cluster(number: int = 4) -> Snapshot:
    """A node with some pods of one workload, and two nodes that have room for all of them."""
    pods = [app(f"web-{which}", "1", on="a", of="web", labels={"app": "web"}) for which in range(number)]
    others = [app(f"{name}-large", "8", on=name, of="large") for name in "bc"]
    return cluster([ten(name) for name in "abc"], [*pods, *others])


def at_once(plan: Plan) -> int:
    """How many move in the largest wave."""
    return max(Counter(move.wave for move in plan.moves).values())


@pytest.mark.parametrize(
    ("allowed", "limit", "most"),
    [
        pytest.param(None, lambda replicas, has_budget: None, 4, id="no limit"),
        pytest.param(1, lambda replicas, has_budget: None, 1, id="a budget that lets one go"),
        pytest.param(2, lambda replicas, has_budget: None, 2, id="a budget that lets two go"),
        pytest.param(None, lambda replicas, has_budget: 3, 3, id="three of a workload at once"),
        pytest.param(3, lambda replicas, has_budget: 1, 1, id="the stricter of both"),
    ],
)
def test_as_many_move_at_once_as_may(allowed: int | None, limit: WorkloadLimit, most: int) -> None:
    budgets = [] if allowed is None else [budget("web", allowed, "web")]
    plan = planned(crowded_cluster(), budgets=budgets, limit=limit)
    assert (len(plan.moves), plan.after["freeNodes"], at_once(plan)) == (4, 1, most)


def test_pods_of_a_budget_that_lets_none_go_stay_and_the_bound_knows() -> None:
    plan = planned(crowded_cluster(), budgets=[budget("web", 0, "web")])
    assert (plan.moves, plan.after["freeNodes"]) == ((), 0)
    assert "web-0" in reasons(plan)


def test_room_for_a_shape_is_gathered_within_limits() -> None:
    plan = planned(
        crowded_cluster(), objective="slots", shape={"cpu": 10_000}, budgets=[budget("web", 1, "web")], max_moves=4
    )
    assert (plan.after["slots"], plan.bound, at_once(plan)) == (1, 1, 1)
