"""Selects the part of a large problem that the search looks at as a whole.

Goes in: a problem. Comes out: a smaller problem over the nodes with the patterns of highest gain per move, and nodes
with room for their departing pods; and the way back from its solutions to solutions of the whole problem. Problems of
ordinary size are not reduced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model.cluster import Mask, RowIndex
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.optimal.node_patterns import enumerate_departures
from restow.planning.optimal.packing_problem import (
    UNCHANGED,
    UNLIMITED,
    Demand,
    Ints,
    PackingProblem,
    Solution,
    has_room,
    quota_charge,
)
from restow.planning.optimal.pricing import best_patterns, zero_prices
from restow.planning.optimal.solution_builder import SolutionBuilder

_ORDINARY_NODES = 2000
"""Problems with no more nodes are not reduced."""
_MAX_OPENED, _MAX_TARGETS = 800, 700
_MAX_DEPARTURES = 1
"""Departing pods per node that are tried: with so many nodes, more have good patterns with one move than there are
moves."""
_SAMPLED_CLASSES = 48
"""Classes of departing pods that room is looked for."""
_MOVE_PRICE = 0.45
"""The price of a move, as a multiple of the lowest value of a demand."""


class Subproblem(msgspec.Struct, frozen=True, eq=False):
    problem: PackingProblem
    nodes: RowIndex
    """Its nodes, as indexes in the whole problem."""
    outside: Solution = UNCHANGED
    """The pending pods that are placed on the other nodes without a move."""
    is_whole_problem: bool = True

    @classmethod
    def select(
        cls, problem: PackingProblem, rng: np.random.Generator, is_late: DeadlineCheck = no_deadline
    ) -> Subproblem:
        if problem.node_count <= _ORDINARY_NODES:
            return cls(problem, np.arange(problem.node_count))
        opened = _promising_nodes(problem, is_late)
        targets = _nodes_with_room(problem, opened, rng)
        nodes = np.union1d(opened, targets)
        outside = _placed_without_moves(problem, np.setdiff1d(np.arange(problem.node_count), nodes))
        return cls(_reduced_problem(problem, nodes, outside), nodes, outside, is_whole_problem=False)

    def to_full_solution(self, solution: Solution) -> Solution:
        """A solution of the subproblem as one of the whole problem."""
        if self.is_whole_problem:
            return solution
        changes = {(index, int(self.nodes[node])): number for (index, node), number in solution.pod_changes.items()}
        placements = {(index, int(self.nodes[node])): number for (index, node), number in solution.placements.items()}
        return Solution(changes, {**self.outside.placements, **placements})


def _reduced_problem(problem: PackingProblem, nodes: RowIndex, outside: Solution) -> PackingProblem:
    """The problem over some nodes, with the demand that is not placed outside."""
    placed: Counter[int] = Counter()
    for (demand_index, _), number in outside.placements.items():
        placed[demand_index] += number
    demands = [_reduced_demand(demand, nodes, placed[index]) for index, demand in enumerate(problem.demands)]
    return replace(
        problem,
        free=problem.free[nodes],
        movable_pods=[problem.movable_pods[node] for node in nodes.tolist()],
        allowed_nodes=_allowed_among(problem, nodes),
        cannot_empty=problem.cannot_empty[nodes],
        demands=demands,
        quotas=[replace(quota, limits=quota.limits - quota_charge(quota, placed)) for quota in problem.quotas],
    )


def _reduced_demand(demand: Demand, nodes: RowIndex, placed: int) -> Demand:
    count = demand.count if demand.count >= UNLIMITED else demand.count - placed
    potential = None if demand.potential_nodes is None else demand.potential_nodes[nodes]
    return replace(demand, allowed_nodes=demand.allowed_nodes[nodes], potential_nodes=potential, count=count)


def _allowed_among(problem: PackingProblem, nodes: RowIndex) -> Callable[[int], Mask]:
    return cache(lambda class_index: problem.allowed_nodes(class_index)[nodes])


def _promising_nodes(problem: PackingProblem, is_late: DeadlineCheck) -> RowIndex:
    """The nodes that gain most per move; of equal ones those with the smallest departing pods."""
    if problem.counts_empty_nodes:
        pods = np.array([sum(counts.values()) for counts in problem.movable_pods])
        nodes = np.flatnonzero(~problem.cannot_empty & (pods > 0))
        return nodes[np.argsort(pods[nodes], kind="stable")][:_MAX_OPENED]
    lowest = min(demand.value / problem.unit for demand in problem.demands)
    prices = zero_prices(problem, _MOVE_PRICE * lowest)
    without_moves, gains, pod_sizes = (np.zeros(problem.node_count) for _ in range(3))
    scale = np.maximum(problem.class_sizes.max(axis=0, initial=0), 1)
    for priced in best_patterns(problem, enumerate_departures(problem, 0), prices, is_late=is_late):
        pattern = priced.pattern
        without_moves[pattern.node] = max(without_moves[pattern.node], pattern.value)
    departures = enumerate_departures(problem, _MAX_DEPARTURES, is_late=is_late)
    for priced in best_patterns(problem, departures, prices, is_late=is_late):
        node, departing = priced.pattern.node, list(priced.pattern.departing_classes)
        gain = (priced.pattern.value - without_moves[node]) / max(len(departing), 1)
        if departing and gain > gains[node]:
            gains[node], pod_sizes[node] = gain, (problem.class_sizes[departing] / scale).sum()
    nodes = np.flatnonzero(gains > 0)
    return nodes[np.lexsort((pod_sizes[nodes], -gains[nodes]))][:_MAX_OPENED]


def _nodes_with_room(problem: PackingProblem, opened: RowIndex, rng: np.random.Generator) -> RowIndex:
    """Other nodes that could take pods of the opened ones. If there are many, a random choice of them; a node is the
    more likely to be chosen the more classes it could take."""
    classes = sorted({class_index for node in opened.tolist() for class_index in problem.movable_pods[node]})
    taken_classes: Ints = np.zeros(problem.node_count, np.int64)
    for class_index in rng.permutation(classes)[:_SAMPLED_CLASSES].tolist():
        fits = has_room(problem.free, problem.class_sizes[class_index])
        taken_classes += fits & problem.allowed_nodes(class_index)
    taken_classes[opened] = 0
    nodes = np.flatnonzero(taken_classes)
    if len(nodes) <= _MAX_TARGETS:
        return nodes
    weights = taken_classes[nodes] / taken_classes[nodes].sum()
    return rng.choice(nodes, _MAX_TARGETS, replace=False, p=weights)


def _placed_without_moves(problem: PackingProblem, nodes: RowIndex) -> Solution:
    """The pending pods that fit on these nodes as they are."""
    builder = SolutionBuilder(problem)
    builder.closed_to_pending[:] = True
    builder.closed_to_pending[nodes] = False
    builder.place_pending_pods()
    return builder.solution
