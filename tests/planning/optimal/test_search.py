"""The search against an exhaustive one on tiny clusters: it finds the best answer, and no bound is below it."""

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
from tests.planning.optimal.packing_problems import EXAMPLES, problems, swap


def searched(problem: PackingProblem, steps: int = 40, seed: int = 0) -> SearchResult:
    return search(problem, SearchBudget(lambda: 60.0, steps), np.random.default_rng(seed))


def best_of_all(problem: PackingProblem) -> int:
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
        for puts in _ways_to_fill(problem) if not solution_defects(problem, shift) else ():
            whole = Solution(shift.pod_changes, puts)
            if not solution_defects(problem, whole):
                best = max(best, solution_value(problem, whole))
    return best


def _ways_to_fill(problem: PackingProblem) -> list[dict[tuple[int, int], int]]:
    cells = [(which, node) for which in range(len(problem.demands)) for node in range(problem.node_count)]
    ways = product(*(range(problem.demands[which].count + 1) for which, _ in cells))
    return [{cell: number for cell, number in zip(cells, way, strict=True) if number} for way in ways]


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=True))
def test_empty_nodes_are_as_many_as_can_be(problem: PackingProblem) -> None:
    found, best = searched(problem), best_of_all(problem)
    assert not solution_defects(problem, found.solution)
    assert solution_value(problem, found.solution) == best <= found.bound
    assert emptying_bound(problem, SolverLimits()) >= best


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False))
def test_waiting_pods_are_placed_as_well_as_can_be(problem: PackingProblem) -> None:
    found, best = searched(problem), best_of_all(problem)
    assert not solution_defects(problem, found.solution)
    assert solution_value(problem, found.solution) == best <= found.bound


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False), st.floats(0, 3), st.lists(st.floats(0, 3), min_size=4, max_size=4))
def test_whatever_the_prices_no_bound_is_below_the_best(
    problem: PackingProblem, move: float, rest: list[float]
) -> None:
    demands, places = np.array(rest[: len(problem.demands)]), np.array(rest[2 : 2 + problem.class_count])
    prices = DualPrices(move, demands, places, np.zeros(problem.node_count), 0.0)
    best = best_of_all(problem)
    assert all(
        LagrangianBound(problem, enumerate_departures(problem, together)).bound(prices) >= best for together in range(3)
    )
    assert volume_bound(problem) >= best


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False), st.integers(0, 3))
def test_same_problem_seed_and_steps_same_answer(problem: PackingProblem, seed: int) -> None:
    one, other = searched(problem, 6, seed), searched(problem, 6, seed)
    assert (one.solution.pod_changes, one.solution.placements, one.bound) == (
        other.solution.pod_changes,
        other.solution.placements,
        other.bound,
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=True))
def test_no_move_can_be_left_out(problem: PackingProblem) -> None:
    shift = searched(problem).solution
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
    assert solution_value(problem, searched(problem).solution) == 2


def test_amounts_are_divided_by_what_divides_them_all() -> None:
    free, (sizes,) = scale_amounts(np.array([[7000, 100]]), np.array([[2000, 0], [4000, 0]]))
    assert free.tolist() == [[3, 100]]
    assert sizes.tolist() == [[1, 0], [2, 0]]


def test_one_move_gathers_room_that_is_scattered() -> None:
    found = searched(swap())
    assert (solution_value(swap(), found.solution), found.solution.move_count, found.bound) == (1, 1, 1)


def test_a_node_that_is_over_committed_takes_nobody_before_enough_have_left() -> None:
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
    found = searched(problem)
    assert not solution_defects(problem, found.solution)
    assert (solution_value(problem, found.solution), found.solution.move_count) == (1, 2)


def test_what_is_not_asked_for_may_be_over_committed() -> None:
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
    found = searched(problem)
    assert (solution_value(problem, found.solution), found.solution.move_count, found.bound) == (2, 0, 2)


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_the_limit_of_moves_is_never_exceeded(limit: int, expected: int) -> None:
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
    found = searched(problem)
    assert (solution_value(problem, found.solution), found.solution.move_count) == (expected, expected)


def test_lines_say_up_to_how_many_leavers_none_is_left_out() -> None:
    assert enumerate_departures(swap(), 2).complete_up_to.tolist() == [2, 2]


def test_a_part_of_the_nodes_is_decided_while_the_rest_stays() -> None:
    problem = swap()
    solved = FlowModel(problem, UNCHANGED, [0]).solve(SolverLimits(seconds=5))
    assert solved.solution is not None
    assert not solved.solution.pod_changes


def test_without_any_move_there_is_still_room_to_be_taken() -> None:
    problem = replace(swap(), max_moves=0, demands=[replace(swap().demands[0], size=np.array([1]))])
    solved = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits(seconds=5))
    assert solved.solution is not None
    assert (solution_value(problem, solved.solution), solved.bound) == (4, 4)
