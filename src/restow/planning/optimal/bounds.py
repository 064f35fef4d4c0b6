"""Bounds: what no plan exceeds, so that "no better plan exists" can be told from "ran out of time".

Goes in: a problem. Comes out: a worth that no answer exceeds.

    volume    everything placed fits into everything that is free, resource by resource
    drains    as many nodes as the limit of moves empties, the fewest pods first, while all of their pods fit elsewhere

The closest bounds come from the exact models, and from prices: see `flow` and `market`.
"""

from __future__ import annotations

from math import floor

import numpy as np

from restow.planning.optimal.problem import Problem, all_room, rounded
from restow.planning.optimal.solver import UNBOUNDED, Effort, Program

_TOLERANCE = 1e-6


def volume_bound(problem: Problem) -> float:
    """By each resource alone, the demands that bring most for it, fractions allowed."""
    if problem.empties:
        return int(np.count_nonzero(~problem.stuck))
    free, best = np.maximum(problem.free, 0).sum(axis=0), UNBOUNDED
    total = sum(demand.worth * demand.supply for demand in problem.demands)
    for resource in range(problem.free.shape[1]):
        left, worth = float(free[resource]), 0.0
        for demand in sorted(problem.demands, key=lambda one: -one.worth / max(int(one.size[resource]), 1e-9)):
            size = int(demand.size[resource])
            number = min(demand.supply, left / size if size else demand.supply)
            left, worth = left - number * size, worth + number * demand.worth
        best = min(best, worth)
    return rounded(problem, min(best, total) / problem.unit) if problem.demands else 0


def drain_bound(problem: Problem, effort: Effort) -> float:
    """How many nodes can be empty: see `drains` above."""
    nodes = np.flatnonzero(~problem.stuck)
    pods = np.array([sum(problem.held[node].values()) for node in nodes.tolist()])
    program = Program()
    program.add_columns(1.0, np.ones(len(nodes)))
    program.add_terms(program.add_rows(problem.limit), np.arange(len(nodes)), pods)
    free = np.maximum(problem.free, 0)
    room = all_room(problem, nodes) - problem.free[nodes] + free[nodes]
    for resource, total in enumerate(free.sum(axis=0).tolist()):
        program.add_terms(program.add_rows(total), np.arange(len(nodes)), room[:, resource])
    answer = program.solve(effort)
    return UNBOUNDED if answer is None or answer.bound == UNBOUNDED else floor(answer.bound + _TOLERANCE)
