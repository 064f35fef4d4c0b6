"""The greedy answer: openings in the order of what they bring per move, each made if its leavers find a place.

Everything else starts from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.optimal.move_reduction import undo_useless_moves
from restow.planning.optimal.node_patterns import DepartureSets, NodePattern, emptying_patterns
from restow.planning.optimal.packing_problem import UNCHANGED, PackingProblem, Solution
from restow.planning.optimal.pricing import Floats, best_patterns, zero_prices
from restow.planning.optimal.solution_builder import SolutionBuilder

_PER_NODE = 4
_PRICES = (0.45, 0.95)
"""Of a move, in units of the least worth: the more it costs, the fewer moves the best opening of a node has."""


def initial_patterns(
    problem: PackingProblem, some: DepartureSets, late: DeadlineCheck = no_deadline
) -> list[NodePattern]:
    """Openings to begin with: what is best for each node if nobody else wanted anything."""
    if problem.counts_empty_nodes:
        return emptying_patterns(problem)
    found: dict[NodePattern, None] = {}
    least = min((demand.value / problem.unit for demand in problem.demands), default=1.0)
    for price in _PRICES:
        prices = zero_prices(problem, price * least)
        found.update((one.pattern, None) for one in best_patterns(problem, some, prices, _PER_NODE, is_late=late))
    return list(found)


def greedy_solution(
    problem: PackingProblem,
    candidates: Sequence[NodePattern],
    start: Solution = UNCHANGED,
    is_late: DeadlineCheck = no_deadline,
) -> tuple[Solution, list[NodePattern]]:
    """The answer, and the openings it made until it was late. Whoever finds that the pods it waited for are gone queues
    up again."""
    stage = SolutionBuilder(problem, start)
    dear = opportunity_costs(problem, candidates)
    as_is = {node: stage.value_without_departures(node) for node in sorted({one.node for one in candidates})}
    large = (problem.class_sizes / np.maximum(problem.class_sizes.max(axis=0, initial=0), 1)).sum(axis=1)

    def rank(one: NodePattern) -> tuple[float, float]:
        """First what brings most per move, beyond what there is without any; of the same, where small pods leave."""
        return (as_is[one.node] - one.value) / max(one.move_count, 0.1), float(large[list(one.departures)].sum())

    queue = [(rank(one), number, one) for number, one in enumerate(candidates)]
    heapify(queue)
    made = []
    while queue and stage.move_count < problem.max_moves and not is_late():
        _, number, promised = heappop(queue)
        one = stage.with_current_demand(promised)
        if one is promised:
            if stage.apply_pattern(one, dear):
                made.append(one)
        elif one.value:
            heappush(queue, (rank(one), number, one))
    stage.place_pending_pods()
    return undo_useless_moves(problem, drop_incomplete_gangs(problem, stage.solution)), made


def opportunity_costs(problem: PackingProblem, candidates: Sequence[NodePattern]) -> Floats:
    """Per node what opening it brings per move at best: leavers of others had better not go there."""
    dear = np.zeros(problem.node_count)
    for one in candidates:
        dear[one.node] = max(dear[one.node], one.value / problem.unit / max(one.move_count, 1))
    return dear / max(float(dear.max(initial=0.0)), 1e-9)


def drop_incomplete_gangs(problem: PackingProblem, shift: Solution) -> Solution:
    """The answer without gangs of which too few are placed."""
    placed: dict[int, int] = {}
    for (which, _), number in shift.placements.items():
        gang = problem.demands[which].gang
        if gang is not None:
            placed[gang] = placed.get(gang, 0) + number
    short = {gang for gang, number in placed.items() if number < problem.gang_minimums[gang]}
    kept = {cell: number for cell, number in shift.placements.items() if problem.demands[cell[0]].gang not in short}
    return Solution(shift.pod_changes, kept)
