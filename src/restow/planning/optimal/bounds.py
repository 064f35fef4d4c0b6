"""Upper bounds on the objective, so that "no better plan exists" can be told from "the time was up".

Goes in: a problem. Comes out: a value that no solution exceeds. Each bound solves a relaxation: a problem with fewer
constraints, of which every solution of the original problem is a solution, too.

    volume_bound      all nodes are one large node with a single resource: a fractional knapsack, for each resource and
                      for each quota by itself; the lowest counts
    pod_count_bound   all pending pods have the value 1: how many can be placed at all
    emptying_bound    a node is emptied as a whole or not at all; its pods are one volume that has to fit into the free
                      volume of all other nodes, whatever their sizes; at most `max_moves` pods move

Closer bounds come from the exact model over all nodes (`flow_model`) and from prices (`lagrangian_bound`).
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
_MAX_NODES_ONE_BY_ONE = 2_000
"""On more nodes the number of pods is bounded by volume only."""


def volume_bound(problem: PackingProblem) -> float:
    """Per resource by itself: the demands with the highest value per amount, fractions allowed (Dantzig's bound)."""
    if problem.counts_empty_nodes:
        return int(np.count_nonzero(~problem.cannot_empty))
    if not problem.demands:
        return 0
    lowest = float(sum(demand.value * demand.count for demand in problem.demands))
    for left, sizes in _volumes(problem):
        value = 0.0
        for demand, size in sorted(zip(problem.demands, sizes, strict=True), key=_highest_density_first):
            number = min(demand.count, left / size if size else demand.count)
            left, value = left - number * size, value + number * demand.value
        lowest = min(lowest, value)
    return round_down_value(problem, lowest / problem.unit)


def _highest_density_first(item: tuple[Demand, int]) -> float:
    demand, size = item
    return -demand.value / max(size, 1e-9)


def _volumes(problem: PackingProblem) -> Iterator[tuple[float, list[int]]]:
    """For each resource, and each resource of a quota: how much is free, and what one pod of each demand takes."""
    for resource, free in enumerate(np.maximum(problem.free, 0).T.tolist()):
        yield float(sum(free)), [int(demand.size[resource]) for demand in problem.demands]
    for quota in problem.quotas:
        for resource, limit in enumerate(quota.limits.tolist()):
            requests = (quota.requests.get(index) for index in range(len(problem.demands)))
            yield float(limit), [0 if each is None else int(each[resource]) for each in requests]


def pod_count_bound(problem: PackingProblem) -> int:
    """How many pending pods can be placed at most, whatever their values."""
    relaxation = problem.relaxation
    equal_values = replace(relaxation, unit=1, demands=[replace(demand, value=1) for demand in relaxation.demands])
    by_volume = volume_bound(equal_values)
    if problem.node_count > _MAX_NODES_ONE_BY_ONE or not problem.demands:
        return int(by_volume)
    bound = LagrangianBound(equal_values, enumerate_departures(equal_values, 1))
    return int(min(by_volume, bound.bound(zero_prices(equal_values))))


def emptying_bound(problem: PackingProblem, limits: SolverLimits) -> float:
    """How many nodes can be empty at most: see above. The program has one binary column per node.

    An empty node contributes no free room and its pods need room elsewhere, so its requests plus its own free amount
    count against the free amounts of all nodes.
    """
    nodes = np.flatnonzero(~problem.cannot_empty)
    pods = np.array([sum(problem.movable_pods[node].values()) for node in nodes.tolist()])
    program = IntegerProgram()
    program.add_columns(1.0, np.ones(len(nodes)))
    program.add_terms(program.add_rows(problem.max_moves), np.arange(len(nodes)), pods)
    free = np.maximum(problem.free, 0)
    needed = max_free(problem, nodes) - problem.free[nodes] + free[nodes]
    for resource, total in enumerate(free.sum(axis=0, dtype=np.float64).tolist()):
        program.add_terms(program.add_rows(total), np.arange(len(nodes)), needed[:, resource])
    result = program.solve(limits)
    return UNBOUNDED if result is None or result.bound == UNBOUNDED else floor(result.bound + _TOLERANCE)
