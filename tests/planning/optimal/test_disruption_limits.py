"""Limits of budgets and workloads shape the waves of an optimal plan and drop no move."""

from __future__ import annotations

from collections import Counter

import pytest

from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import WorkloadLimit
from restow.planning.plan import Plan
from tests.planning.clusters import app, budget, node_of_ten, refusal_reasons, snapshot_of
from tests.planning.optimal.optimal_plans import checked_plan


def crowded_cluster(number: int = 4) -> Snapshot:
    """A node with some pods of one workload, and two nodes that have room for all of them."""
    pods = [app(f"web-{which}", "1", on="a", of="web", labels={"app": "web"}) for which in range(number)]
    others = [app(f"{name}-large", "8", on=name, of="large") for name in "bc"]
    return snapshot_of([node_of_ten(name) for name in "abc"], [*pods, *others])


def largest_wave(plan: Plan) -> int:
    """How many move in the largest wave."""
    return max(Counter(move.wave for move in plan.moves).values())


@pytest.mark.parametrize(
    ("allowed", "limit", "most"),
    [
        pytest.param(None, lambda replicas, has_budget: None, 4, id="no limit"),
        pytest.param(1, lambda replicas, has_budget: None, 1, id="budget that allows one"),
        pytest.param(2, lambda replicas, has_budget: None, 2, id="budget that allows two"),
        pytest.param(None, lambda replicas, has_budget: 3, 3, id="workload limit of three"),
        pytest.param(3, lambda replicas, has_budget: 1, 1, id="stricter of budget and workload limit"),
    ],
)
def test_largest_wave_has_as_many_pods_as_the_limits_allow(
    allowed: int | None, limit: WorkloadLimit, most: int
) -> None:
    budgets = [] if allowed is None else [budget("web", allowed, "web")]
    plan = checked_plan(crowded_cluster(), budgets=budgets, limit=limit)
    assert (len(plan.moves), plan.after["freeNodes"], largest_wave(plan)) == (4, 1, most)


def test_pods_of_an_exhausted_budget_stay_and_lower_the_bound() -> None:
    plan = checked_plan(crowded_cluster(), budgets=[budget("web", 0, "web")])
    assert (plan.moves, plan.after["freeNodes"]) == ((), 0)
    assert "web-0" in refusal_reasons(plan)


def test_slots_are_gathered_within_disruption_limits() -> None:
    plan = checked_plan(
        crowded_cluster(), objective="slots", shape={"cpu": 10_000}, budgets=[budget("web", 1, "web")], max_moves=4
    )
    assert (plan.after["slots"], plan.bound, largest_wave(plan)) == (1, 1, 1)
