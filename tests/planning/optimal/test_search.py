"""The search against an exhaustive one on tiny clusters: it finds the best answer, and no bound is below it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.planning.optimal.bounds import drain_bound, volume_bound
from restow.planning.optimal.budget import Budget
from restow.planning.optimal.flow import Flow
from restow.planning.optimal.market import Market
from restow.planning.optimal.openings import lines
from restow.planning.optimal.pricing import Prices
from restow.planning.optimal.problem import STAY, Demand, Problem, Shift, flaws, scaled, value
from restow.planning.optimal.search import Found, search
from restow.planning.optimal.solver import Effort
from restow.planning.optimal.trimming import pruned
from tests.planning.optimal.problems import EXAMPLES, problems, swap


def searched(problem: Problem, steps: int = 40, seed: int = 0) -> Found:
    return search(problem, Budget(lambda: 60.0, steps), np.random.default_rng(seed))


def best_of_all(problem: Problem) -> int:
    """By trying every way to put every pod somewhere, and every way to fill what is left."""
    pods = [
        (which, node) for node, held in enumerate(problem.held) for which, count in held.items() for _ in range(count)
    ]
    best = 0
    for ends in product(range(problem.nodes), repeat=len(pods)):
        net: Counter[tuple[int, int]] = Counter()
        for (which, start), end in zip(pods, ends, strict=True):
            if start != end:
                net[which, start] -= 1
                net[which, end] += 1
        shift = Shift({cell: number for cell, number in net.items() if number})
        for puts in _ways_to_fill(problem) if not flaws(problem, shift) else ():
            whole = Shift(shift.net, puts)
            if not flaws(problem, whole):
                best = max(best, value(problem, whole))
    return best


def _ways_to_fill(problem: Problem) -> list[dict[tuple[int, int], int]]:
    cells = [(which, node) for which in range(len(problem.demands)) for node in range(problem.nodes)]
    ways = product(*(range(problem.demands[which].supply + 1) for which, _ in cells))
    return [{cell: number for cell, number in zip(cells, way, strict=True) if number} for way in ways]


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=True))
def test_empty_nodes_are_as_many_as_can_be(problem: Problem) -> None:
    found, best = searched(problem), best_of_all(problem)
    assert not flaws(problem, found.shift)
    assert value(problem, found.shift) == best <= found.bound
    assert drain_bound(problem, Effort()) >= best


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False))
def test_waiting_pods_are_placed_as_well_as_can_be(problem: Problem) -> None:
    found, best = searched(problem), best_of_all(problem)
    assert not flaws(problem, found.shift)
    assert value(problem, found.shift) == best <= found.bound


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False), st.floats(0, 3), st.lists(st.floats(0, 3), min_size=4, max_size=4))
def test_whatever_the_prices_no_bound_is_below_the_best(problem: Problem, move: float, rest: list[float]) -> None:
    demands, places = np.array(rest[: len(problem.demands)]), np.array(rest[2 : 2 + problem.classes])
    prices = Prices(move, demands, places, np.zeros(problem.nodes), 0.0)
    best = best_of_all(problem)
    assert all(Market(problem, lines(problem, together)).bound(prices) >= best for together in range(3))
    assert volume_bound(problem) >= best


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=False), st.integers(0, 3))
def test_same_problem_seed_and_steps_same_answer(problem: Problem, seed: int) -> None:
    one, other = searched(problem, 6, seed), searched(problem, 6, seed)
    assert (one.shift.net, one.shift.puts, one.bound) == (other.shift.net, other.shift.puts, other.bound)


@settings(max_examples=EXAMPLES, deadline=None)
@given(problems(empties=True))
def test_no_move_can_be_left_out(problem: Problem) -> None:
    shift = searched(problem).shift
    assert pruned(problem, shift).moves == shift.moves


def test_amounts_are_divided_by_what_divides_them_all() -> None:
    free, (sizes,) = scaled(np.array([[7000, 100]]), np.array([[2000, 0], [4000, 0]]))
    assert free.tolist() == [[3, 100]]
    assert sizes.tolist() == [[1, 0], [2, 0]]


def test_one_move_gathers_room_that_is_scattered() -> None:
    found = searched(swap())
    assert (value(swap(), found.shift), found.shift.moves, found.bound) == (1, 1, 1)


def test_a_node_that_is_over_committed_takes_nobody_before_enough_have_left() -> None:
    free = np.array([[-3], [4]])
    problem = Problem(
        free=free,
        sizes=np.array([[2]]),
        held=[{0: 4}, {}],
        suits=lambda which: np.ones(2, np.bool_),
        alone=np.zeros(1, np.bool_),
        limit=4,
        stuck=np.zeros(2, np.bool_),
        demands=[Demand(size=np.array([1]), suits=np.array([True, False]), worth=1)],
    )
    found = searched(problem)
    assert not flaws(problem, found.shift)
    assert (value(problem, found.shift), found.shift.moves) == (1, 2)


def test_what_is_not_asked_for_may_be_over_committed() -> None:
    everywhere = np.ones(1, np.bool_)
    problem = Problem(
        free=np.array([[-3, 4]]),
        sizes=np.array([[2, 0]]),
        held=[{0: 4}],
        suits=lambda which: everywhere,
        alone=np.zeros(1, np.bool_),
        limit=4,
        stuck=np.zeros(1, np.bool_),
        demands=[Demand(size=np.array([0, 2]), suits=everywhere, worth=1)],
    )
    found = searched(problem)
    assert (value(problem, found.shift), found.shift.moves, found.bound) == (2, 0, 2)


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_the_limit_of_moves_is_never_exceeded(limit: int, expected: int) -> None:
    problem = Problem(
        free=np.array([[2], [2], [4]]),
        sizes=np.array([[2]]),
        held=[{0: 1}, {0: 1}, {}],
        suits=lambda which: np.array([False, False, True]),
        alone=np.zeros(1, np.bool_),
        limit=limit,
        stuck=np.zeros(3, np.bool_),
        demands=[Demand(size=np.array([4]), suits=np.array([True, True, False]), worth=1)],
    )
    found = searched(problem)
    assert (value(problem, found.shift), found.shift.moves) == (expected, expected)


def test_lines_say_up_to_how_many_leavers_none_is_left_out() -> None:
    assert lines(swap(), 2).complete.tolist() == [2, 2]


def test_a_part_of_the_nodes_is_decided_while_the_rest_stays() -> None:
    problem = swap()
    solved = Flow(problem, STAY, [0]).solve(Effort(seconds=5))
    assert solved.shift is not None
    assert not solved.shift.net


def test_without_any_move_there_is_still_room_to_be_taken() -> None:
    problem = replace(swap(), limit=0, demands=[replace(swap().demands[0], size=np.array([1]))])
    solved = Flow(problem, STAY, range(2)).solve(Effort(seconds=5))
    assert solved.shift is not None
    assert (value(problem, solved.shift), solved.bound) == (4, 4)
