"""The greedy solution: patterns in the order of their gain per move, each applied if all departing pods find a target.

Goes in: a problem and patterns. Comes out: a feasible solution. It is the first incumbent of the search; the other
methods improve it.
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

_PATTERNS_PER_NODE = 4
_MOVE_PRICES = (0.45, 0.95)
"""Prices of a move, in multiples of the lowest value of a demand. With a higher price the best pattern of a node has
fewer moves; with both there are patterns of either kind."""


def initial_patterns(
    problem: PackingProblem, departures: DepartureSets, is_late: DeadlineCheck = no_deadline
) -> list[NodePattern]:
    """Patterns to begin with: the best ones of each node, as if it had all pending pods for itself."""
    if problem.counts_empty_nodes:
        return emptying_patterns(problem)
    patterns: dict[NodePattern, None] = {}
    lowest = min((demand.value / problem.unit for demand in problem.demands), default=1.0)
    for price in _MOVE_PRICES:
        prices = zero_prices(problem, price * lowest)
        best = best_patterns(problem, departures, prices, _PATTERNS_PER_NODE, is_late=is_late)
        patterns.update((priced.pattern, None) for priced in best)
    return list(patterns)


def greedy_solution(
    problem: PackingProblem,
    candidates: Sequence[NodePattern],
    start: Solution = UNCHANGED,
    is_late: DeadlineCheck = no_deadline,
) -> tuple[Solution, list[NodePattern]]:
    """The solution, and the patterns that were applied until it was late."""
    builder = SolutionBuilder(problem, start)
    node_costs = opportunity_costs(problem, candidates)
    nodes = sorted({pattern.node for pattern in candidates})
    without_moves = {node: builder.value_without_departures(node) for node in nodes}
    pod_sizes = (problem.class_sizes / np.maximum(problem.class_sizes.max(axis=0, initial=0), 1)).sum(axis=1)

    def rank(pattern: NodePattern) -> tuple[float, float]:
        """The largest gain per move first, compared with the node without moves; of equal ones the smallest pods."""
        gain = pattern.value - without_moves[pattern.node]
        return -gain / max(pattern.move_count, 0.1), float(pod_sizes[list(pattern.departing_classes)].sum())

    queue = [(rank(pattern), number, pattern) for number, pattern in enumerate(candidates)]
    heapify(queue)
    applied = []
    while queue and builder.move_count < problem.max_moves and not is_late():
        _, number, best = heappop(queue)
        # Earlier patterns may have taken its pending pods. Then it is ranked again with those that are left.
        current = builder.with_current_demand(best)
        if current is best:
            if builder.apply_pattern(current, node_costs):
                applied.append(current)
        elif current.value:
            heappush(queue, (rank(current), number, current))
    builder.place_pending_pods()
    return undo_useless_moves(problem, drop_incomplete_gangs(problem, builder.solution)), applied


def opportunity_costs(problem: PackingProblem, candidates: Sequence[NodePattern]) -> Floats:
    """Per node, from 0 to 1: the best value per move of its patterns. A pod that moves to the node loses that value, so
    departing pods avoid nodes with high costs."""
    costs = np.zeros(problem.node_count)
    for pattern in candidates:
        value = pattern.value / problem.unit / max(pattern.move_count, 1)
        costs[pattern.node] = max(costs[pattern.node], value)
    return costs / max(float(costs.max(initial=0.0)), 1e-9)


def drop_incomplete_gangs(problem: PackingProblem, solution: Solution) -> Solution:
    """The solution without the placements of gangs of which too few pods are placed."""
    placed: dict[int, int] = {}
    for (demand, _), number in solution.placements.items():
        gang = problem.demands[demand].gang
        if gang is not None:
            placed[gang] = placed.get(gang, 0) + number
    incomplete = {gang for gang, number in placed.items() if number < problem.gang_minimums[gang]}
    kept = {
        cell: number for cell, number in solution.placements.items() if problem.demands[cell[0]].gang not in incomplete
    }
    return Solution(solution.pod_changes, kept)
