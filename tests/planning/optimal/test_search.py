"""The search compared with full enumeration on tiny clusters: it finds the optimum, and no bound is below it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.planning.optimal.bounds import emptying_bound, volume_bound
from restow.planning.optimal.flow_model import FlowModel
from restow.planning.optimal.lagrangian_bound import LagrangianBound
from restow.planning.optimal.move_reduction import undo_useless_moves
from restow.planning.optimal.node_patterns import enumerate_departures
from restow.planning.optimal.packing_problem import (
    UNCHANGED,
    Demand,
    PackingProblem,
    Solution,
    scale_amounts,
    solution_defects,
    solution_value,
)
from restow.planning.optimal.pricing import DualPrices
from restow.planning.optimal.search import SearchResult, search
from restow.planning.optimal.search_budget import SearchBudget
from restow.planning.optimal.solver import SolverLimits
from tests.planning.optimal.packing_problems import EXAMPLES, random_problems, swap_problem


def search_result(problem: PackingProblem, steps: int = 40, seed: int = 0) -> SearchResult:
    return search(problem, SearchBudget(lambda: 60.0, steps), np.random.default_rng(seed))


def optimum_by_enumeration(problem: PackingProblem) -> int:
    """By trying every way to put every pod somewhere, and every way to fill what is left."""
    pods = [
        (which, node)
        for node, held in enumerate(problem.movable_pods)
        for which, count in held.items()
        for _ in range(count)
    ]
    best = 0
    for ends in product(range(problem.node_count), repeat=len(pods)):
        net: Counter[tuple[int, int]] = Counter()
        for (which, start), end in zip(pods, ends, strict=True):
            if start != end:
                net[which, start] -= 1
                net[which, end] += 1
        shift = Solution({cell: number for cell, number in net.items() if number})
        for puts in _possible_placements(problem) if not solution_defects(problem, shift) else ():
            whole = Solution(shift.pod_changes, puts)
            if not solution_defects(problem, whole):
                best = max(best, solution_value(problem, whole))
    return best


def _possible_placements(problem: PackingProblem) -> list[dict[tuple[int, int], int]]:
    cells = [(which, node) for which in range(len(problem.demands)) for node in range(problem.node_count)]
    ways = product(*(range(problem.demands[which].count + 1) for which, _ in cells))
    return [{cell: number for cell, number in zip(cells, way, strict=True) if number} for way in ways]


@settings(max_examples=EXAMPLES, deadline=None)
@given(random_problems(empties=True))
def test_search_empties_as_many_nodes_as_possible(problem: PackingProblem) -> None:
    found, best = search_result(problem), optimum_by_enumeration(problem)
    assert not solution_defects(problem, found.solution)
    assert solution_value(problem, found.solution) == best <= found.bound
    assert emptying_bound(problem, SolverLimits()) >= best


@settings(max_examples=EXAMPLES, deadline=None)
@given(random_problems(empties=False))
def test_search_places_the_highest_possible_value(problem: PackingProblem) -> None:
    found, best = search_result(problem), optimum_by_enumeration(problem)
    assert not solution_defects(problem, found.solution)
    assert solution_value(problem, found.solution) == best <= found.bound


@settings(max_examples=EXAMPLES, deadline=None)
@given(random_problems(empties=False), st.floats(0, 3), st.lists(st.floats(0, 3), min_size=4, max_size=4))
def test_no_bound_is_below_the_optimum_at_any_prices(problem: PackingProblem, move: float, rest: list[float]) -> None:
    demands, places = np.array(rest[: len(problem.demands)]), np.array(rest[2 : 2 + problem.class_count])
    prices = DualPrices(move, demands, places, np.zeros(problem.node_count), 0.0)
    best = optimum_by_enumeration(problem)
    assert all(
        LagrangianBound(problem, enumerate_departures(problem, together)).bound(prices) >= best for together in range(3)
    )
    assert volume_bound(problem) >= best


@settings(max_examples=EXAMPLES, deadline=None)
@given(random_problems(empties=False), st.integers(0, 3))
def test_same_problem_seed_and_steps_give_the_same_solution(problem: PackingProblem, seed: int) -> None:
    one, other = search_result(problem, 6, seed), search_result(problem, 6, seed)
    assert (one.solution.pod_changes, one.solution.placements, one.bound) == (
        other.solution.pod_changes,
        other.solution.placements,
        other.bound,
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(random_problems(empties=True))
def test_solution_has_no_useless_moves(problem: PackingProblem) -> None:
    shift = search_result(problem).solution
    assert undo_useless_moves(problem, shift).move_count == shift.move_count


def test_target_on_a_node_over_committed_in_another_resource_is_found_without_warnings() -> None:
    """Node 0 has twice its largest free amount too little of a resource that the pod does not request."""
    everywhere = np.ones(3, np.bool_)
    problem = PackingProblem(
        free=np.array([[1, -1], [0, 0], [0, 0]]),
        class_sizes=np.array([[1, 0]]),
        movable_pods=[{0: 1}, {0: 1}, {}],
        allowed_nodes=lambda class_index: everywhere,
        one_per_node=np.zeros(1, np.bool_),
        max_moves=1,
        cannot_empty=np.zeros(3, np.bool_),
        counts_empty_nodes=True,
    )
    assert solution_value(problem, search_result(problem).solution) == 2


def test_amounts_are_divided_by_their_greatest_common_divisor() -> None:
    free, (sizes,) = scale_amounts(np.array([[7000, 100]]), np.array([[2000, 0], [4000, 0]]))
    assert free.tolist() == [[3, 100]]
    assert sizes.tolist() == [[1, 0], [2, 0]]


def test_search_gathers_room_by_one_move_instead_of_a_swap() -> None:
    result = search_result(swap_problem())
    assert (solution_value(swap_problem(), result.solution), result.solution.move_count, result.bound) == (1, 1, 1)


def test_over_committed_node_takes_no_pod_before_enough_have_left() -> None:
    free = np.array([[-3], [4]])
    problem = PackingProblem(
        free=free,
        class_sizes=np.array([[2]]),
        movable_pods=[{0: 4}, {}],
        allowed_nodes=lambda which: np.ones(2, np.bool_),
        one_per_node=np.zeros(1, np.bool_),
        max_moves=4,
        cannot_empty=np.zeros(2, np.bool_),
        demands=[Demand(size=np.array([1]), allowed_nodes=np.array([True, False]), value=1)],
    )
    result = search_result(problem)
    assert not solution_defects(problem, result.solution)
    assert (solution_value(problem, result.solution), result.solution.move_count) == (1, 2)


def test_resource_that_is_not_requested_may_be_over_committed() -> None:
    everywhere = np.ones(1, np.bool_)
    problem = PackingProblem(
        free=np.array([[-3, 4]]),
        class_sizes=np.array([[2, 0]]),
        movable_pods=[{0: 4}],
        allowed_nodes=lambda which: everywhere,
        one_per_node=np.zeros(1, np.bool_),
        max_moves=4,
        cannot_empty=np.zeros(1, np.bool_),
        demands=[Demand(size=np.array([0, 2]), allowed_nodes=everywhere, value=1)],
    )
    result = search_result(problem)
    assert (solution_value(problem, result.solution), result.solution.move_count, result.bound) == (2, 0, 2)


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_limit_of_moves_is_never_exceeded(limit: int, expected: int) -> None:
    problem = PackingProblem(
        free=np.array([[2], [2], [4]]),
        class_sizes=np.array([[2]]),
        movable_pods=[{0: 1}, {0: 1}, {}],
        allowed_nodes=lambda which: np.array([False, False, True]),
        one_per_node=np.zeros(1, np.bool_),
        max_moves=limit,
        cannot_empty=np.zeros(3, np.bool_),
        demands=[Demand(size=np.array([4]), allowed_nodes=np.array([True, True, False]), value=1)],
    )
    result = search_result(problem)
    assert (solution_value(problem, result.solution), result.solution.move_count) == (expected, expected)


def test_departure_sets_tell_up_to_which_number_they_are_complete() -> None:
    assert enumerate_departures(swap_problem(), 2).complete_up_to.tolist() == [2, 2]


def test_flow_model_over_some_nodes_leaves_the_others_as_they_are() -> None:
    problem = swap_problem()
    solved = FlowModel(problem, UNCHANGED, [0]).solve(SolverLimits(seconds=5))
    assert solved.solution is not None
    assert not solved.solution.pod_changes


def test_flow_model_places_pods_without_any_move() -> None:
    problem = replace(swap_problem(), max_moves=0, demands=[replace(swap_problem().demands[0], size=np.array([1]))])
    solved = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits(seconds=5))
    assert solved.solution is not None
    assert (solution_value(problem, solved.solution), solved.bound) == (4, 4)
