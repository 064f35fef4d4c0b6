"""The greedy answer: openings in the order of what they bring per move, each made if its leavers find a place.

Everything else starts from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from restow.planning.lateness import Late, never
from restow.planning.optimal.openings import Lines, Opening, drains
from restow.planning.optimal.pricing import Floats, nothing_costs, surplus
from restow.planning.optimal.problem import STAY, Problem, Shift
from restow.planning.optimal.stage import Stage
from restow.planning.optimal.trimming import pruned

_PER_NODE = 4
_PRICES = (0.45, 0.95)
"""Of a move, in units of the least worth: the more it costs, the fewer moves the best opening of a node has."""


def first_openings(problem: Problem, some: Lines, late: Late = never) -> list[Opening]:
    """Openings to begin with: what is best for each node if nobody else wanted anything."""
    if problem.empties:
        return drains(problem)
    found: dict[Opening, None] = {}
    least = min((demand.worth / problem.unit for demand in problem.demands), default=1.0)
    for price in _PRICES:
        prices = nothing_costs(problem, price * least)
        found.update((one.opening, None) for one in surplus(problem, some, prices, _PER_NODE, late=late))
    return list(found)


def greedy(
    problem: Problem, candidates: Sequence[Opening], start: Shift = STAY, late: Late = never
) -> tuple[Shift, list[Opening]]:
    """The answer, and the openings it made until it was late. Whoever finds that the pods it waited for are gone queues
    up again."""
    stage = Stage(problem, start)
    dear = dearness(problem, candidates)
    as_is = {node: stage.worth_as_is(node) for node in sorted({one.node for one in candidates})}
    large = (problem.sizes / np.maximum(problem.sizes.max(axis=0, initial=0), 1)).sum(axis=1)

    def rank(one: Opening) -> tuple[float, float]:
        """First what brings most per move, beyond what there is without any; of the same, where small pods leave."""
        return (as_is[one.node] - one.worth) / max(one.moves, 0.1), float(large[list(one.leavers)].sum())

    queue = [(rank(one), number, one) for number, one in enumerate(candidates)]
    heapify(queue)
    made = []
    while queue and stage.moves < problem.limit and not late():
        _, number, promised = heappop(queue)
        one = stage.refilled(promised)
        if one is promised:
            if stage.make(one, dear):
                made.append(one)
        elif one.worth:
            heappush(queue, (rank(one), number, one))
    stage.fill()
    return pruned(problem, whole_gangs(problem, stage.shift)), made


def dearness(problem: Problem, candidates: Sequence[Opening]) -> Floats:
    """Per node what opening it brings per move at best: leavers of others had better not go there."""
    dear = np.zeros(problem.nodes)
    for one in candidates:
        dear[one.node] = max(dear[one.node], one.worth / problem.unit / max(one.moves, 1))
    return dear / max(float(dear.max(initial=0.0)), 1e-9)


def whole_gangs(problem: Problem, shift: Shift) -> Shift:
    """The answer without gangs of which too few are placed."""
    placed: dict[int, int] = {}
    for (which, _), number in shift.puts.items():
        gang = problem.demands[which].gang
        if gang is not None:
            placed[gang] = placed.get(gang, 0) + number
    short = {gang for gang, number in placed.items() if number < problem.least[gang]}
    kept = {cell: number for cell, number in shift.puts.items() if problem.demands[cell[0]].gang not in short}
    return Shift(shift.net, kept)
