"""What room brings is counted right, and what nodes could gain is never taken for less than it is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.planning.optimal.flow import Flow
from restow.planning.optimal.market import Market
from restow.planning.optimal.openings import lines
from restow.planning.optimal.pricing import nothing_costs
from restow.planning.optimal.problem import STAY, Demand, Problem, value
from restow.planning.optimal.solver import Effort
from restow.planning.optimal.takings import table
from tests.planning.optimal.problems import EXAMPLES, problems, swap

ITEMS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=3)


@settings(max_examples=10 * EXAMPLES, deadline=None)
@given(ITEMS, st.integers(0, 12), st.integers(1, 1000))
def test_a_table_has_the_best_that_fits_and_what_it_is_made_of(
    items: list[tuple[int, int]], room: int, unit: int
) -> None:
    needs, gains = (np.array(part) for part in zip(*items, strict=True))
    allowed = np.ones((len(items), 1), np.bool_)
    made = table(needs * unit, gains.astype(np.float64), allowed, 12 * unit)
    assert made is not None
    ways = product(*(range(room // int(need) + 1) for need in needs))
    best = max(int(gains @ way) for way in map(np.array, ways) if needs @ way <= room)
    where, rooms = np.zeros(1, np.intp), np.array([room * unit])
    counts = {item: int(used[0]) for item, used in made.made_of(where, rooms)}
    assert made.at(where, rooms).tolist() == [best]
    assert sum(int(gains[item]) * used for item, used in counts.items()) == best
    assert sum(int(needs[item]) * used for item, used in counts.items()) <= room


@pytest.mark.parametrize(
    ("needs", "largest"), [([0, 3], 10), ([1, 10**9], 10**9)], ids=["something needs nothing", "too fine"]
)
def test_a_table_that_makes_no_sense_is_not_made(needs: list[int], largest: int) -> None:
    assert table(np.array(needs), np.ones(len(needs)), np.ones((len(needs), 1), np.bool_), largest) is None


def test_items_stay_where_they_are_allowed() -> None:
    made = table(np.array([2, 2]), np.array([5.0, 1.0]), np.array([[True, False], [True, True]]), 4)
    assert made is not None
    assert made.at(np.array([0, 1]), np.array([4, 4])).tolist() == [10.0, 2.0]


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False), st.integers(0, 2))
def test_openings_bring_what_they_say_and_fit(problem: Problem, together: int) -> None:
    for one in Market(problem, lines(problem, together)).openings(nothing_costs(problem)):
        room = problem.free[one.node] + problem.sizes[list(one.leavers)].sum(axis=0)
        taken = sum((problem.demands[which].size * number for which, number in one.puts), np.zeros(2, np.int64))
        assert ((taken <= room) | (taken == 0)).all()  # who asks for none goes even where there is too little
        assert one.worth == sum(problem.demands[which].worth * number for which, number in one.puts) > 0


def test_what_takes_much_of_two_resources_is_not_counted_by_one_alone() -> None:
    """A node has room for one of either kind; by cpu alone two of the one would fit, by memory alone of the other."""
    everywhere = np.ones(2, np.bool_)
    problem = Problem(
        free=np.full((2, 2), 10),
        sizes=np.ones((1, 2), np.int64),
        held=[{}, {}],
        suits=lambda which: everywhere,
        alone=np.zeros(1, np.bool_),
        limit=0,
        stuck=np.zeros(2, np.bool_),
        demands=[Demand(size=np.array(size), suits=everywhere, worth=1, supply=4) for size in ([5, 9], [9, 5])],
    )
    best = Flow(problem, STAY, range(2)).solve(Effort()).shift
    assert best is not None
    assert Market(problem, lines(problem, 0)).bound(nothing_costs(problem)) == value(problem, best) == 2


def test_a_bound_without_prices_counts_moves() -> None:
    assert Market(swap(), lines(swap(), 2)).bound(nothing_costs(swap())) == 2
