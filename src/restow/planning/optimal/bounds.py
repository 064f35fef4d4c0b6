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

from restow.planning.optimal.market import Market
from restow.planning.optimal.openings import lines
from restow.planning.optimal.pricing import nothing_costs
from restow.planning.optimal.problem import Demand, Problem, all_room, rounded
from restow.planning.optimal.solver import UNBOUNDED, Effort, Program

_TOLERANCE = 1e-6
_MARKET = 2_000
"""Up to how many nodes are looked at one by one."""


def volume_bound(problem: Problem) -> float:
    """By each resource alone, the demands that bring most for it, fractions allowed."""
    if problem.empties:
        return int(np.count_nonzero(~problem.stuck))
    if not problem.demands:
        return 0
    best = float(sum(demand.worth * demand.supply for demand in problem.demands))
    for left, sizes in _limits(problem):
        worth = 0.0
        for demand, size in sorted(zip(problem.demands, sizes, strict=True), key=_worth_per_size):
            number = min(demand.supply, left / size if size else demand.supply)
            left, worth = left - number * size, worth + number * demand.worth
        best = min(best, worth)
    return rounded(problem, best / problem.unit)


def _worth_per_size(one: tuple[Demand, int]) -> float:
    return -one[0].worth / max(one[1], 1e-9)


def _limits(problem: Problem) -> Iterator[tuple[float, list[int]]]:
    """How much there is of something, and what one of each demand takes of it."""
    for resource, free in enumerate(np.maximum(problem.free, 0).T.tolist()):
        yield float(sum(free)), [int(demand.size[resource]) for demand in problem.demands]
    for quota in problem.quotas:
        for resource, most in enumerate(quota.most.tolist()):
            asked = (quota.asked.get(which) for which in range(len(problem.demands)))
            yield float(most), [0 if one is None else int(one[resource]) for one in asked]


def count_bound(problem: Problem) -> int:
    """How many waiting pods can be placed at all, whatever they are worth."""
    alike = replace(problem.relaxed, unit=1, demands=[replace(one, worth=1) for one in problem.relaxed.demands])
    if problem.nodes > _MARKET or not problem.demands:
        return int(volume_bound(alike))
    return int(min(volume_bound(alike), Market(alike, lines(alike, 1)).bound(nothing_costs(alike))))


def drain_bound(problem: Problem, effort: Effort) -> float:
    """How many nodes can be empty: see `drains` above."""
    nodes = np.flatnonzero(~problem.stuck)
    pods = np.array([sum(problem.held[node].values()) for node in nodes.tolist()])
    program = Program()
    program.add_columns(1.0, np.ones(len(nodes)))
    program.add_terms(program.add_rows(problem.limit), np.arange(len(nodes)), pods)
    free = np.maximum(problem.free, 0)
    room = all_room(problem, nodes) - problem.free[nodes] + free[nodes]
    for resource, total in enumerate(free.sum(axis=0, dtype=np.float64).tolist()):
        program.add_terms(program.add_rows(total), np.arange(len(nodes)), room[:, resource])
    answer = program.solve(effort)
    return UNBOUNDED if answer is None or answer.bound == UNBOUNDED else floor(answer.bound + _TOLERANCE)
