"""Plans without a working solver, deadlines during solver runs, and the reported progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from restow.model.snapshot import Snapshot
from restow.planning.optimal import master_problem, solver, strategy
from restow.planning.optimal.packing_problem import solution_value
from restow.planning.optimal.search import search
from restow.planning.optimal.search_budget import SearchBudget
from restow.planning.plan_request import PlanProgress
from tests.planning.clusters import app, node_of_ten, snapshot_of
from tests.planning.optimal.optimal_plans import (
    checked_plan,
    crowded_problem,
    gang_members,
    pending_pod,
    scattered_cluster,
)

NO_RESULT = "the solver returned no result: this is the greedy solution"


def swap_cluster() -> Snapshot:
    """What is best here takes a swap: greedy does not find it."""
    small = [app(f"s{number}", "2", on=name) for number, name in enumerate("ab")]
    return snapshot_of(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("c")],
        [*small, app("m", "5", on="a"), app("n", "5", on="b"), app("l", "7", on="c")],
    )


class FailingSolver:
    """A solver that breaks, or fails quietly."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def __call__(self, *_: Any) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("objective", ["free-nodes", "slots", "pending"])
@pytest.mark.parametrize("trouble", ["missing", "raises", "finds nothing"])
def test_greedy_plan_is_the_result_if_the_solver_fails(
    monkeypatch: pytest.MonkeyPatch, trouble: str, objective: str
) -> None:
    if trouble == "missing":
        monkeypatch.setattr(solver, "highspy", None)
    else:
        monkeypatch.setattr(
            solver.IntegerProgram, "_run_solver", FailingSolver(RuntimeError("boom") if trouble == "raises" else None)
        )
    asked = {"objective": objective, "shape": {"cpu": 8_000}, "pending": (app("large", "8", phase="Pending"),)}
    plan = checked_plan(swap_cluster(), **asked)
    assert NO_RESULT in [refusal.reason for refusal in plan.refusals]


def test_working_solver_is_not_reported_as_failed() -> None:
    assert NO_RESULT not in [refusal.reason for refusal in checked_plan(swap_cluster()).refusals]


def test_search_reports_phases_and_rising_objectives() -> None:
    reported: list[PlanProgress] = []
    plan = checked_plan(swap_cluster(), objective="slots", shape={"cpu": 3_000}, report_progress=reported.append)
    assert reported[0] == PlanProgress("reading")
    assert reported[-1] == PlanProgress("moves", plan.after["slots"], plan.bound)
    bests = [one.best for one in reported if one.best is not None]
    assert bests == sorted(bests)


@pytest.mark.parametrize("objective", ["free-nodes", "slots", "pending"])
def test_bound_below_the_plan_is_not_shown(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    monkeypatch.setattr(strategy, "search", lambda *a, **b: replace(search(*a, **b), bound=0.0))
    reported: list[PlanProgress] = []
    asked = {"objective": objective, "shape": {"cpu": 10_000}, "pending": (pending_pod("large", "9"),)}
    plan = checked_plan(scattered_cluster(), **asked, report_progress=reported.append)
    assert (plan.bound, "gap" in plan.after, reported[-1].bound) == (None, False, None)
    assert len(plan.moves) > 0


def long_program() -> solver.IntegerProgram:
    """A program that takes many branches."""
    program = solver.IntegerProgram()
    rng = np.random.default_rng(0)
    columns = program.add_columns(rng.integers(5, 60, 60), np.ones(60)) + np.arange(60)
    for _ in range(20):
        program.add_terms(program.add_rows(300.0), columns, rng.integers(1, 60, 60))
    return program


def test_long_solver_run_reports_progress() -> None:
    beats: list[float] = []
    answer = long_program().solve(solver.SolverLimits(max_branches=20, on_progress=lambda: beats.append(0.0)))
    assert answer is not None
    assert beats


def test_long_solver_run_stops_at_the_deadline() -> None:
    beats: list[float] = []
    late = solver.SolverLimits(
        max_branches=10_000, on_progress=lambda: beats.append(0.0), is_late=lambda: len(beats) > 5
    )
    answer = long_program().solve(late)
    assert answer is not None
    assert (answer.is_proven, len(beats) < 20) == (False, True)


def test_incumbent_is_the_result_if_no_pattern_is_promising(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_problem.MasterProblem, "_promising_patterns", lambda *_: [])
    problem, _ = crowded_problem(2)
    result = search(problem, SearchBudget(lambda: 60.0, 20), np.random.default_rng(0))
    assert 0 < solution_value(problem, result.solution) <= result.bound


def test_terms_of_the_same_row_and_column_are_summed() -> None:
    program = solver.IntegerProgram()
    column, row = program.add_columns(1.0, 10), program.add_rows(6.0)
    program.add_terms([row, row], [column, column], [1.0, 2.0])
    answer = program.solve(solver.SolverLimits(max_branches=10))
    assert answer is not None and answer.values is not None
    assert answer.values.tolist() == [2.0]


def test_gang_of_different_pods_is_placed_as_a_whole() -> None:
    members, pod_groups = gang_members(pending_pod("g1", "3"), pending_pod("g2", "2"), least=2)
    plan = checked_plan(swap_cluster(), objective="pending", pending=members, pod_groups=pod_groups)
    assert len(plan.places) == 2
