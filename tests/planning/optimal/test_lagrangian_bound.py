"""Knapsack tables are exact for one resource, and the Lagrangian bound is never below the optimum."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.planning.optimal.flow_model import FlowModel
from restow.planning.optimal.knapsack_table import build_knapsack_table
from restow.planning.optimal.lagrangian_bound import LagrangianBound
from restow.planning.optimal.node_patterns import enumerate_departures
from restow.planning.optimal.packing_problem import UNCHANGED, Demand, PackingProblem, solution_value
from restow.planning.optimal.pricing import zero_prices
from restow.planning.optimal.solver import SolverLimits
from tests.planning.optimal.packing_problems import EXAMPLES, random_problems, swap_problem

ITEMS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=3)


@settings(max_examples=10 * EXAMPLES, deadline=None)
@given(ITEMS, st.integers(0, 12), st.integers(1, 1000))
def test_knapsack_table_has_the_highest_gain_and_its_items(items: list[tuple[int, int]], room: int, unit: int) -> None:
    needs, gains = (np.array(part) for part in zip(*items, strict=True))
    allowed = np.ones((len(items), 1), np.bool_)
    made = build_knapsack_table(needs * unit, gains.astype(np.float64), allowed, 12 * unit)
    assert made is not None
    ways = product(*(range(room // int(need) + 1) for need in needs))
    best = max(int(gains @ way) for way in map(np.array, ways) if needs @ way <= room)
    where, rooms = np.zeros(1, np.intp), np.array([room * unit])
    counts = {item: int(used[0]) for item, used in made.item_counts(where, rooms)}
    assert made.best_gains(where, rooms).tolist() == [best]
    assert sum(int(gains[item]) * used for item, used in counts.items()) == best
    assert sum(int(needs[item]) * used for item, used in counts.items()) <= room


@pytest.mark.parametrize(
    ("needs", "largest"), [([0, 3], 10), ([1, 10**9], 10**9)], ids=["something needs nothing", "too fine"]
)
def test_knapsack_table_without_requests_or_with_too_many_entries_is_not_built(needs: list[int], largest: int) -> None:
    assert (
        build_knapsack_table(np.array(needs), np.ones(len(needs)), np.ones((len(needs), 1), np.bool_), largest) is None
    )


def test_knapsack_items_are_used_on_allowed_node_types_only() -> None:
    made = build_knapsack_table(np.array([2, 2]), np.array([5.0, 1.0]), np.array([[True, False], [True, True]]), 4)
    assert made is not None
    assert made.best_gains(np.array([0, 1]), np.array([4, 4])).tolist() == [10.0, 2.0]


@settings(max_examples=EXAMPLES, deadline=None)
@given(random_problems(empties=False), st.integers(0, 2))
def test_patterns_of_the_bound_fit_and_have_the_value_they_state(problem: PackingProblem, together: int) -> None:
    for one in LagrangianBound(problem, enumerate_departures(problem, together)).patterns(zero_prices(problem)):
        room = problem.free[one.node] + problem.class_sizes[list(one.departing_classes)].sum(axis=0)
        taken = sum((problem.demands[which].size * number for which, number in one.placements), np.zeros(2, np.int64))
        assert ((taken <= room) | (taken == 0)).all()  # a resource that is not requested may be over-committed
        assert one.value == sum(problem.demands[which].value * number for which, number in one.placements) > 0


def test_surrogate_constraints_count_two_resources_together() -> None:
    """A node has room for one of either kind; by cpu alone two of the one would fit, by memory alone of the other."""
    everywhere = np.ones(2, np.bool_)
    problem = PackingProblem(
        free=np.full((2, 2), 10),
        class_sizes=np.ones((1, 2), np.int64),
        movable_pods=[{}, {}],
        allowed_nodes=lambda which: everywhere,
        one_per_node=np.zeros(1, np.bool_),
        max_moves=0,
        cannot_empty=np.zeros(2, np.bool_),
        demands=[Demand(size=np.array(size), allowed_nodes=everywhere, value=1, count=4) for size in ([5, 9], [9, 5])],
    )
    best = FlowModel(problem, UNCHANGED, range(2)).solve(SolverLimits()).solution
    assert best is not None
    assert (
        LagrangianBound(problem, enumerate_departures(problem, 0)).bound(zero_prices(problem))
        == solution_value(problem, best)
        == 2
    )


def test_bound_without_prices_counts_moves() -> None:
    assert (
        LagrangianBound(swap_problem(), enumerate_departures(swap_problem(), 2)).bound(zero_prices(swap_problem())) == 2
    )
