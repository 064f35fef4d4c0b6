"""Packing problems for the search: random ones, and one that needs an exchange of pods."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
from hypothesis import strategies as st

from restow.planning.optimal.packing_problem import Demand, PackingProblem, QueueQuota

EXAMPLES = int(os.environ.get("RESTOW_OPTIMISER_EXAMPLES", "8"))
NODES, RESOURCES = 3, 2


@st.composite
def random_problems(draw: st.DrawFn, *, empties: bool) -> PackingProblem:
    sizes = np.array(draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=2)), np.int64)
    where = draw(st.lists(st.tuples(st.integers(0, len(sizes) - 1), st.integers(0, NODES - 1)), max_size=4))
    least = draw(st.sampled_from([0, -2]))  # over-committed or not
    free = np.array([[draw(st.integers(least, 5)) for _ in range(RESOURCES)] for _ in range(NODES)], np.int64)
    held = [dict(Counter(which for which, node in where if node == each)) for each in range(NODES)]
    masks = [np.array([draw(st.booleans()) or draw(st.booleans()) for _ in range(NODES)]) for _ in sizes]
    demands = [] if empties else [_demand(draw, number) for number in range(draw(st.integers(1, 2)))]
    gangs = {demand.gang: 2 for demand in demands if demand.gang is not None}
    return PackingProblem(
        free=free,
        class_sizes=sizes,
        movable_pods=held,
        allowed_nodes=lambda which: masks[which],
        one_per_node=np.zeros(len(sizes), np.bool_),
        max_moves=draw(st.integers(0, 4)),
        cannot_empty=np.array([draw(st.booleans()) and draw(st.booleans()) for _ in range(NODES)]),
        counts_empty_nodes=empties,
        demands=demands,
        gang_minimums=gangs,
        quotas=[] if empties else draw(st.lists(_quota(len(demands)), max_size=1)),
    )


@st.composite
def _quota(draw: st.DrawFn, demands: int) -> QueueQuota:
    asked = {which: np.array([draw(st.integers(0, 2)), 1]) for which in range(demands) if draw(st.booleans())}
    return QueueQuota(np.array([draw(st.integers(0, 4)), draw(st.integers(0, 3))]), asked)


def _demand(draw: st.DrawFn, number: int) -> Demand:
    return Demand(
        size=np.array([draw(st.integers(1, 5)), draw(st.integers(0, 4))], np.int64),
        allowed_nodes=np.array([draw(st.booleans()) or draw(st.booleans()) for _ in range(NODES)]),
        value=draw(st.integers(1, 3)),
        count=draw(st.integers(1, 2)),
        gang=number if draw(st.booleans()) and draw(st.booleans()) else None,
    )


def swap_problem() -> PackingProblem:
    """Two nodes, each with a large and a small pod: only if a large and a small one change places is there a slot."""
    return PackingProblem(
        free=np.array([[2], [2]]),
        class_sizes=np.array([[4], [2]]),
        movable_pods=[{0: 1, 1: 1}, {0: 1, 1: 1}],
        allowed_nodes=lambda which: np.ones(2, np.bool_),
        one_per_node=np.zeros(2, np.bool_),
        max_moves=2,
        cannot_empty=np.zeros(2, np.bool_),
        demands=[Demand(size=np.array([4]), allowed_nodes=np.ones(2, np.bool_), value=1)],
    )
