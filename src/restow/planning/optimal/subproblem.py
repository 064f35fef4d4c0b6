"""Focus: the part of a large problem that is worth looking at as a whole.

Goes in: a problem. Comes out: a smaller one over the nodes that gain most per move when they are opened, and nodes with
room for their leavers; and the way back from its answers. Problems of ordinary size are looked at in full.
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

_ORDINARY = 2000
_OPENED, _TAKEN = 800, 700
_TOGETHER = 1
"""Leavers of one node that are tried in all combinations: so many nodes have better ones than the limit of moves."""
_SAMPLE = 48
"""Classes of leavers that nodes are asked for room for."""


class Subproblem(msgspec.Struct, frozen=True, eq=False):
    problem: PackingProblem
    """The part."""
    nodes: RowIndex
    """Its nodes, as numbered in the whole."""
    outside: Solution = UNCHANGED
    """What is placed on all other nodes, without a move."""
    is_whole_problem: bool = True

    @classmethod
    def select(cls, problem: PackingProblem, rng: np.random.Generator, late: DeadlineCheck = no_deadline) -> Subproblem:
        if problem.node_count <= _ORDINARY:
            return cls(problem, np.arange(problem.node_count))
        opened = _promising(problem, late)
        taken = _roomy(problem, opened, rng)
        nodes = np.union1d(opened, taken)
        rest = _filled(problem, np.setdiff1d(np.arange(problem.node_count), nodes))
        return cls(_part(problem, nodes, rest), nodes, rest, is_whole_problem=False)

    def to_full_solution(self, shift: Solution) -> Solution:
        """An answer of the part as one of the whole."""
        if self.is_whole_problem:
            return shift
        net = {(which, int(self.nodes[node])): number for (which, node), number in shift.pod_changes.items()}
        puts = {(which, int(self.nodes[node])): number for (which, node), number in shift.placements.items()}
        return Solution(net, {**self.outside.placements, **puts})


def _part(problem: PackingProblem, nodes: RowIndex, rest: Solution) -> PackingProblem:
    placed: Counter[int] = Counter()
    for (which, _), number in rest.placements.items():
        placed[which] += number
    demands = [_left(demand, nodes, placed[which]) for which, demand in enumerate(problem.demands)]
    return replace(
        problem,
        free=problem.free[nodes],
        movable_pods=[problem.movable_pods[node] for node in nodes.tolist()],
        allowed_nodes=_suits_of(problem, nodes),
        cannot_empty=problem.cannot_empty[nodes],
        demands=demands,
        quotas=[replace(quota, limits=quota.limits - quota_charge(quota, placed)) for quota in problem.quotas],
    )


def _left(demand: Demand, nodes: RowIndex, placed: int) -> Demand:
    supply = demand.count if demand.count >= UNLIMITED else demand.count - placed
    could = None if demand.potential_nodes is None else demand.potential_nodes[nodes]
    return replace(demand, allowed_nodes=demand.allowed_nodes[nodes], potential_nodes=could, count=supply)


def _suits_of(problem: PackingProblem, nodes: RowIndex) -> Callable[[int], Mask]:
    return cache(lambda which: problem.allowed_nodes(which)[nodes])


def _promising(problem: PackingProblem, late: DeadlineCheck) -> RowIndex:
    """The nodes that bring most per move; of those that bring the same, where smaller pods have to leave."""
    if problem.counts_empty_nodes:
        pods = np.array([sum(held.values()) for held in problem.movable_pods])
        nodes = np.flatnonzero(~problem.cannot_empty & (pods > 0))
        return nodes[np.argsort(pods[nodes], kind="stable")][:_OPENED]
    least = min(demand.value / problem.unit for demand in problem.demands)
    free = zero_prices(problem, 0.45 * least)
    as_is, gains, large = (np.zeros(problem.node_count) for _ in range(3))
    scale = np.maximum(problem.class_sizes.max(axis=0, initial=0), 1)
    for one in best_patterns(problem, enumerate_departures(problem, 0), free, is_late=late):
        as_is[one.pattern.node] = max(as_is[one.pattern.node], one.pattern.value)
    for one in best_patterns(problem, enumerate_departures(problem, _TOGETHER, is_late=late), free, is_late=late):
        node, leavers = one.pattern.node, list(one.pattern.departing_classes)
        gain = (one.pattern.value - as_is[node]) / max(len(leavers), 1)
        if leavers and gain > gains[node]:
            gains[node], large[node] = gain, (problem.class_sizes[leavers] / scale).sum()
    nodes = np.flatnonzero(gains > 0)
    return nodes[np.lexsort((large[nodes], -gains[nodes]))][:_OPENED]


def _roomy(problem: PackingProblem, opened: RowIndex, rng: np.random.Generator) -> RowIndex:
    """Nodes that could take some of the pods on the opened ones; those that could take more of them rather."""
    classes = sorted({which for node in opened.tolist() for which in problem.movable_pods[node]})
    able: Ints = np.zeros(problem.node_count, np.int64)
    for which in rng.permutation(classes)[:_SAMPLE].tolist():
        able += has_room(problem.free, problem.class_sizes[which]) & problem.allowed_nodes(which)
    able[opened] = 0
    nodes = np.flatnonzero(able)
    if len(nodes) <= _TAKEN:
        return nodes
    weights = able[nodes] / able[nodes].sum()
    return rng.choice(nodes, _TAKEN, replace=False, p=weights)


def _filled(problem: PackingProblem, nodes: RowIndex) -> Solution:
    stage = SolutionBuilder(problem)
    stage.closed_to_pending[:] = True
    stage.closed_to_pending[nodes] = False
    stage.place_pending_pods()
    return stage.solution
