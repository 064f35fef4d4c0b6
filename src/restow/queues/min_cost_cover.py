"""Covering: the cheapest items that together give at least what is needed, in every dimension.

Goes in: a cost and what it gives per item, the needs, how many items there may be at most, how much effort to spend,
and a cover that is known already, if any. Comes out: a cover, never dearer than the known one, its cost, and a bound
that no cover is below; where both are equal, it is the cheapest.

How it is found, for thousands of items in a few milliseconds:

    valid cuts    an item gives at most what is needed; at least as many items are needed as the largest that give
                  enough of one dimension. That number is one more dimension, in which every item gives 1
    bound         Lagrange: for any prices p >= 0, p·needs + the sum of what costs less than the prices pay for it,
                  min(0, cost - p·gives), is a bound. Prices are raised where too little is given, lowered elsewhere.
                  At the best prices this is the linear relaxation, which has at most one split item per dimension:
                  the cheapest cover is above it by less than that many items
    core          an item whose cost above the prices exceeds what is left between cover and bound is in no better
                  cover; nor need one be that is no better in anything than as many others as a cover has items
    covers        item by item, the least cost for what is still missing at these prices; the last one is the cheapest
                  of all that suffice; then without what is not needed
    exactly       the core is tried, depth first, cut by the same bound, until nothing is left to try or the effort is
                  spent. Items that are equal in everything are one class: earlier ones are taken before later ones

Costs are integers, so that equal covers are equal whatever the order they are summed in. Same input, same cover.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Items = NDArray[np.intp]

_FIRST_ROUNDS, _MORE_ROUNDS, _PATIENCE = 40, 16, 3
_CORE = 128
"""As many items are looked at closely; where more might be in a better cover, the cheapest is not proven."""
_CLOSE = 0.01
"""A cover so close to the bound is left to exchanges and to the search."""
_DEEPEST = 200
"""The search does not recurse deeper; larger covers are close to their bound without it."""
_BY_ONE = 24
"""As many items of a cover are chosen one by one; those before them by their rate alone."""


class Cover(msgspec.Struct, frozen=True):
    """Items that cover the needs, in ascending order."""

    items: tuple[int, ...]
    cost: int
    bound: int
    """No cover costs less."""

    @property
    def gap(self) -> float:
        """How much of the cost is not proven to be needed, at most."""
        return (self.cost - self.bound) / self.cost if self.cost else 0.0


def find_cover(
    costs: Integers, gives: Integers, needs: Integers, *, most: int, effort: int, known: Items | None = None
) -> Cover | None:
    """The cheapest cover found: of `gives[dimension][item]` at least `needs`, each above 0, by at most `most` items.

    None when there is none, or when the limit of items is so tight that none was found within the effort. Costs are
    positive.
    """
    given = np.minimum(gives, needs[:, None])
    fewest = _fewest(given, needs)
    if fewest is None or fewest > most:
        return None
    start = np.array([], np.intp) if known is None else known
    kept = np.arange(len(costs))
    if _are_alike(costs):
        # As many as would be enough without any others: a cover without needless items has no more of a kind.
        alone = np.where(given > 0, -(-needs[:, None] // np.maximum(given, 1)), 0).max(axis=0)
        kept = _either(len(costs), _few_of_a_kind(costs, given, alone), start)
        costs, given = costs[kept], given[:, kept]
    search = _Search(costs, given, needs, fewest, most)
    if (given[:, np.searchsorted(kept, start)].sum(axis=1) >= needs).all():
        search.offer(np.searchsorted(kept, start))
    found = search.run(effort)
    return found and msgspec.structs.replace(found, items=tuple(kept[list(found.items)].tolist()))


def _either(number: int, *some: Items) -> Items:
    """Whichever of so many items is among some, in ascending order."""
    chosen = np.zeros(number, np.bool_)
    for items in some:
        chosen[items] = True
    return np.flatnonzero(chosen)


def _are_alike(costs: Integers) -> bool:
    """Whether many items cost the same."""
    ascending = np.sort(costs)
    return int(np.count_nonzero(ascending[1:] == ascending[:-1])) >= max(len(costs) // 4, 1)


def _few_of_a_kind(costs: Integers, given: Integers, limits: Integers) -> Items:
    """Of items that are equal in everything, the first, at most as many as their limit."""
    order = np.lexsort((*given, costs))
    new = (np.diff(given[:, order], axis=1, prepend=-1) != 0).any(axis=0)
    new |= np.diff(costs[order], prepend=-1) != 0
    places = np.arange(len(order))
    nth = places - np.maximum.accumulate(np.where(new, places, 0))
    return np.sort(order[nth < limits[order]])


def _fewest(given: Integers, needs: Integers) -> int | None:
    """How many items are needed at least; None if all together are not enough."""
    fewest = 0
    for line, need in zip(given, needs, strict=True):
        if int(line.sum()) < need:
            return None
        sums = np.cumsum(_largest_first(line, need))
        fewest = max(fewest, int(np.searchsorted(sums, need)) + 1)
    return fewest


def _largest_first(line: Integers, need: int) -> Integers:
    """The largest numbers of a line, as many as are needed or more."""
    if len(line) > 2 * _CORE:
        top = np.partition(line, len(line) - _CORE)[-_CORE:]
        line = top if int(top.sum()) >= need else line
    return np.sort(line)[::-1]


class _Search:
    def __init__(self, costs: Integers, given: Integers, needs: Integers, fewest: int, most: int) -> None:
        self.costs, self.given, self.needs = costs, given, needs
        self.most = most
        self.worth: Floats = np.vstack([given / needs[:, None], np.full((1, len(costs)), 1 / fewest)])
        """What an item gives, as part of the need; the last line counts items."""
        self.best: Items | None = None
        self.best_cost = math.inf
        self.bound = 0.0
        self.prices: Floats = np.ones(len(self.worth))

    def run(self, effort: int) -> Cover | None:
        self._find_prices(self._begin())
        self._gather()
        core, _ = self._core()
        self._exchange(core)
        core, whole = self._core()
        proven = self._is_proven or (self._try_all(self._undominated(core), effort) and whole)
        if self.best is None:
            return None
        cost = int(self.best_cost)
        items = tuple(self._earliest(self.best).tolist())
        return Cover(items, cost, cost if proven else min(cost, math.ceil(self.bound * (1 - 1e-9))))

    @property
    def _is_proven(self) -> bool:
        return self.best_cost - self.bound < 1

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _begin(self) -> Items:
        """A first cover, all dimensions being worth the same; the price at which it is complete; and the items that
        are likely to matter to the prices."""
        rates, order, last = self._by_rate()
        self.prices = self.prices * float(rates[order[last]])
        self.offer(self._without_needless(order[: last + 1]))
        alone = np.flatnonzero((self.given >= self.needs[:, None]).all(axis=0))
        if len(alone):
            self.offer(alone[np.argmin(self.costs[alone])][None])
        return self._promising(2 * last + _CORE // 4, order)

    def _by_rate(self) -> tuple[Floats, Items, int]:
        """What items cost for what they give at these prices; those of the best rates in order, and how many of them,
        less one, are enough."""
        rates = self.costs / np.maximum(self.prices @ self.worth, 1e-9)
        some = 4 * _CORE
        while True:
            order = np.argpartition(rates, some)[:some] if some < len(rates) else np.arange(len(rates))
            order = order[np.lexsort((order, rates[order]))]
            sums = np.cumsum(self.given[:, order], axis=1)
            enough = np.flatnonzero((sums >= self.needs[:, None]).all(axis=0))
            if len(enough):
                return rates, order, int(enough[0])
            some *= 4

    def _promising(self, number: int, order: Items) -> Items:
        """The first of an order, and the best of each dimension by itself."""
        chosen = np.zeros(len(self.costs), np.bool_)
        chosen[order[:number]] = True
        for line in self.worth:
            if number < len(line):
                chosen[np.argpartition(self.costs / np.maximum(line, 1e-9), number)[:number]] = True
        return np.flatnonzero(chosen)

    def _find_prices(self, pool: Items) -> None:
        """Prices that are best for a pool, with whatever they leave out that matters added, until nothing does."""
        prices = self._first_prices(pool)
        for rounds in (_FIRST_ROUNDS, _MORE_ROUNDS, _MORE_ROUNDS, _MORE_ROUNDS):
            prices, hoped = self._raise_prices(prices, pool, rounds)
            reduced = self.costs - prices @ self.worth
            bound = float(prices.sum() + np.minimum(reduced, 0.0).sum())
            if bound > self.bound:
                self.bound, self.prices = min(bound, self.best_cost), prices
            if self._is_proven or hoped - self.bound < 2e-3 * hoped:
                return
            pool = _either(len(reduced), pool, np.flatnonzero(reduced < 0))

    def _first_prices(self, pool: Items) -> Floats:
        """Of all dimensions alike and of each by itself, the prices with the best bound: each is exact on its own."""
        costs, worth = self.costs[pool].astype(np.float64), self.worth[:, pool]
        best, best_bound = self.prices, -math.inf
        for weights in (np.ones(len(worth)), *np.eye(len(worth))):
            gifts = weights @ worth
            rates = costs / np.maximum(gifts, 1e-12)
            order = np.argsort(rates)
            last = min(int(np.searchsorted(np.cumsum(gifts[order]), weights.sum())), len(order) - 1)
            prices = weights * rates[order[last]]
            bound = float(prices.sum() + np.minimum(costs - prices @ worth, 0.0).sum())
            if bound > best_bound:
                best, best_bound = prices, bound
        return best

    def _raise_prices(self, prices: Floats, pool: Items, rounds: int) -> tuple[Floats, float]:
        """Better prices for a pool and its bound, by steps towards a level that is lowered when it is out of reach."""
        costs, worth = self.costs[pool].astype(np.float64), self.worth[:, pool]
        best, best_bound, ahead, idle = prices, -math.inf, 0.1, 0
        for _ in range(rounds):
            reduced = costs - prices @ worth
            bound = float(prices.sum() + np.minimum(reduced, 0.0).sum())
            idle += 1
            if bound > best_bound:
                best, best_bound, idle = prices, bound, 0
            elif idle >= _PATIENCE:
                prices, ahead, idle = best, ahead / 2, 0
                continue
            missing = 1.0 - worth @ (reduced < 0)
            slope = float(missing @ missing)
            if slope < 1e-18 or ahead < 1e-3 or best_bound >= self.best_cost:
                break
            level = min(self.best_cost, best_bound * (1 + ahead))
            prices = np.maximum(0.0, prices + (level - bound) / slope * missing)
        return best, best_bound

    def _core(self) -> tuple[Items, bool]:
        """Items that may be in a better cover, or those of them that cost least above the prices; and whether all."""
        reduced = self.costs - self.prices @ self.worth
        close = np.flatnonzero(reduced < self.best_cost - self.bound)
        if len(close) > _CORE:
            costs = self.costs[close]
            limits = np.full(len(close), self._largest(np.sort(costs)))
            close = close[_few_of_a_kind(costs, self.given[:, close], limits)] if _are_alike(costs) else close
        if len(close) <= _CORE:
            return close, True
        return np.sort(close[np.argpartition(reduced[close], _CORE)[:_CORE]]), False

    def _largest(self, costs: Integers) -> int:
        """How many of these items, by ascending cost, a better cover may have."""
        return int(np.searchsorted(np.cumsum(costs), self.best_cost)) + 1

    def _undominated(self, core: Items) -> Items:
        """Without items that are no better in anything than as many others as a cheaper cover may have."""
        costs, given = self.costs[core], self.given[:, core]
        largest = self._largest(np.sort(costs))
        before = (costs[:, None] < costs) | ((costs[:, None] == costs) & (core[:, None] < core))
        for line in given:
            before &= line[:, None] >= line
        kept: Items = core[before.sum(axis=0) < largest]
        return kept

    # --- covers -------------------------------------------------------------------------------------------------------

    def _gather(self) -> None:
        """Covers by these prices: for what is missing the least cost, and again with other first items."""
        if self.best_cost - self.bound <= _CLOSE * self.best_cost:
            return
        _, order, last = self._by_rate()
        pool, begin = order[: 2 * last + 4 * _BY_ONE], max(0, last - _BY_ONE)
        self._one_by_one(pool, begin)
        for first in range(1, min(3, len(pool))):
            if not begin and self.best_cost - self.bound > _CLOSE * self.best_cost:
                self._one_by_one(np.roll(pool, -first), 1)

    def _exchange(self, core: Items) -> None:
        """Single items of the best cover for cheaper ones that do as well, the largest gain first."""
        while self.best is not None and len(self.best) <= 4 * _BY_ONE:
            chosen, others = self.best, core[np.isin(core, self.best, invert=True)]
            if not len(others):
                return
            least = self.given[:, chosen] - (self.given[:, chosen].sum(axis=1) - self.needs)[:, None]
            gains = self.costs[chosen][:, None] - self.costs[others]
            for line, lowest in zip(self.given[:, others], least, strict=True):
                gains[line < lowest[:, None]] = 0
            place, other = divmod(int(np.argmax(gains)), len(others))
            if gains[place, other] <= 0:
                return
            self.offer(self._without_needless(np.append(np.delete(chosen, place), others[other])))

    def _one_by_one(self, pool: Items, begin: int) -> None:
        costs, given = self.costs[pool].astype(np.float64), self.given[:, pool]
        weights = self.prices[:-1] / self.needs
        chosen = list(range(begin))
        missing = np.maximum(self.needs - given[:, :begin].sum(axis=1), 0)
        free = np.ones(len(pool), np.bool_)
        free[:begin] = False
        spent = float(costs[:begin].sum())
        while spent < self.best_cost and len(chosen) < self.most:
            useful = np.minimum(given, missing[:, None])
            sufficient = free & (useful >= missing[:, None]).all(axis=0)
            if sufficient.any():
                final = int(np.argmin(np.where(sufficient, costs, np.inf)))
                if spent + costs[final] < self.best_cost:
                    self.offer(self._without_needless(pool[[*chosen, final]]))
            rates = np.where(free, costs / np.maximum(weights @ useful + self.prices[-1] * 1e-3, 1e-9), np.inf)
            step = int(np.argmin(rates))
            if not free[step]:
                return
            chosen.append(step)
            free[step] = False
            spent += costs[step]
            missing = np.maximum(missing - given[:, step], 0)
            if not missing.any():
                break
        if not missing.any():
            self.offer(self._without_needless(pool[chosen]))

    def _without_needless(self, chosen: Items) -> Items:
        """Less whatever is not needed, the dearest first."""
        spare = self.given[:, chosen].sum(axis=1) - self.needs
        keep = np.ones(len(chosen), np.bool_)
        able = (self.given[:, chosen] <= spare[:, None]).all(axis=0)
        for place in np.lexsort((-chosen, -self.costs[chosen])).tolist():
            if able[place] and (self.given[:, chosen[place]] <= spare).all():
                spare, keep[place] = spare - self.given[:, chosen[place]], False
        return chosen[keep]

    def offer(self, chosen: Items) -> None:
        """A cover: the best if it is cheaper than the others."""
        cost = int(self.costs[chosen].sum())
        if cost < self.best_cost and len(chosen) <= self.most:
            self.best, self.best_cost = chosen, cost

    def _earliest(self, chosen: Items) -> Items:
        """The same with the first of those items that are equal in everything."""
        found: list[int] = []
        while len(chosen):
            item = chosen[0]
            equal = np.flatnonzero(self.costs == self.costs[item])
            equal = equal[(self.given[:, equal] == self.given[:, item, None]).all(axis=0)]
            taken = np.isin(chosen, equal) if len(equal) > 1 else chosen == item
            found += equal[: int(np.count_nonzero(taken))].tolist()
            chosen = chosen[~taken]
        return np.array(sorted(found), np.intp)

    # --- exactly ------------------------------------------------------------------------------------------------------

    def _try_all(self, core: Items, effort: int) -> bool:
        """Look for a better cover among the core; whether the cheapest is proven."""
        tree = _Tree(self, core, effort)
        tree.descend(0, [], 0, [1.0] * len(self.worth), self.needs.tolist())
        if tree.found is not None:
            self.offer(core[tree.order][tree.found])
        return tree.left > 0


class _Tree:
    """Depth first, over the items of a core by cost above prices, so that equal ones are neighbours."""

    def __init__(self, search: _Search, core: Items, effort: int) -> None:
        costs, worth, given = search.costs[core], search.worth[:, core], search.given[:, core]
        reduced = costs - search.prices @ worth
        self.order = np.lexsort((core, *given, costs, reduced))
        ordered = given[:, self.order]
        self.costs: list[int] = costs[self.order].tolist()
        self.given: list[list[int]] = ordered.T.tolist()
        self.worth: list[list[float]] = worth[:, self.order].T.tolist()
        self.prices: list[float] = search.prices.tolist()
        self.most, self.best, self.left = search.most, search.best_cost, effort
        same = (np.diff(ordered, axis=1) == 0).all(axis=0) & (np.diff(costs[self.order]) == 0)
        self.same: list[bool] = [False, *same.tolist()]
        self.cheap: list[float] = _from_the_end(np.minimum(reduced[self.order], 0.0)[None])[0].tolist()
        self.after: list[list[int]] = _from_the_end(ordered).T.tolist()
        self.found: list[int] | None = None

    def descend(self, start: int, taken: list[int], cost: int, missing: list[float], needs: list[int]) -> None:
        """Try every item from `start` on as the next one."""
        owed = cost + math.fsum(price * part for price, part in zip(self.prices, missing, strict=True))
        for item in range(start, len(self.costs)):
            if owed + self.cheap[item] > self.best - 1 + 1e-9 * self.best or self.left <= 0:
                return
            if any(need > there for need, there in zip(needs, self.after[item], strict=True)):
                return
            if item > start and self.same[item]:
                continue
            self.left -= 1
            self._take(item, taken, cost, missing, needs)

    def _take(self, item: int, taken: list[int], cost: int, missing: list[float], needs: list[int]) -> None:
        total = cost + self.costs[item]
        if total >= self.best:
            return
        needs = [need - gift for need, gift in zip(needs, self.given[item], strict=True)]
        if all(need <= 0 for need in needs):
            self.found, self.best = [*taken, item], total
        elif len(taken) + 1 >= self.most:
            return
        elif len(taken) >= _DEEPEST:
            self.left = 0
        else:
            missing = [part - gift for part, gift in zip(missing, self.worth[item], strict=True)]
            self.descend(item + 1, [*taken, item], total, missing, needs)


def _from_the_end(lines: NDArray[np.generic]) -> NDArray[np.generic]:
    """For every place, the sum from there on."""
    sums: NDArray[np.generic] = np.cumsum(lines[:, ::-1], axis=1)[:, ::-1]
    return sums
