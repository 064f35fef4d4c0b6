"""Problems for the search: drawn ones, and one that takes a swap."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
from hypothesis import strategies as st

from restow.planning.optimal.problem import Demand, Problem, Quota

EXAMPLES = int(os.environ.get("RESTOW_OPTIMISER_EXAMPLES", "8"))
NODES, RESOURCES = 3, 2


@st.composite
def problems(draw: st.DrawFn, *, empties: bool) -> Problem:
    sizes = np.array(draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=2)), np.int64)
    where = draw(st.lists(st.tuples(st.integers(0, len(sizes) - 1), st.integers(0, NODES - 1)), max_size=4))
    least = draw(st.sampled_from([0, -2]))  # over-committed or not
    free = np.array([[draw(st.integers(least, 5)) for _ in range(RESOURCES)] for _ in range(NODES)], np.int64)
    held = [dict(Counter(which for which, node in where if node == each)) for each in range(NODES)]
    masks = [np.array([draw(st.booleans()) or draw(st.booleans()) for _ in range(NODES)]) for _ in sizes]
    demands = [] if empties else [_demand(draw, number) for number in range(draw(st.integers(1, 2)))]
    gangs = {demand.gang: 2 for demand in demands if demand.gang is not None}
    return Problem(
        free=free,
        sizes=sizes,
        held=held,
        suits=lambda which: masks[which],
        alone=np.zeros(len(sizes), np.bool_),
        limit=draw(st.integers(0, 4)),
        stuck=np.array([draw(st.booleans()) and draw(st.booleans()) for _ in range(NODES)]),
        empties=empties,
        demands=demands,
        least=gangs,
        quotas=[] if empties else draw(st.lists(_quota(len(demands)), max_size=1)),
    )


@st.composite
def _quota(draw: st.DrawFn, demands: int) -> Quota:
    asked = {which: np.array([draw(st.integers(0, 2)), 1]) for which in range(demands) if draw(st.booleans())}
    return Quota(np.array([draw(st.integers(0, 4)), draw(st.integers(0, 3))]), asked)


def _demand(draw: st.DrawFn, number: int) -> Demand:
    return Demand(
        size=np.array([draw(st.integers(1, 5)), draw(st.integers(0, 4))], np.int64),
        suits=np.array([draw(st.booleans()) or draw(st.booleans()) for _ in range(NODES)]),
        worth=draw(st.integers(1, 3)),
        supply=draw(st.integers(1, 2)),
        gang=number if draw(st.booleans()) and draw(st.booleans()) else None,
    )


def swap() -> Problem:
    """Two nodes, each with a large and a small pod: only if a large and a small one change places is there a slot."""
    return Problem(
        free=np.array([[2], [2]]),
        sizes=np.array([[4], [2]]),
        held=[{0: 1, 1: 1}, {0: 1, 1: 1}],
        suits=lambda which: np.ones(2, np.bool_),
        alone=np.zeros(2, np.bool_),
        limit=2,
        stuck=np.zeros(2, np.bool_),
        demands=[Demand(size=np.array([4]), suits=np.ones(2, np.bool_), worth=1)],
    )
