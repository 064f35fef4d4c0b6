"""Planning ends soon after its time limit. The clock of these tests ticks whenever it is read, so that they count the
readings between the limit and the end, and do not depend on the speed of the machine."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from restow.model.cluster import Mask
from restow.model.inventory import read_inventory
from restow.planning.deadline import no_deadline
from restow.planning.optimal import pricing
from restow.planning.optimal.flow_model import FlowModel
from restow.planning.optimal.lagrangian_bound import LagrangianBound
from restow.planning.optimal.master_problem import group_nodes
from restow.planning.optimal.node_patterns import enumerate_departures
from restow.planning.optimal.packing_problem import UNCHANGED, Demand, PackingProblem, solution_value
from restow.planning.optimal.pricing import DualPrices, best_patterns
from restow.planning.optimal.search_budget import WorkLimit
from restow.planning.optimal.solver import SolverLimits
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanProgress
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from restow.running.configuration import Configuration
from restow.scheduling.registry import read_profile
from restow.sim.scenarios import Scenario, generate_snapshot
from restow.snapshots.offline import OfflineCluster, PlanOptions, offline_plan_request
from tests.planning.optimal.optimal_plans import CutShortClock, TickingClock, crowded_problem

SEEDS = int(os.environ.get("RESTOW_OPTIMISER_CLUSTERS", "4"))
OBJECTIVES = ("free-nodes", "slots", "pending")
TICK = 0.001
LOOKS_AFTERWARDS = 80
"""Enough to stop all work and to turn the solution into moves, with a reading for each of them."""


def scenario_plan(
    scenario: Scenario, clock: TickingClock, objective: str, limit: float, steps: int | None = None, **more: Any
) -> Plan:
    cluster = OfflineCluster(read_inventory(msgspec.json.encode(generate_snapshot(scenario)), "generated"))
    asked = PlanOptions(
        strategy="optimal", objective=objective, shape={"cpu": 4_000}, time_limit=limit, work_limit=steps, max_moves=10
    )
    request = replace(offline_plan_request(cluster, read_profile({}), Configuration(), asked, clock), **more)
    plan = make_plan("optimal", cluster.snapshot, request)
    assert replay_plan(cluster.snapshot, plan, request).valid
    return plan


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("limit", [0.001, 0.03, 0.3])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_plan_is_ready_soon_after_the_time_limit(seed: int, limit: float, objective: str) -> None:
    clock = TickingClock(TICK)
    scenario_plan(Scenario(seed=seed, nodes=5 + seed % 4, pods=25 + seed, pending=2), clock, objective, limit)
    assert clock.reads <= limit / TICK + LOOKS_AFTERWARDS


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 8, 12, 20, 40])
def test_plan_is_ready_soon_after_it_was_cut_short(at: int, objective: str) -> None:
    clock = CutShortClock(0.1, at, 3_600.0)
    scenario_plan(Scenario(seed=1, nodes=6, pods=26, pending=2), clock, objective, 3_600.0)
    assert clock.reads <= at + 100


@pytest.mark.parametrize("objective", ["free-nodes", "slots"])
@pytest.mark.parametrize("phase", ["patterns", "flow", "neighbourhoods"])
def test_plan_that_was_cut_short_is_the_best_so_far(phase: str, objective: str) -> None:
    clock, reported = CutShortClock(0.001, 10**9, 3_600.0), list[PlanProgress]()

    def tell(stand: PlanProgress) -> None:
        reported.append(stand)
        if stand.phase == phase:
            clock.cut_short()

    plan = scenario_plan(Scenario(seed=3, nodes=8, pods=28), clock, objective, 3_600.0, report_progress=tell)
    bests = [one.best for one in reported if one.best is not None]
    assert plan.after["slots" if objective == "slots" else "freeNodes"] >= max(bests)
    assert plan.moves


BAD = Scenario(seed=2, nodes=6, pods=30, pending=2)
"""Its pods are so small and so different that there are far too many fillings of a node to try them all."""


def test_step_limit_ends_a_search_without_a_clock() -> None:
    assert scenario_plan(BAD, TickingClock(0.0), "free-nodes", limit=4.0, steps=5).after["freeNodes"] == 2


def test_pricing_finds_patterns_within_a_small_work_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, prices = crowded_problem()
    every = best_patterns(problem, enumerate_departures(problem, 2), prices)
    monkeypatch.setattr(pricing, "_MAX_FILLING_WORK", 200)
    some = best_patterns(problem, enumerate_departures(problem, 2), prices)
    assert 0 < max(one.reduced_cost for one in some) < max(one.reduced_cost for one in every)


def test_work_limit_that_is_over_stays_over() -> None:
    work_limit = WorkLimit(10, no_deadline)
    assert [work_limit.allows(number) for number in (6, 4, 1, 0)] == [True, True, False, False]
    assert work_limit.is_over


def test_bound_holds_with_few_enumerated_departures() -> None:
    problem, prices = crowded_problem()
    bounds = [
        LagrangianBound(problem, enumerate_departures(problem, 2, is_late=late)).bound(prices)
        for late in (no_deadline, lambda: True)
    ]
    solved = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits()).solution
    assert solved is not None
    assert solution_value(problem, solved) <= bounds[0] <= bounds[1]


def test_pricing_finds_no_patterns_once_it_is_late() -> None:
    problem, prices = crowded_problem()
    assert best_patterns(problem, enumerate_departures(problem, 2), prices)
    assert best_patterns(problem, enumerate_departures(problem, 2), prices, is_late=lambda: True) == []


@pytest.mark.parametrize(("most", "late"), [(3, False), (1000, True)], ids=["too large", "too late"])
def test_flow_model_gives_up_when_too_large_or_too_late(most: int, late: bool) -> None:
    assert not FlowModel(crowded_problem()[0], UNCHANGED, range(2), most, is_late=lambda: late).is_complete


def single_pods_problem(seed: int) -> PackingProblem:
    """Pending pods that mostly are the only ones of their kind, and no movable pods."""
    rng, everywhere = np.random.default_rng(seed), np.ones(2, np.bool_)
    return PackingProblem(
        free=rng.integers(2, 12, (2, 2)),
        class_sizes=np.ones((1, 2), np.int64),
        movable_pods=[{}, {}],
        allowed_nodes=lambda which: everywhere,
        one_per_node=np.zeros(1, np.bool_),
        max_moves=0,
        cannot_empty=np.zeros(2, np.bool_),
        demands=[
            Demand(
                size=rng.integers(0, 5, 2) + np.array([1, 0]),
                allowed_nodes=everywhere,
                value=int(rng.integers(1, 5)),
                count=int(rng.integers(1, 3)),
            )
            for _ in range(5)
        ],
    )


@pytest.mark.parametrize("seed", [9, 21, 23, 267, 352])
def test_bound_of_single_pods_is_not_below_the_optimum(seed: int) -> None:
    problem = single_pods_problem(seed)
    best = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits()).solution
    assert best is not None
    share = np.random.default_rng(seed).choice([0.0, 0.5])
    prices = np.array([demand.value * share for demand in problem.demands])
    lagrangian_bound = LagrangianBound(problem, enumerate_departures(problem, 1))
    assert lagrangian_bound.bound(DualPrices(0.0, prices, np.zeros(1), np.zeros(2), 0.0)) >= solution_value(
        problem, best
    )


def test_nodes_are_grouped_only_by_classes_seen_before_the_deadline() -> None:
    problem, _ = crowded_problem()
    asked: list[int] = []
    slow = replace(
        problem,
        class_sizes=np.repeat(problem.class_sizes, 50, axis=0),
        allowed_nodes=lambda which: _recorded(asked, which),
    )
    assert group_nodes(slow, range(50), is_late=lambda: len(asked) >= 5)[0].classes == (0, 1, 2, 3, 4)
    assert asked == [0, 1, 2, 3, 4]


def _recorded(asked: list[int], which: int) -> Mask:
    asked.append(which)
    return np.ones(2, np.bool_)
