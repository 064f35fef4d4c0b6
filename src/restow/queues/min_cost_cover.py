"""Minimum-cost cover: the cheapest items that together supply at least a demand, in every dimension.

Goes in: by item a cost and what it supplies, the demand, the most items there may be, how many steps to search, and a
cover that is known already, if any. Comes out: a cover that costs no more than the known one, its cost, and a lower
bound on the cost of every cover. If cost and bound are equal, the cover is proven to be the cheapest.

How it is found, for thousands of items in a few milliseconds:

    valid cuts      an item supplies at most the demand. At least as many items are needed as the largest ones that
                    cover one dimension; that number is the demand of one more dimension, in which every item supplies 1
    lower bound     Lagrangian relaxation: for any multipliers p >= 0 (the price of a unit of supply), p·demand + the
                    sum over items of min(0, cost - p·supply) is a bound. Prices are raised where too little is supplied
                    and lowered elsewhere. At the best prices the bound is that of the linear relaxation, which splits
                    at most one item per dimension: the cheapest cover costs at most that many items more
    core            an item with a cost above its price by more than cover and bound differ is in no better cover.
                    An item is not needed either if it is no better in anything than as many others as a cover has
    heuristics      item by item, the one with the least cost for what is still missing; of all items that would
                    complete the cover, the cheapest completes it; then items that are not needed are dropped
    exact search    depth first over the core, pruned by the same bound, until everything was tried or the steps are
                    used up. Of items that are equal in everything, earlier ones are tried before later ones

Costs are integers: the costs of equal covers are equal, in whatever order they are summed. Same input, same cover.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Items = NDArray[np.intp]
"""Numbers of items."""

_FIRST_ROUNDS, _MORE_ROUNDS = 40, 16
"""Rounds of raising prices, for the first pool of items and for each larger one."""
_ROUNDS_WITHOUT_GAIN = 3
"""After so many rounds without a better bound, the step is halved."""
_MAX_CORE = 128
"""At most so many items are searched exactly. If more items could be in a better cover, the cheapest is not proven."""
_CLOSE_TO_BOUND = 0.01
"""A cover that is this close to the bound is left to exchanges and to the exact search."""
_MAX_DEPTH = 200
"""Of the exact search, which is recursive. Larger covers are close to their bound without it."""
_MAX_GREEDY_ITEMS = 24
"""So many items of a cover are selected one by one; those before them by their rate alone."""


class Cover(msgspec.Struct, frozen=True):
    items: tuple[int, ...]
    """In ascending order."""
    cost: int
    bound: int
    """No cover costs less."""

    @property
    def gap(self) -> float:
        """The largest part of the cost that may not be needed."""
        return (self.cost - self.bound) / self.cost if self.cost else 0.0


def find_cover(
    costs: Integers,
    supply: Integers,
    demand: Integers,
    *,
    max_items: int,
    effort: int,
    known_cover: Items | None = None,
) -> Cover | None:
    """The cheapest cover found: of `supply[dimension][item]` at least `demand[dimension]`, each above 0, by at most
    `max_items` items. `effort` bounds the steps of the exact search. Costs are positive.

    None if there is no cover, or if `max_items` is so tight that none was found within the effort.
    """
    supply = np.minimum(supply, demand[:, None])
    min_items = _min_items(supply, demand)
    if min_items is None or min_items > max_items:
        return None
    known = np.array([], np.intp) if known_cover is None else known_cover
    kept = np.arange(len(costs))
    if _has_many_equal_costs(costs):
        # Of equal items, a cover without needless items has no more than would cover the demand alone.
        limits = np.where(supply > 0, -(-demand[:, None] // np.maximum(supply, 1)), 0).max(axis=0)
        kept = _union(len(costs), _first_of_equal_items(costs, supply, limits), known)
        costs, supply = costs[kept], supply[:, kept]
    search = _CoverSearch(costs, supply, demand, min_items, max_items)
    known = np.searchsorted(kept, known)
    if (supply[:, known].sum(axis=1) >= demand).all():
        search.offer(known)
    cover = search.run(effort)
    return cover and msgspec.structs.replace(cover, items=tuple(kept[list(cover.items)].tolist()))


def _union(count: int, *sets: Items) -> Items:
    """The items of any of these sets, in ascending order; `count` is the number of all items."""
    is_member = np.zeros(count, np.bool_)
    for items in sets:
        is_member[items] = True
    return np.flatnonzero(is_member)


def _has_many_equal_costs(costs: Integers) -> bool:
    ascending = np.sort(costs)
    return int(np.count_nonzero(ascending[1:] == ascending[:-1])) >= max(len(costs) // 4, 1)


def _first_of_equal_items(costs: Integers, supply: Integers, limits: Integers) -> Items:
    """Of items that are equal in everything, the first ones, as many as their limit."""
    order = np.lexsort((*supply, costs))
    is_first = (np.diff(supply[:, order], axis=1, prepend=-1) != 0).any(axis=0)
    is_first |= np.diff(costs[order], prepend=-1) != 0
    places = np.arange(len(order))
    place_among_equals = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return np.sort(order[place_among_equals < limits[order]])


def _min_items(supply: Integers, demand: Integers) -> int | None:
    """How many items every cover has at least; None if all items together are not enough."""
    min_items = 0
    for line, needed in zip(supply, demand, strict=True):
        if int(line.sum()) < needed:
            return None
        sums = np.cumsum(_largest_first(line, needed))
        min_items = max(min_items, int(np.searchsorted(sums, needed)) + 1)
    return min_items


def _largest_first(line: Integers, needed: int) -> Integers:
    """The largest numbers of a line, enough of them to sum up to what is needed."""
    if len(line) > 2 * _MAX_CORE:
        top = np.partition(line, len(line) - _MAX_CORE)[-_MAX_CORE:]
        line = top if int(top.sum()) >= needed else line
    return np.sort(line)[::-1]


class _CoverSearch:
    def __init__(self, costs: Integers, supply: Integers, demand: Integers, min_items: int, max_items: int) -> None:
        self.costs, self.supply, self.demand = costs, supply, demand
        self.max_items = max_items
        self.coverage: Floats = np.vstack([supply / demand[:, None], np.full((1, len(costs)), 1 / min_items)])
        """By dimension and item: the part of the demand that an item covers. The last dimension counts items."""
        self.best: Items | None = None
        self.best_cost = math.inf
        self.bound = 0.0
        self.prices: Floats = np.ones(len(self.coverage))
        """By dimension: the Lagrange multiplier, as the price of covering its whole demand."""

    def run(self, effort: int) -> Cover | None:
        # 1. A first cover, and the best prices: they give the bound.
        self._find_prices(self._first_cover())
        # 2. Better covers by these prices, and by exchanges of single items.
        self._search_greedily()
        core, _ = self._core()
        self._exchange_items(core)
        # 3. Exact search, if a better cover is possible at all.
        core, is_whole = self._core()
        is_proven = self._is_proven or (self._search_exactly(self._without_dominated(core), effort) and is_whole)
        if self.best is None:
            return None
        cost = int(self.best_cost)
        items = tuple(self._first_equal_items(self.best).tolist())
        return Cover(items, cost, cost if is_proven else min(cost, math.ceil(self.bound * (1 - 1e-9))))

    @property
    def _is_proven(self) -> bool:
        return self.best_cost - self.bound < 1  # costs are integers

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _first_cover(self) -> Items:
        """Offer a first cover, found with the same price for every dimension. Sets the prices to the level at which
        that cover is complete, and returns the items that are likely to matter to better prices."""
        rates, order, last = self._items_by_rate()
        self.prices = self.prices * float(rates[order[last]])
        self.offer(self._without_needless_items(order[: last + 1]))
        sufficient_alone = np.flatnonzero((self.supply >= self.demand[:, None]).all(axis=0))
        if len(sufficient_alone):
            self.offer(sufficient_alone[np.argmin(self.costs[sufficient_alone])][None])
        return self._promising_items(2 * last + _MAX_CORE // 4, order)

    def _items_by_rate(self) -> tuple[Floats, Items, int]:
        """The cost of every item per coverage at the present prices; the items with the best rates, in order; and the
        place in that order up to which the items cover the demand."""
        rates = self.costs / np.maximum(self.prices @ self.coverage, 1e-9)
        count = 4 * _MAX_CORE
        while True:
            order = np.argpartition(rates, count)[:count] if count < len(rates) else np.arange(len(rates))
            order = order[np.lexsort((order, rates[order]))]
            sums = np.cumsum(self.supply[:, order], axis=1)
            covered = np.flatnonzero((sums >= self.demand[:, None]).all(axis=0))
            if len(covered):
                return rates, order, int(covered[0])
            count *= 4

    def _promising_items(self, count: int, order: Items) -> Items:
        """The first items of an order, and the best ones of each dimension by itself."""
        is_promising = np.zeros(len(self.costs), np.bool_)
        is_promising[order[:count]] = True
        for line in self.coverage:
            if count < len(line):
                is_promising[np.argpartition(self.costs / np.maximum(line, 1e-9), count)[:count]] = True
        return np.flatnonzero(is_promising)

    def _find_prices(self, pool: Items) -> None:
        """Find the best prices for a pool of items. Then add the items outside of the pool that these prices would
        select, and repeat, until there are none: the bound has to hold for all items."""
        prices = self._first_prices(pool)
        for rounds in (_FIRST_ROUNDS, _MORE_ROUNDS, _MORE_ROUNDS, _MORE_ROUNDS):
            prices, pool_bound = self._raise_prices(prices, pool, rounds)
            reduced_costs = self.costs - prices @ self.coverage
            bound = float(prices.sum() + np.minimum(reduced_costs, 0.0).sum())
            if bound > self.bound:
                self.bound, self.prices = min(bound, self.best_cost), prices
            if self._is_proven or pool_bound - self.bound < 2e-3 * pool_bound:
                return
            pool = _union(len(reduced_costs), pool, np.flatnonzero(reduced_costs < 0))

    def _first_prices(self, pool: Items) -> Floats:
        """The prices with the best bound, of those that price all dimensions alike and those that price a single one.
        The best price of a single dimension is known exactly: it is the rate of the item that completes the cover."""
        costs, coverage = self.costs[pool].astype(np.float64), self.coverage[:, pool]
        best, best_bound = self.prices, -math.inf
        for weights in (np.ones(len(coverage)), *np.eye(len(coverage))):
            weighted = weights @ coverage
            rates = costs / np.maximum(weighted, 1e-12)
            order = np.argsort(rates)
            last = min(int(np.searchsorted(np.cumsum(weighted[order]), weights.sum())), len(order) - 1)
            prices = weights * rates[order[last]]
            bound = float(prices.sum() + np.minimum(costs - prices @ coverage, 0.0).sum())
            if bound > best_bound:
                best, best_bound = prices, bound
        return best

    def _raise_prices(self, prices: Floats, pool: Items, rounds: int) -> tuple[Floats, float]:
        """Better prices for a pool and their bound, by subgradient steps towards a level a little above the best bound.
        The level is lowered when it turns out to be out of reach."""
        costs, coverage = self.costs[pool].astype(np.float64), self.coverage[:, pool]
        best, best_bound, ahead, rounds_without_gain = prices, -math.inf, 0.1, 0
        for _ in range(rounds):
            reduced_costs = costs - prices @ coverage
            bound = float(prices.sum() + np.minimum(reduced_costs, 0.0).sum())
            rounds_without_gain += 1
            if bound > best_bound:
                best, best_bound, rounds_without_gain = prices, bound, 0
            elif rounds_without_gain >= _ROUNDS_WITHOUT_GAIN:
                prices, ahead, rounds_without_gain = best, ahead / 2, 0
                continue
            missing = 1.0 - coverage @ (reduced_costs < 0)
            slope = float(missing @ missing)
            if slope < 1e-18 or ahead < 1e-3 or best_bound >= self.best_cost:
                break
            level = min(self.best_cost, best_bound * (1 + ahead))
            prices = np.maximum(0.0, prices + (level - bound) / slope * missing)
        return best, best_bound

    def _core(self) -> tuple[Items, bool]:
        """The items that may be in a better cover, and True; or those of them that exceed their price least, and
        False, if there are too many."""
        reduced_costs = self.costs - self.prices @ self.coverage
        possible = np.flatnonzero(reduced_costs < self.best_cost - self.bound)
        if len(possible) > _MAX_CORE:
            costs = self.costs[possible]
            if _has_many_equal_costs(costs):
                limits = np.full(len(possible), self._max_items_below_best(np.sort(costs)))
                possible = possible[_first_of_equal_items(costs, self.supply[:, possible], limits)]
        if len(possible) <= _MAX_CORE:
            return possible, True
        return np.sort(possible[np.argpartition(reduced_costs[possible], _MAX_CORE)[:_MAX_CORE]]), False

    def _max_items_below_best(self, costs: Integers) -> int:
        """How many items of these costs, which are ascending, a better cover may have."""
        return int(np.searchsorted(np.cumsum(costs), self.best_cost)) + 1

    def _without_dominated(self, core: Items) -> Items:
        """The core without dominated items: those for which as many others cost no more and supply no less, in every
        dimension, as a better cover may have items."""
        costs, supply = self.costs[core], self.supply[:, core]
        max_items = self._max_items_below_best(np.sort(costs))
        dominates = (costs[:, None] < costs) | ((costs[:, None] == costs) & (core[:, None] < core))
        for line in supply:
            dominates &= line[:, None] >= line
        kept: Items = core[dominates.sum(axis=0) < max_items]
        return kept

    # --- covers -------------------------------------------------------------------------------------------------------

    def _search_greedily(self) -> None:
        """Offer covers that are found by these prices; for small covers, again with other first items."""
        if self.best_cost - self.bound <= _CLOSE_TO_BOUND * self.best_cost:
            return
        _, order, last = self._items_by_rate()
        pool, start = order[: 2 * last + 4 * _MAX_GREEDY_ITEMS], max(0, last - _MAX_GREEDY_ITEMS)
        self._complete_greedily(pool, start)
        for first in range(1, min(3, len(pool))):
            if not start and self.best_cost - self.bound > _CLOSE_TO_BOUND * self.best_cost:
                self._complete_greedily(np.roll(pool, -first), 1)

    def _exchange_items(self, core: Items) -> None:
        """Replace single items of the best cover by cheaper ones that keep it a cover, the largest gain first."""
        while self.best is not None and len(self.best) <= 4 * _MAX_GREEDY_ITEMS:
            chosen, others = self.best, core[np.isin(core, self.best, invert=True)]
            if not len(others):
                return
            spare = self.supply[:, chosen].sum(axis=1) - self.demand
            required = self.supply[:, chosen] - spare[:, None]
            gains = self.costs[chosen][:, None] - self.costs[others]
            for line, least in zip(self.supply[:, others], required, strict=True):
                gains[line < least[:, None]] = 0
            place, other = divmod(int(np.argmax(gains)), len(others))
            if gains[place, other] <= 0:
                return
            self.offer(self._without_needless_items(np.append(np.delete(chosen, place), others[other])))

    def _complete_greedily(self, pool: Items, start: int) -> None:
        """Take the first `start` items of a pool, then the item with the least cost for what is still missing, and so
        on. Whenever one item would complete the cover, offer the cover with the cheapest such item."""
        costs, supply = self.costs[pool].astype(np.float64), self.supply[:, pool]
        weights = self.prices[:-1] / self.demand
        chosen = list(range(start))
        missing = np.maximum(self.demand - supply[:, :start].sum(axis=1), 0)
        is_free = np.ones(len(pool), np.bool_)
        is_free[:start] = False
        spent = float(costs[:start].sum())
        while spent < self.best_cost and len(chosen) < self.max_items:
            useful = np.minimum(supply, missing[:, None])
            completes = is_free & (useful >= missing[:, None]).all(axis=0)
            if completes.any():
                final = int(np.argmin(np.where(completes, costs, np.inf)))
                if spent + costs[final] < self.best_cost:
                    self.offer(self._without_needless_items(pool[[*chosen, final]]))
            rates = np.where(is_free, costs / np.maximum(weights @ useful + self.prices[-1] * 1e-3, 1e-9), np.inf)
            item = int(np.argmin(rates))
            if not is_free[item]:
                return
            chosen.append(item)
            is_free[item] = False
            spent += costs[item]
            missing = np.maximum(missing - supply[:, item], 0)
            if not missing.any():
                break
        if not missing.any():
            self.offer(self._without_needless_items(pool[chosen]))

    def _without_needless_items(self, chosen: Items) -> Items:
        """The items without those that the cover does not need, of which the dearest go first."""
        spare = self.supply[:, chosen].sum(axis=1) - self.demand
        keep = np.ones(len(chosen), np.bool_)
        may_go = (self.supply[:, chosen] <= spare[:, None]).all(axis=0)
        for place in np.lexsort((-chosen, -self.costs[chosen])).tolist():
            if may_go[place] and (self.supply[:, chosen[place]] <= spare).all():
                spare, keep[place] = spare - self.supply[:, chosen[place]], False
        return chosen[keep]

    def offer(self, chosen: Items) -> None:
        """Remember a cover if it is the cheapest so far."""
        cost = int(self.costs[chosen].sum())
        if cost < self.best_cost and len(chosen) <= self.max_items:
            self.best, self.best_cost = chosen, cost

    def _first_equal_items(self, chosen: Items) -> Items:
        """The same cover with the first of all items that are equal in everything: ties are broken by order."""
        first_items: list[int] = []
        while len(chosen):
            item = chosen[0]
            equal = np.flatnonzero(self.costs == self.costs[item])
            equal = equal[(self.supply[:, equal] == self.supply[:, item, None]).all(axis=0)]
            is_equal = np.isin(chosen, equal) if len(equal) > 1 else chosen == item
            first_items += equal[: int(np.count_nonzero(is_equal))].tolist()
            chosen = chosen[~is_equal]
        return np.array(sorted(first_items), np.intp)

    # --- exact search -------------------------------------------------------------------------------------------------

    def _search_exactly(self, core: Items, effort: int) -> bool:
        """Look for a better cover among the core. Returns whether everything was tried."""
        tree = _BranchAndBound(self, core, effort)
        tree.branch(0, [], 0, [1.0] * len(self.coverage), self.demand.tolist())
        if tree.best_items is not None:
            self.offer(core[tree.order][tree.best_items])
        return tree.steps_left > 0


class _BranchAndBound:
    """Depth first over the items of a core, ordered by their cost above their price, so that equal items are
    neighbours. Plain Python lists: most steps touch a few numbers only, for which NumPy is slower."""

    def __init__(self, search: _CoverSearch, core: Items, effort: int) -> None:
        costs, coverage, supply = search.costs[core], search.coverage[:, core], search.supply[:, core]
        reduced_costs = costs - search.prices @ coverage
        self.order = np.lexsort((core, *supply, costs, reduced_costs))
        ordered = supply[:, self.order]
        self.costs: list[int] = costs[self.order].tolist()
        self.supply: list[list[int]] = ordered.T.tolist()
        self.coverage: list[list[float]] = coverage[:, self.order].T.tolist()
        self.prices: list[float] = search.prices.tolist()
        self.max_items, self.best_cost, self.steps_left = search.max_items, search.best_cost, effort
        equals_previous = (np.diff(ordered, axis=1) == 0).all(axis=0) & (np.diff(costs[self.order]) == 0)
        self.equals_previous: list[bool] = [False, *equals_previous.tolist()]
        gains = np.minimum(reduced_costs[self.order], 0.0)
        self.gains_from: list[float] = _sums_from_the_end(gains[None])[0].tolist()
        """By place: how much all items from there on can lower the bound at most."""
        self.supply_from: list[list[int]] = _sums_from_the_end(ordered).T.tolist()
        """By place: what all items from there on supply together."""
        self.best_items: list[int] | None = None

    def branch(self, start: int, taken: list[int], cost: int, missing: list[float], demand: list[int]) -> None:
        """Try every item from `start` on as the next one. `missing` and `demand` are what the items `taken` leave to be
        covered, as parts and as amounts."""
        owed = cost + math.fsum(price * part for price, part in zip(self.prices, missing, strict=True))
        for item in range(start, len(self.costs)):
            # The bound: no cover with these items and later ones is better. Neither is one with even later ones.
            if owed + self.gains_from[item] > self.best_cost - 1 + 1e-9 * self.best_cost or self.steps_left <= 0:
                return
            if any(needed > left for needed, left in zip(demand, self.supply_from[item], strict=True)):
                return
            if item > start and self.equals_previous[item]:
                continue
            self.steps_left -= 1
            self._take(item, taken, cost, missing, demand)

    def _take(self, item: int, taken: list[int], cost: int, missing: list[float], demand: list[int]) -> None:
        total = cost + self.costs[item]
        if total >= self.best_cost:
            return
        demand = [needed - supplied for needed, supplied in zip(demand, self.supply[item], strict=True)]
        if all(needed <= 0 for needed in demand):
            self.best_items, self.best_cost = [*taken, item], total
        elif len(taken) + 1 >= self.max_items:
            return
        elif len(taken) >= _MAX_DEPTH:
            self.steps_left = 0
        else:
            missing = [part - covered for part, covered in zip(missing, self.coverage[item], strict=True)]
            self.branch(item + 1, [*taken, item], total, missing, demand)


def _sums_from_the_end(lines: NDArray[np.generic]) -> NDArray[np.generic]:
    """For every place, the sum from there to the end."""
    sums: NDArray[np.generic] = np.cumsum(lines[:, ::-1], axis=1)[:, ::-1]
    return sums
