"""The market: what each node could gain by selling its room at given prices, and the bound that follows from it.

Goes in: a problem, and prices of waiting pods and of places for leavers. Comes out: a worth that no answer exceeds, and
openings that bring more than they cost. Whatever the prices are, what everything on offer costs and the most that each
node could gain are together a bound; for the price of a move the best one is taken.

What a node could gain is never taken for less than it is. Of a few leavers every combination is looked at, with what
their room brings by the resource, or mixture of resources, that brings least. Of more leavers their number says how
much room they make at most, and how little they cost. Bounds hold for every plan where the problem is `relaxed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.planning.optimal.knapsack_table import Floats, KnapsackTable, build_knapsack_table
from restow.planning.optimal.node_patterns import DepartureSets, NodePattern, padded_class_sizes
from restow.planning.optimal.packing_problem import UNLIMITED, Ints, PackingProblem, max_free, round_down_value
from restow.planning.optimal.pricing import DualPrices
from restow.planning.optimal.solver import UNBOUNDED

_LEAST = 1e-6
_HALVINGS = 50
_SHARE = 64
"""Resources of which a waiting pod takes less than such a part of the largest node are not mixed with others."""
_FINE = 10**7
"""In how many units a mixture counts the largest room of each resource."""
_MASKED = 2_000
"""Up to how many nodes the places of leavers are told apart by node; on more, a class may go anywhere."""


class _KnapsackItems(msgspec.Struct, frozen=True, eq=False):
    """What takes room: waiting pods first, then leavers of classes for whose places somebody pays."""

    size: Ints
    gain: Floats
    """What one of them brings, its price considered."""
    number: RowIndex
    """The demand, or the class."""
    demands: int
    """How many of them are waiting pods."""
    supply: Ints
    kind: RowIndex
    """Per node, its type: what may be there is the same on all nodes of a type."""
    allowed: Mask
    """[item, type]."""


class LagrangianBound:
    def __init__(self, problem: PackingProblem, some: DepartureSets) -> None:
        """With these leavers; for a bound they have to be as `lines` says they are."""
        self._problem = problem
        self._node, self._leavers, self._complete = some.node, some.departing_classes, some.complete_up_to
        self._number: Ints = (some.departing_classes >= 0).sum(axis=1)
        self._mix = _mixtures(problem)
        self._room = self._mixed(some.free_after)
        self._largest = self._mixed(max_free(problem)).max(axis=0, initial=0)

    @cached_property
    def _crowds(self) -> _LargeDepartures:
        problem = self._problem
        return _LargeDepartures(
            problem, self._mixed(padded_class_sizes(problem)), self._mixed(np.maximum(problem.free, 0)), self._complete
        )

    def bound(self, prices: DualPrices) -> float:
        """The bound of these prices, or of the same ones with places for nothing, whichever is less."""
        nothing = np.zeros_like(prices.class_places)
        bound = self._bound(prices.demands, nothing)
        return min(bound, self._bound(prices.demands, prices.class_places)) if prices.class_places.any() else bound

    def patterns(self, prices: DualPrices, per_node: int = 2) -> list[NodePattern]:
        """Openings that bring more than they cost at these prices, for each node some of the best."""
        goods = self._goods(prices.demands, prices.class_places)
        tables = self._tables(goods)
        costs = self._costs(prices.class_places) + prices.move * self._number + prices.nodes[self._node]
        surplus = self._brings(goods, tables) - costs
        best = _top(self._node, surplus, per_node)
        found: dict[NodePattern, None] = {}
        for resource, one in tables.items():
            counts = np.zeros((len(best), len(goods.gain)), np.int64)
            for item, used in one.item_counts(goods.kind[self._node[best]], self._room[best, resource]):
                counts[:, item] = used
            fits = (counts @ goods.size <= self._room[best]).all(axis=1) & (counts <= goods.supply).all(axis=1)
            fits &= counts @ goods.gain > costs[best] + _LEAST
            for place in np.flatnonzero(fits).tolist():
                found[self._opening(int(best[place]), goods, counts[place])] = None
        return list(found)

    # ------------------------------------------------------------------------------------------------------------------

    def _bound(self, demands: Floats, places: Floats) -> float:
        problem = self._problem
        supply = np.array([demand.count for demand in problem.demands], np.float64)
        if (supply[demands > 0] >= UNLIMITED).any():
            return UNBOUNDED
        goods = self._goods(demands, places)
        tables = self._tables(goods)
        gains = self._brings(goods, tables) - self._costs(places)
        best = np.full((problem.node_count, self._crowds.width), -np.inf)
        np.maximum.at(best, (self._node, self._number), gains)
        best = np.where(self._crowds.unseen, self._crowds.gains(goods.kind, tables, places), best)
        total = _with_moves(best, problem.max_moves) + float(np.maximum(demands, 0.0) @ supply)
        return round_down_value(problem, total)

    def _goods(self, demands: Floats, places: Floats) -> _KnapsackItems:
        problem = self._problem
        gain = np.array([one.value / problem.unit for one in problem.demands]) - demands
        wanted = [which for which in np.flatnonzero(gain > _LEAST).tolist() if problem.demands[which].count > 0]
        coming = np.flatnonzero(places > _LEAST)
        nowhere = np.zeros((0, problem.node_count), np.bool_)
        masks = np.vstack(
            [nowhere, *(problem.demands[one].allowed_nodes for one in wanted), *map(self._suits, coming.tolist())]
        )
        _, first, kind = np.unique(np.packbits(masks, axis=0), axis=1, return_index=True, return_inverse=True)
        nothing = np.zeros((0, problem.free.shape[1]), np.int64)
        size = np.vstack([nothing, *(problem.demands[one].size for one in wanted), problem.class_sizes[coming]])
        most = np.where(problem.one_per_node[coming], 1, UNLIMITED)
        return _KnapsackItems(
            size=self._mixed(size),
            gain=np.concatenate([gain[wanted], places[coming]]),
            number=np.array([*wanted, *coming.tolist()], np.intp),
            demands=len(wanted),
            supply=np.array([*(problem.demands[one].max_per_node for one in wanted), *most.tolist()], np.int64),
            kind=kind.reshape(-1),
            allowed=masks[:, first],
        )

    def _suits(self, which: int) -> Mask:
        return (
            self._problem.allowed_nodes(which)
            if self._problem.node_count <= _MASKED
            else np.ones(self._problem.node_count, np.bool_)
        )

    def _tables(self, goods: _KnapsackItems) -> dict[int, KnapsackTable]:
        """By resource or mixture; those left out of which somebody needs nothing."""
        found = {}
        for resource, largest in enumerate(self._largest.tolist()):
            one = build_knapsack_table(goods.size[:, resource], goods.gain, goods.allowed, largest)
            if one is not None:
                found[resource] = one
        return found

    def _brings(self, goods: _KnapsackItems, tables: dict[int, KnapsackTable]) -> Floats:
        """Per line what its room brings at most."""
        least = np.full(len(self._node), np.inf if tables else 0.0)
        for resource, one in tables.items():
            least = np.minimum(least, one.best_gains(goods.kind[self._node], self._room[:, resource]))
        return least

    def _costs(self, places: Floats) -> Floats:
        costs: Floats = np.append(places, 0.0)[self._leavers].sum(axis=1)
        return costs

    def _mixed(self, amounts: Ints) -> Ints:
        """Amounts of resources, and of mixtures of them after those."""
        return np.concatenate([amounts, amounts @ self._mix], axis=1)

    def _opening(self, line: int, goods: _KnapsackItems, counts: Ints) -> NodePattern:
        taken = [(int(goods.number[item]), int(counts[item])) for item in np.flatnonzero(counts).tolist()]
        waiting = int(np.count_nonzero(counts[: goods.demands]))
        return NodePattern(
            node=int(self._node[line]),
            departing_classes=tuple(which for which in self._leavers[line].tolist() if which >= 0),
            placements=tuple(taken[:waiting]),
            arrivals=tuple(taken[waiting:]),
            value=sum(self._problem.demands[which].value * number for which, number in taken[:waiting]),
        )


class _LargeDepartures:
    """Leavers by their number only."""

    def __init__(self, problem: PackingProblem, asked: Ints, free: Ints, complete: Ints) -> None:
        self._pods = _pods_of(problem)
        self._free = free
        self._asked = asked[self._pods]
        largest = np.cumsum(-np.sort(-self._asked, axis=1), axis=1)
        self._room = np.concatenate([free[:, None, :], free[:, None, :] + largest], axis=1)
        """[node, number, resource]: as much as so many make free at most."""
        self.width = self._pods.shape[1] + 1
        count = np.minimum((self._pods >= 0).sum(axis=1), problem.max_moves)
        numbers = np.arange(self.width)
        self.unseen: Mask = (numbers > complete[:, None]) & (numbers <= count[:, None])
        """[node, number]: where not every combination was looked at."""

    def gains(self, kind: RowIndex, tables: dict[int, KnapsackTable], places: Floats) -> Floats:
        """[node, number]: what so many leavers could bring, less what they cost at least."""
        cost = np.where(self._pods >= 0, np.append(places, 0.0)[self._pods], np.inf)
        cheapest = _sums(np.sort(cost, axis=1))
        most = np.full(self.unseen.shape, np.inf if tables else 0.0)
        for resource, one in tables.items():
            room = one.best_gains(np.broadcast_to(kind[:, None], self.unseen.shape), self._room[:, :, resource])
            dense = one.density[kind][:, None]
            each = np.where(self._pods >= 0, dense * self._asked[:, :, resource] - cost, -np.inf)
            by_density = dense * self._free[:, resource, None] + _sums(-np.sort(-each, axis=1))
            most = np.minimum(most, np.minimum(room - cheapest, np.maximum(by_density, -cheapest)))
        return most


def _sums(numbers: Floats) -> Floats:
    """Of none, of the first, of the first two, and so on."""
    return np.concatenate([np.zeros((len(numbers), 1)), np.cumsum(numbers, axis=1)], axis=1)


def _with_moves(best: Floats, limit: int) -> float:
    """What nodes gain together by [node, number of leavers], at the price of a move at which that is least."""
    numbers = np.arange(best.shape[1])
    low, high = 0.0, max(float(best.max(initial=0.0)), 0.0) + 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if int((best - middle * numbers).argmax(axis=1).sum()) > limit:
            low = middle
        else:
            high = middle
    return min(price * limit + float((best - price * numbers).max(axis=1).sum()) for price in (0.0, low, high))


def _mixtures(problem: PackingProblem) -> Ints:
    """[resource, mixture]: how much of each resource is in one, such that the largest rooms of all count the same."""
    largest = max_free(problem).max(axis=0, initial=0)
    asked = (
        np.max([one.size for one in problem.demands], axis=0, initial=0) if len(problem.demands) > 1 else largest * 0
    )
    mixed = np.flatnonzero((largest > 0) & (asked * _SHARE > largest)).tolist()
    sets: list[Sequence[int]] = [*combinations(mixed, 2), *([mixed] if len(mixed) > 2 else [])]
    mix = np.zeros((len(largest), len(sets)), np.int64)
    for number, one in enumerate(sets):
        mix[list(one), number] = _FINE // largest[list(one)]
    return mix


def _pods_of(problem: PackingProblem) -> RowIndex:
    """[node, pod]: the classes of pods that may leave; -1 where there are fewer."""
    pods = [[which for which, count in sorted(held.items()) for _ in range(count)] for held in problem.movable_pods]
    found = np.full((len(pods), max(map(len, pods), default=0)), -1, np.intp)
    for node, some in enumerate(pods):
        found[node, : len(some)] = some
    return found


def _top(node: RowIndex, surplus: Floats, per_node: int) -> RowIndex:
    """The lines of the largest surpluses of each node."""
    good = np.flatnonzero(surplus > _LEAST)
    order = good[np.lexsort((-surplus[good], node[good]))]
    starts = np.searchsorted(node[order], node[order], side="left")
    return order[np.arange(len(order)) - starts < per_node]
