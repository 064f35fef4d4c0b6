"""Whatever the cluster, planning ends when it should. The clock is not a real one: it goes on a little whenever it is
looked at, so what is counted is how often that happens, and not how fast a machine is."""

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
from tests.planning.optimal.optimal_plans import Clock, Impatient, crowded

SEEDS = int(os.environ.get("RESTOW_OPTIMISER_CLUSTERS", "4"))
OBJECTIVES = ("free-nodes", "slots", "pending")
TICK = 0.001
LOOKS_AFTERWARDS = 80
"""Enough to drop everything and turn the answer into moves, with a look for each of them."""


def planned(
    scenario: Scenario, clock: Clock, objective: str, limit: float, steps: int | None = None, **more: Any
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
def test_soon_after_the_limit_there_is_a_plan(seed: int, limit: float, objective: str) -> None:
    clock = Clock(TICK)
    planned(Scenario(seed=seed, nodes=5 + seed % 4, pods=25 + seed, pending=2), clock, objective, limit)
    assert clock.looks <= limit / TICK + LOOKS_AFTERWARDS


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 8, 12, 20, 40])
def test_soon_after_somebody_has_waited_enough_there_is_a_plan(at: int, objective: str) -> None:
    clock = Impatient(0.1, at, 3_600.0)
    planned(Scenario(seed=1, nodes=6, pods=26, pending=2), clock, objective, 3_600.0)
    assert clock.looks <= at + 100


@pytest.mark.parametrize("objective", ["free-nodes", "slots"])
@pytest.mark.parametrize("phase", ["patterns", "flow", "neighbourhoods"])
def test_what_was_best_when_somebody_had_enough_is_what_the_plan_brings(phase: str, objective: str) -> None:
    clock, told = Impatient(0.001, 10**9, 3_600.0), list[PlanProgress]()

    def tell(stand: PlanProgress) -> None:
        told.append(stand)
        if stand.phase == phase:
            clock.enough()

    plan = planned(Scenario(seed=3, nodes=8, pods=28), clock, objective, 3_600.0, report_progress=tell)
    bests = [one.best for one in told if one.best is not None]
    assert plan.after["slots" if objective == "slots" else "freeNodes"] >= max(bests)
    assert plan.moves


BAD = Scenario(seed=2, nodes=6, pods=30, pending=2)
"""Its pods are so small beside its nodes, and so different, that there are more bundles than anybody could look at."""


def test_steps_end_on_a_clock_that_stands_still() -> None:
    assert planned(BAD, Clock(0.0), "free-nodes", limit=4.0, steps=5).after["freeNodes"] == 2


def test_there_are_openings_even_where_the_toil_is_soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, prices = crowded()
    every = best_patterns(problem, enumerate_departures(problem, 2), prices)
    monkeypatch.setattr(pricing, "_MAX_FILLING_WORK", 200)
    some = best_patterns(problem, enumerate_departures(problem, 2), prices)
    assert 0 < max(one.reduced_cost for one in some) < max(one.reduced_cost for one in every)


def test_toil_that_is_over_stays_over() -> None:
    work_limit = WorkLimit(10, no_deadline)
    assert [work_limit.allows(number) for number in (6, 4, 1, 0)] == [True, True, False, False]
    assert work_limit.is_over


def test_a_bound_holds_however_few_leavers_there_was_time_for() -> None:
    problem, prices = crowded()
    bounds = [
        LagrangianBound(problem, enumerate_departures(problem, 2, is_late=late)).bound(prices)
        for late in (no_deadline, lambda: True)
    ]
    solved = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits()).solution
    assert solved is not None
    assert solution_value(problem, solved) <= bounds[0] <= bounds[1]


def test_openings_are_found_as_far_as_the_toil_goes() -> None:
    problem, prices = crowded()
    assert best_patterns(problem, enumerate_departures(problem, 2), prices)
    assert best_patterns(problem, enumerate_departures(problem, 2), prices, is_late=lambda: True) == []


@pytest.mark.parametrize(("most", "late"), [(3, False), (1000, True)], ids=["too large", "too late"])
def test_a_program_is_put_together_only_as_far_as_makes_sense(most: int, late: bool) -> None:
    assert not FlowModel(crowded()[0], UNCHANGED, range(2), most, is_late=lambda: late).is_complete


def single_pods(seed: int) -> PackingProblem:
    """Waiting pods that mostly are the only ones of their kind, and nobody who could leave."""
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
def test_no_bound_is_below_what_single_pods_are_worth(seed: int) -> None:
    problem = single_pods(seed)
    best = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits()).solution
    assert best is not None
    share = np.random.default_rng(seed).choice([0.0, 0.5])
    prices = np.array([demand.value * share for demand in problem.demands])
    lagrangian_bound = LagrangianBound(problem, enumerate_departures(problem, 1))
    assert lagrangian_bound.bound(DualPrices(0.0, prices, np.zeros(1), np.zeros(2), 0.0)) >= solution_value(
        problem, best
    )


def test_nodes_are_asked_whom_they_could_take_only_until_it_is_late() -> None:
    problem, _ = crowded()
    asked: list[int] = []
    slow = replace(
        problem,
        class_sizes=np.repeat(problem.class_sizes, 50, axis=0),
        allowed_nodes=lambda which: _noted(asked, which),
    )
    assert group_nodes(slow, range(50), is_late=lambda: len(asked) >= 5)[0].classes == (0, 1, 2, 3, 4)
    assert asked == [0, 1, 2, 3, 4]


def _noted(asked: list[int], which: int) -> Mask:
    asked.append(which)
    return np.ones(2, np.bool_)
