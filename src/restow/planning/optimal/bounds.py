"""Bounds: what no plan exceeds, so that "no better plan exists" can be told from "ran out of time".

Goes in: a problem, and prices from the pattern model where there are some. Comes out: a worth that no answer exceeds.

    volume    everything placed fits into everything that is free, resource by resource
    drains    as many nodes as the limit of moves empties, the fewest pods first, while all of their pods fit elsewhere
    prices    whatever the prices of moves, waiting pods and places: what all of them are worth together, and for each
              node the largest surplus that an opening can have there. Leavers beyond those that are looked at in every
              combination are taken for larger than they are: each resource by its largest pods. Where it gets late,
              there is no such bound, and that of the volume stays.

Any prices give a bound; the better they are, the closer. Problems have to be `relaxed` for bounds of prices to hold.
"""

from __future__ import annotations

from math import floor

import numpy as np

from restow.planning.optimal.budget import Late, never
from restow.planning.optimal.openings import Lines, lines
from restow.planning.optimal.pricing import Floats, Prices, leaving_costs, most_surplus
from restow.planning.optimal.problem import PLENTY, Ints, Problem, all_room, rounded
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


def price_bound(problem: Problem, prices: Prices, most: int = 3, *, late: Late = never) -> float:
    """The bound of these prices, or of the same ones with places for nothing, whichever is less."""
    some = lines(problem, most, late=late)
    bound = _priced(problem, _without_places(prices), some, late)
    return min(bound, _priced(problem, prices, some, late)) if prices.places.any() else bound


def part_bound(problem: Problem, prices: Prices, most: int = 1, *, late: Late = never) -> float:
    """The bound of prices that were found for a part of the nodes: nobody knows what places elsewhere cost."""
    return price_bound(problem, _without_places(prices), most, late=late)


def _priced(problem: Problem, prices: Prices, exact: Lines, late: Late) -> float:
    supply = np.array([demand.supply for demand in problem.demands], np.float64)
    paid = np.where(prices.demands > 0, prices.demands, 0.0)
    if (supply[paid > 0] >= PLENTY).any():
        return UNBOUNDED
    larger, larger_cost = _larger(problem, prices, exact)
    both = Lines(
        np.concatenate([exact.node, larger.node]),
        exact.leavers,
        np.concatenate([exact.room, larger.room]),
        exact.complete,
    )
    cost = np.concatenate([leaving_costs(exact, prices), larger_cost])
    surplus = most_surplus(problem, both, cost, prices, late=late)
    if surplus is None:
        return UNBOUNDED
    total = prices.move * problem.limit + float(paid @ supply) + float(np.maximum(surplus, 0.0).sum())
    return rounded(problem, total)


def _larger(problem: Problem, prices: Prices, exact: Lines) -> tuple[Lines, Floats]:
    """For every node and each number of leavers beyond the exact ones: no less room and no more cost than any such
    leavers have."""
    nodes: list[int] = []
    rooms: list[Ints] = []
    costs: list[float] = []
    for node, held in enumerate(problem.held):
        pods = [which for which, count in held.items() for _ in range(count)]
        known = int(exact.complete[node])
        if len(pods) <= known:
            continue
        largest = np.cumsum(np.sort(problem.sizes[pods], axis=0)[::-1], axis=0)
        cheapest = np.cumsum(np.sort(prices.places[pods] + prices.move))
        numbers = np.arange(known, min(len(pods), problem.limit))
        nodes += [node] * len(numbers)
        rooms += list(problem.free[node] + largest[numbers])
        costs += cheapest[numbers].tolist()
    room = np.array(rooms, np.int64).reshape(len(nodes), problem.free.shape[1])
    where = np.array(nodes, np.intp)
    return Lines(where, np.zeros((len(nodes), 0), np.intp), room, exact.complete), np.array(costs)


def _without_places(prices: Prices) -> Prices:
    return Prices(prices.move, prices.demands, np.zeros_like(prices.places), prices.nodes, prices.worth)
