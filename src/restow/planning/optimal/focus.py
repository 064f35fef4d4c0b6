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
from restow.planning.lateness import Late, never
from restow.planning.optimal.openings import lines
from restow.planning.optimal.pricing import nothing_costs, surplus
from restow.planning.optimal.problem import PLENTY, STAY, Demand, Ints, Problem, Shift, charged, fits
from restow.planning.optimal.stage import Stage

_ORDINARY = 2000
_OPENED, _TAKEN = 800, 700
_TOGETHER = 1
"""Leavers of one node that are tried in all combinations: so many nodes have better ones than the limit of moves."""
_SAMPLE = 48
"""Classes of leavers that nodes are asked for room for."""


class Focus(msgspec.Struct, frozen=True, eq=False):
    problem: Problem
    """The part."""
    nodes: RowIndex
    """Its nodes, as numbered in the whole."""
    rest: Shift = STAY
    """What is placed on all other nodes, without a move."""
    everything: bool = True

    @classmethod
    def of(cls, problem: Problem, rng: np.random.Generator, late: Late = never) -> Focus:
        if problem.nodes <= _ORDINARY:
            return cls(problem, np.arange(problem.nodes))
        opened = _promising(problem, late)
        taken = _roomy(problem, opened, rng)
        nodes = np.union1d(opened, taken)
        rest = _filled(problem, np.setdiff1d(np.arange(problem.nodes), nodes))
        return cls(_part(problem, nodes, rest), nodes, rest, everything=False)

    def whole(self, shift: Shift) -> Shift:
        """An answer of the part as one of the whole."""
        if self.everything:
            return shift
        net = {(which, int(self.nodes[node])): number for (which, node), number in shift.net.items()}
        puts = {(which, int(self.nodes[node])): number for (which, node), number in shift.puts.items()}
        return Shift(net, {**self.rest.puts, **puts})


def _part(problem: Problem, nodes: RowIndex, rest: Shift) -> Problem:
    placed: Counter[int] = Counter()
    for (which, _), number in rest.puts.items():
        placed[which] += number
    demands = [_left(demand, nodes, placed[which]) for which, demand in enumerate(problem.demands)]
    return replace(
        problem,
        free=problem.free[nodes],
        held=[problem.held[node] for node in nodes.tolist()],
        suits=_suits_of(problem, nodes),
        stuck=problem.stuck[nodes],
        demands=demands,
        quotas=[replace(quota, most=quota.most - charged(quota, placed)) for quota in problem.quotas],
    )


def _left(demand: Demand, nodes: RowIndex, placed: int) -> Demand:
    supply = demand.supply if demand.supply >= PLENTY else demand.supply - placed
    could = None if demand.could is None else demand.could[nodes]
    return replace(demand, suits=demand.suits[nodes], could=could, supply=supply)


def _suits_of(problem: Problem, nodes: RowIndex) -> Callable[[int], Mask]:
    return cache(lambda which: problem.suits(which)[nodes])


def _promising(problem: Problem, late: Late) -> RowIndex:
    """The nodes that bring most per move; of those that bring the same, where smaller pods have to leave."""
    if problem.empties:
        pods = np.array([sum(held.values()) for held in problem.held])
        nodes = np.flatnonzero(~problem.stuck & (pods > 0))
        return nodes[np.argsort(pods[nodes], kind="stable")][:_OPENED]
    least = min(demand.worth / problem.unit for demand in problem.demands)
    free = nothing_costs(problem, 0.45 * least)
    as_is, gains, large = (np.zeros(problem.nodes) for _ in range(3))
    scale = np.maximum(problem.sizes.max(axis=0, initial=0), 1)
    for one in surplus(problem, lines(problem, 0), free, late=late):
        as_is[one.opening.node] = max(as_is[one.opening.node], one.opening.worth)
    for one in surplus(problem, lines(problem, _TOGETHER, late=late), free, late=late):
        node, leavers = one.opening.node, list(one.opening.leavers)
        gain = (one.opening.worth - as_is[node]) / max(len(leavers), 1)
        if leavers and gain > gains[node]:
            gains[node], large[node] = gain, (problem.sizes[leavers] / scale).sum()
    nodes = np.flatnonzero(gains > 0)
    return nodes[np.lexsort((large[nodes], -gains[nodes]))][:_OPENED]


def _roomy(problem: Problem, opened: RowIndex, rng: np.random.Generator) -> RowIndex:
    """Nodes that could take some of the pods on the opened ones; those that could take more of them rather."""
    classes = sorted({which for node in opened.tolist() for which in problem.held[node]})
    able: Ints = np.zeros(problem.nodes, np.int64)
    for which in rng.permutation(classes)[:_SAMPLE].tolist():
        able += fits(problem.free, problem.sizes[which]) & problem.suits(which)
    able[opened] = 0
    nodes = np.flatnonzero(able)
    if len(nodes) <= _TAKEN:
        return nodes
    weights = able[nodes] / able[nodes].sum()
    return rng.choice(nodes, _TAKEN, replace=False, p=weights)


def _filled(problem: Problem, nodes: RowIndex) -> Shift:
    stage = Stage(problem)
    stage.shut[:] = True
    stage.shut[nodes] = False
    stage.fill()
    return stage.shift
