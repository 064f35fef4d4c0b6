"""The search for the cheapest cover, against trying everything."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.queues.min_cost_cover import find_cover
from tests.narrowing import present


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    items, dimensions = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    costs = draw(st.lists(st.integers(1, 20), min_size=items, max_size=items))
    line = st.lists(st.integers(0, 6), min_size=items, max_size=items)
    gives = draw(st.lists(line, min_size=dimensions, max_size=dimensions))
    needs = draw(st.lists(st.integers(1, 15), min_size=dimensions, max_size=dimensions))
    return np.array(costs), np.array(gives), np.array(needs), draw(st.integers(1, items))


def cheapest(costs: np.ndarray, gives: np.ndarray, needs: np.ndarray, most: int) -> int | None:
    """By trying every combination."""
    covers = (
        chosen
        for number in range(1, most + 1)
        for chosen in combinations(range(len(costs)), number)
        if (gives[:, chosen].sum(axis=1) >= needs).all()
    )
    return min((int(costs[list(chosen)].sum()) for chosen in covers), default=None)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_small_cover_is_the_cheapest_and_proven(problem: tuple[np.ndarray, np.ndarray, np.ndarray, int]) -> None:
    costs, gives, needs, most = problem
    found, least = find_cover(costs, gives, needs, max_items=most, effort=20_000), cheapest(costs, gives, needs, most)
    assert (found.cost, found.bound, found.gap) == (least, least, 0) if found else least is None


@settings(max_examples=40, deadline=None)
@given(problems())
def test_cheapest_cover_is_between_bound_and_cost_without_effort(problem: tuple[np.ndarray, ...]) -> None:
    costs, gives, needs, _ = problem
    found, least = (
        find_cover(costs, gives, needs, max_items=len(costs), effort=0),
        cheapest(costs, gives, needs, len(costs)),
    )
    assert found.bound <= present(least) <= found.cost if found else least is None


@settings(max_examples=25, deadline=None)
@given(problems())
def test_cover_takes_the_first_of_equal_items(problem: tuple[np.ndarray, ...]) -> None:
    costs, gives, needs, _ = problem
    twice, both = np.tile(costs, 2), np.tile(gives, 2)
    found = find_cover(twice, both, needs, max_items=len(twice), effort=20_000)
    taken = set(found.items) if found else set()
    assert all(item - len(costs) in taken for item in taken if item >= len(costs))


def many(kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """A thousand items of some kinds; with as many kinds as items, no two are alike."""
    random = np.random.default_rng(kinds)
    sizes, idle = random.choice([16, 32, 64], kinds) * 1000, random.random((2, kinds))
    gives = np.tile((np.vstack([sizes, 4 * sizes]) * idle).astype(np.int64), 1000 // kinds)
    return np.tile(sizes, 1000 // kinds) * 10 - gives.sum(axis=0), gives


@pytest.mark.parametrize(
    ("kinds", "part", "gap"),
    [
        pytest.param(1, 0.3, 0.0, id="all alike: proven"),
        pytest.param(5, 0.01, 0.0, id="five kinds: proven"),
        pytest.param(1000, 0.1, 0.01, id="no two alike, many chosen: within one percent"),
        pytest.param(1000, 0.01, 0.15, id="no two alike, few chosen: within one item"),
    ],
)
def test_gap_of_large_covers_is_small(kinds: int, part: float, gap: float) -> None:
    costs, gives = many(kinds)
    found = find_cover(costs, gives, (gives.sum(axis=1) * part).astype(np.int64), max_items=999, effort=2_000)
    assert found is not None
    assert found.gap <= gap


def test_cover_is_never_worse_than_the_known_one() -> None:
    costs, gives = many(1000)
    needs = (gives.sum(axis=1) * 0.01).astype(np.int64)
    best = find_cover(costs, gives, needs, max_items=999, effort=20_000)
    assert best is not None
    again = find_cover(costs, gives, needs, max_items=999, effort=0, known_cover=np.array(best.items))
    assert again is not None
    assert again.cost <= best.cost
