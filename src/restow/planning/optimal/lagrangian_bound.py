"""The Lagrangian bound: an upper bound on the value of every solution, from prices of what nodes compete for.

Goes in: a problem, the enumerated departures of its nodes, and prices (mostly the duals of the master problem). Comes
out: a value that no solution exceeds. The same computation finds patterns with positive reduced cost for column
generation.

Lagrangian relaxation. Nodes depend on each other by three kinds of constraints. Each is relaxed at a price >= 0:

    demands    no more pods of a demand are placed than are pending               price per placed pod
    places     each departing pod needs a place on another node                   price per place, by class
    moves      at most `max_moves` pods depart                                    price per move

Then each node is on its own: it chooses departures and what takes the freed room, and gains value minus prices. For any
prices,

    sum over nodes of the best gain  +  demand prices * pending pods  +  move price * max_moves

is an upper bound: a feasible solution pays no more for demands and moves than the last two terms, pays and receives
equal amounts for places, and cannot gain more on a node than the best. Gangs and quotas are ignored, which only raises
the bound. For a bound that holds for every plan, the problem has to be a `relaxation`.

The best gain of a node is a vector knapsack. It is relaxed further, always upwards:

    few departures     every combination is looked at. Its room is filled by a knapsack over a single resource, or over
                       a weighted sum of resources (a surrogate constraint); the lowest of these gains counts
    more departures    only their number counts: they free at most the largest amounts, cost at least the lowest prices,
                       and the room gains at most the best density (gain per unit)
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

_TOLERANCE = 1e-6
_BISECTIONS = 50
_NEGLIGIBLE = 64
"""A resource of which a pending pod requests less than this fraction of the largest node is not combined with
others."""
_SURROGATE_UNITS = 10**7
"""How many units the largest room of each resource counts in a surrogate constraint."""
_MAX_NODES_WITH_MASKS = 2_000
"""Up to how many nodes the allowed nodes of a class are respected; on more nodes a class may go anywhere, which is
faster and only raises the bound."""


class _KnapsackItems(msgspec.Struct, frozen=True, eq=False):
    """What can take room: pending pods first, then departing pods of other nodes, if their place has a price."""

    size: Ints
    """[item, resource or surrogate]."""
    gain: Floats
    """The value less the price of one; for a departing pod, the price that is paid for its place."""
    number: RowIndex
    """The index of the demand, or of the class."""
    demand_count: int
    """How many of the items are demands."""
    max_count: Ints
    node_type: RowIndex
    """Per node: nodes of one type allow the same items."""
    allowed: Mask
    """[item, node type]."""


class LagrangianBound:
    def __init__(self, problem: PackingProblem, departures: DepartureSets) -> None:
        self._problem = problem
        self._node, self._departing = departures.node, departures.departing_classes
        self._complete_up_to = departures.complete_up_to
        self._number: Ints = (departures.departing_classes >= 0).sum(axis=1)
        self._surrogate_weights = _surrogate_weights(problem)
        self._room = self._with_surrogates(departures.free_after)
        self._largest_room = self._with_surrogates(max_free(problem)).max(axis=0, initial=0)

    @cached_property
    def _large_departures(self) -> _LargeDepartures:
        problem = self._problem
        requested = self._with_surrogates(padded_class_sizes(problem))
        free = self._with_surrogates(np.maximum(problem.free, 0))
        return _LargeDepartures(problem, requested, free, self._complete_up_to)

    def bound(self, prices: DualPrices) -> float:
        """The bound at these prices, or at the same ones with free places, whichever is lower."""
        bound = self._bound(prices.demands, np.zeros_like(prices.class_places))
        return min(bound, self._bound(prices.demands, prices.class_places)) if prices.class_places.any() else bound

    def patterns(self, prices: DualPrices, per_node: int = 2) -> list[NodePattern]:
        """Patterns with positive reduced cost at these prices, some of the best for each node. The knapsacks look at
        one resource each, so a pattern counts only if it also fits in all others."""
        items = self._knapsack_items(prices.demands, prices.class_places)
        tables = self._tables(items)
        costs = self._place_costs(prices.class_places) + prices.move * self._number + prices.nodes[self._node]
        best = _best_lines(self._node, self._max_gains(items, tables) - costs, per_node)
        patterns: dict[NodePattern, None] = {}
        for resource, table in tables.items():
            counts = np.zeros((len(best), len(items.gain)), np.int64)
            for item, used in table.item_counts(items.node_type[self._node[best]], self._room[best, resource]):
                counts[:, item] = used
            fits = (counts @ items.size <= self._room[best]).all(axis=1) & (counts <= items.max_count).all(axis=1)
            fits &= counts @ items.gain > costs[best] + _TOLERANCE
            for place in np.flatnonzero(fits).tolist():
                patterns[self._pattern(int(best[place]), items, counts[place])] = None
        return list(patterns)

    # ------------------------------------------------------------------------------------------------------------------

    def _bound(self, demand_prices: Floats, place_prices: Floats) -> float:
        problem = self._problem
        pending = np.array([demand.count for demand in problem.demands], np.float64)
        if (pending[demand_prices > 0] >= UNLIMITED).any():
            return UNBOUNDED
        items = self._knapsack_items(demand_prices, place_prices)
        tables = self._tables(items)
        gains = self._max_gains(items, tables) - self._place_costs(place_prices)
        # [node, number of departures]: from the enumerated combinations, or by the number only where some are missing.
        best = np.full((problem.node_count, self._large_departures.width), -np.inf)
        np.maximum.at(best, (self._node, self._number), gains)
        by_number = self._large_departures.max_gains(items.node_type, tables, place_prices)
        best = np.where(self._large_departures.not_enumerated, by_number, best)
        total = _lowest_over_move_prices(best, problem.max_moves) + float(np.maximum(demand_prices, 0.0) @ pending)
        return round_down_value(problem, total)

    def _knapsack_items(self, demand_prices: Floats, place_prices: Floats) -> _KnapsackItems:
        problem = self._problem
        demands = problem.demands
        gain = np.array([demand.value / problem.unit for demand in demands]) - demand_prices
        wanted = [index for index in np.flatnonzero(gain > _TOLERANCE).tolist() if demands[index].count > 0]
        arriving = np.flatnonzero(place_prices > _TOLERANCE)
        nowhere = np.zeros((0, problem.node_count), np.bool_)
        masks = np.vstack(
            [nowhere, *(demands[index].allowed_nodes for index in wanted), *map(self._allowed, arriving.tolist())]
        )
        # Nodes that allow the same items are one type: one column of a table serves all of them.
        _, first, node_type = np.unique(np.packbits(masks, axis=0), axis=1, return_index=True, return_inverse=True)
        nothing = np.zeros((0, problem.free.shape[1]), np.int64)
        size = np.vstack([nothing, *(demands[index].size for index in wanted), problem.class_sizes[arriving]])
        max_arrivals = np.where(problem.one_per_node[arriving], 1, UNLIMITED)
        return _KnapsackItems(
            size=self._with_surrogates(size),
            gain=np.concatenate([gain[wanted], place_prices[arriving]]),
            number=np.array([*wanted, *arriving.tolist()], np.intp),
            demand_count=len(wanted),
            max_count=np.array([*(demands[index].max_per_node for index in wanted), *max_arrivals.tolist()], np.int64),
            node_type=node_type.reshape(-1),
            allowed=masks[:, first],
        )

    def _allowed(self, class_index: int) -> Mask:
        problem = self._problem
        if problem.node_count > _MAX_NODES_WITH_MASKS:
            return np.ones(problem.node_count, np.bool_)
        return problem.allowed_nodes(class_index)

    def _tables(self, items: _KnapsackItems) -> dict[int, KnapsackTable]:
        """By resource or surrogate; without those of which some item requests nothing."""
        tables = {}
        for resource, largest_room in enumerate(self._largest_room.tolist()):
            table = build_knapsack_table(items.size[:, resource], items.gain, items.allowed, largest_room)
            if table is not None:
                tables[resource] = table
        return tables

    def _max_gains(self, items: _KnapsackItems, tables: dict[int, KnapsackTable]) -> Floats:
        """Per line an upper bound on the gain of its room: the lowest one over the resources."""
        lowest = np.full(len(self._node), np.inf if tables else 0.0)
        for resource, table in tables.items():
            gains = table.best_gains(items.node_type[self._node], self._room[:, resource])
            lowest = np.minimum(lowest, gains)
        return lowest

    def _place_costs(self, place_prices: Floats) -> Floats:
        """Per line the price of the places of its departing pods."""
        costs: Floats = np.append(place_prices, 0.0)[self._departing].sum(axis=1)
        return costs

    def _with_surrogates(self, amounts: Ints) -> Ints:
        """The amounts of resources, followed by those of the surrogate constraints."""
        return np.concatenate([amounts, amounts @ self._surrogate_weights], axis=1)

    def _pattern(self, line: int, items: _KnapsackItems, counts: Ints) -> NodePattern:
        taken = [(int(items.number[item]), int(counts[item])) for item in np.flatnonzero(counts).tolist()]
        placed = int(np.count_nonzero(counts[: items.demand_count]))
        return NodePattern(
            node=int(self._node[line]),
            departing_classes=tuple(each for each in self._departing[line].tolist() if each >= 0),
            placements=tuple(taken[:placed]),
            arrivals=tuple(taken[placed:]),
            value=sum(self._problem.demands[demand].value * number for demand, number in taken[:placed]),
        )


class _LargeDepartures:
    """Upper bounds for departures of which only the number is known, for numbers that are not fully enumerated."""

    def __init__(self, problem: PackingProblem, requested: Ints, free: Ints, complete_up_to: Ints) -> None:
        self._pods = _movable_classes(problem)
        self._free = free
        self._requested = requested[self._pods]
        largest = np.cumsum(-np.sort(-self._requested, axis=1), axis=1)
        self._room = np.concatenate([free[:, None, :], free[:, None, :] + largest], axis=1)
        """[node, number, resource]: the most that so many departing pods can free."""
        self.width = self._pods.shape[1] + 1
        count = np.minimum((self._pods >= 0).sum(axis=1), problem.max_moves)
        numbers = np.arange(self.width)
        self.not_enumerated: Mask = (numbers > complete_up_to[:, None]) & (numbers <= count[:, None])
        """[node, number]: where some combinations are not listed."""

    def max_gains(self, node_type: RowIndex, tables: dict[int, KnapsackTable], place_prices: Floats) -> Floats:
        """[node, number]: the gain of so many departures at most, less the price of their places at least."""
        cost = np.where(self._pods >= 0, np.append(place_prices, 0.0)[self._pods], np.inf)
        cheapest = _sums_of_first(np.sort(cost, axis=1))
        highest = np.full(self.not_enumerated.shape, np.inf if tables else 0.0)
        for resource, table in tables.items():
            types = np.broadcast_to(node_type[:, None], self.not_enumerated.shape)
            # Two bounds, of which the lower one counts. First: the best use of the most room, less the lowest costs.
            by_room = table.best_gains(types, self._room[:, :, resource]) - cheapest
            # Second: each pod frees its own amount at the best density and costs its own price; the best pods count.
            density = table.density[node_type][:, None]
            each = np.where(self._pods >= 0, density * self._requested[:, :, resource] - cost, -np.inf)
            by_density = density * self._free[:, resource, None] + _sums_of_first(-np.sort(-each, axis=1))
            highest = np.minimum(highest, np.minimum(by_room, np.maximum(by_density, -cheapest)))
        return highest


def _sums_of_first(numbers: Floats) -> Floats:
    """[line, k]: the sum of the first k numbers, from k = 0."""
    return np.concatenate([np.zeros((len(numbers), 1)), np.cumsum(numbers, axis=1)], axis=1)


def _lowest_over_move_prices(best: Floats, max_moves: int) -> float:
    """The lowest bound over all prices of a move, from the gains [node, number of departures] without that price.

    As a function of the price the bound is convex and piecewise linear; its slope is `max_moves` less the moves that
    the nodes choose. So bisection finds the lowest point. Each price that is tried gives a valid bound, however exact
    it is.
    """
    numbers = np.arange(best.shape[1])
    low, high = 0.0, max(float(best.max(initial=0.0)), 0.0) + 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if int((best - middle * numbers).argmax(axis=1).sum()) > max_moves:
            low = middle
        else:
            high = middle
    return min(price * max_moves + float((best - price * numbers).max(axis=1).sum()) for price in (0.0, low, high))


def _surrogate_weights(problem: PackingProblem) -> Ints:
    """[resource, surrogate]: the weights of each surrogate constraint, such that the largest rooms of all its resources
    count the same. A weighted sum of valid constraints is valid, too, and sees pods that take much of several
    resources."""
    largest = max_free(problem).max(axis=0, initial=0)
    several = len(problem.demands) > 1
    requested = np.max([demand.size for demand in problem.demands], axis=0, initial=0) if several else largest * 0
    resources = np.flatnonzero((largest > 0) & (requested * _NEGLIGIBLE > largest)).tolist()
    sets: list[Sequence[int]] = [*combinations(resources, 2), *([resources] if len(resources) > 2 else [])]
    weights = np.zeros((len(largest), len(sets)), np.int64)
    for surrogate, members in enumerate(sets):
        weights[list(members), surrogate] = _SURROGATE_UNITS // largest[list(members)]
    return weights


def _movable_classes(problem: PackingProblem) -> RowIndex:
    """[node, pod]: the classes of the movable pods; -1 where a node has fewer."""
    pods = [
        [class_index for class_index, count in sorted(counts.items()) for _ in range(count)]
        for counts in problem.movable_pods
    ]
    classes = np.full((len(pods), max(map(len, pods), default=0)), -1, np.intp)
    for node, some in enumerate(pods):
        classes[node, : len(some)] = some
    return classes


def _best_lines(node: RowIndex, reduced_costs: Floats, per_node: int) -> RowIndex:
    """The lines with the highest positive reduced costs of each node."""
    positive = np.flatnonzero(reduced_costs > _TOLERANCE)
    order = positive[np.lexsort((-reduced_costs[positive], node[positive]))]
    starts = np.searchsorted(node[order], node[order], side="left")
    return order[np.arange(len(order)) - starts < per_node]
