"""Bounds: what no plan exceeds, so that "no better plan exists" can be told from "ran out of time".

Goes in: a problem. Comes out: a worth that no answer exceeds.

    volume    everything placed fits into everything that is free, and into what its queue may take, one by one
    count     as many pods as could be placed if all were worth the same
    drains    as many nodes as the limit of moves empties, the fewest pods first, while all of their pods fit elsewhere

The closest bounds come from the exact models, and from prices: see `flow` and `market`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

import numpy as np
from msgspec.structs import replace

from restow.planning.optimal.lagrangian_bound import LagrangianBound
from restow.planning.optimal.node_patterns import enumerate_departures
from restow.planning.optimal.packing_problem import Demand, PackingProblem, max_free, round_down_value
from restow.planning.optimal.pricing import zero_prices
from restow.planning.optimal.solver import UNBOUNDED, IntegerProgram, SolverLimits

_TOLERANCE = 1e-6
_MARKET = 2_000
"""Up to how many nodes are looked at one by one."""


def volume_bound(problem: PackingProblem) -> float:
    """By each resource alone, the demands that bring most for it, fractions allowed."""
    if problem.counts_empty_nodes:
        return int(np.count_nonzero(~problem.cannot_empty))
    if not problem.demands:
        return 0
    best = float(sum(demand.value * demand.count for demand in problem.demands))
    for left, sizes in _limits(problem):
        worth = 0.0
        for demand, size in sorted(zip(problem.demands, sizes, strict=True), key=_worth_per_size):
            number = min(demand.count, left / size if size else demand.count)
            left, worth = left - number * size, worth + number * demand.value
        best = min(best, worth)
    return round_down_value(problem, best / problem.unit)


def _worth_per_size(one: tuple[Demand, int]) -> float:
    return -one[0].value / max(one[1], 1e-9)


def _limits(problem: PackingProblem) -> Iterator[tuple[float, list[int]]]:
    """How much there is of something, and what one of each demand takes of it."""
    for resource, free in enumerate(np.maximum(problem.free, 0).T.tolist()):
        yield float(sum(free)), [int(demand.size[resource]) for demand in problem.demands]
    for quota in problem.quotas:
        for resource, most in enumerate(quota.limits.tolist()):
            asked = (quota.requests.get(which) for which in range(len(problem.demands)))
            yield float(most), [0 if one is None else int(one[resource]) for one in asked]


def pod_count_bound(problem: PackingProblem) -> int:
    """How many waiting pods can be placed at all, whatever they are worth."""
    alike = replace(problem.relaxation, unit=1, demands=[replace(one, value=1) for one in problem.relaxation.demands])
    if problem.node_count > _MARKET or not problem.demands:
        return int(volume_bound(alike))
    return int(
        min(volume_bound(alike), LagrangianBound(alike, enumerate_departures(alike, 1)).bound(zero_prices(alike)))
    )


def emptying_bound(problem: PackingProblem, effort: SolverLimits) -> float:
    """How many nodes can be empty: see `drains` above."""
    nodes = np.flatnonzero(~problem.cannot_empty)
    pods = np.array([sum(problem.movable_pods[node].values()) for node in nodes.tolist()])
    program = IntegerProgram()
    program.add_columns(1.0, np.ones(len(nodes)))
    program.add_terms(program.add_rows(problem.max_moves), np.arange(len(nodes)), pods)
    free = np.maximum(problem.free, 0)
    room = max_free(problem, nodes) - problem.free[nodes] + free[nodes]
    for resource, total in enumerate(free.sum(axis=0, dtype=np.float64).tolist()):
        program.add_terms(program.add_rows(total), np.arange(len(nodes)), room[:, resource])
    answer = program.solve(effort)
    return UNBOUNDED if answer is None or answer.bound == UNBOUNDED else floor(answer.bound + _TOLERANCE)
