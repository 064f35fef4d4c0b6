"""Pricing: which openings are worth more than what they use costs.

Goes in: a problem and prices of what openings compete for: moves, waiting pods of which there are few, places for
leavers. Comes out: per node the openings with the largest surplus. A place has a price because leavers need one; so
pods that come are wanted like waiting ones, and chains of moves are found without looking for them.

What takes the room of leavers is one of the bundles that need least for what they bring. All of it is arrays: one line
per combination of leavers, for all nodes. There can be more bundles than anybody has time for; `Toil` says when
to stop: openings may then be missed, and a bound is not told at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.optimal.node_patterns import DepartureSets, NodePattern
from restow.planning.optimal.packing_problem import UNLIMITED, Ints, PackingProblem, max_free
from restow.planning.optimal.search_budget import WorkLimit

Floats = NDArray[np.float64]

_BUNDLES = 400
"""Of one number of items, at most, while looking for openings."""
_TOIL = 6_000_000
"""Bundles that are looked at, again and again."""
_AT_ONCE = 1 << 22
_FITS = 1 << 31
"""Pairs of line and bundle that are looked at, at most."""
_LEAST = 1e-6
_BITS = 62


class DualPrices(msgspec.Struct, frozen=True, eq=False):
    move: float
    demands: Floats
    """Per demand, of one waiting pod."""
    class_places: Floats
    """Per class, of a place for a leaver."""
    nodes: Floats
    """Per node, of using it at all."""
    total: float
    """Of everything that is bought at these prices."""


class PricedPattern(msgspec.Struct, frozen=True):
    pattern: NodePattern
    reduced_cost: float


class _Items(msgspec.Struct, frozen=True, eq=False):
    """What could take room: waiting pods, and leavers of other nodes."""

    size: Ints
    gain: Floats
    suits: Mask
    """[item, node]."""
    most: Ints
    """How many of each there may be on one node."""
    number: RowIndex
    """The demand, or the class."""
    comes: Mask
    """Whether it is a class."""


class _Fillings(msgspec.Struct, frozen=True, eq=False):
    """Items together, the largest gain first."""

    size: Ints
    gain: Floats
    counts: NDArray[np.int16]
    """[bundle, item]."""
    barred: Ints
    """The ways in which its items keep it from nodes, as bits."""


def zero_prices(problem: PackingProblem, move: float = 0.0) -> DualPrices:
    """Prices at which only moves cost something, if at all."""
    classes, nodes = np.zeros(problem.class_count), np.zeros(problem.node_count)
    return DualPrices(move, np.zeros(len(problem.demands)), classes, nodes, 0.0)


def best_patterns(
    problem: PackingProblem,
    some: DepartureSets,
    prices: DualPrices,
    per_node: int = 2,
    *,
    is_late: DeadlineCheck = no_deadline,
) -> list[PricedPattern]:
    """The best openings of each node at these prices, if they are worth more than they cost; such as are found until
    it is late."""
    items = _items(problem, prices)
    if not len(items.gain):
        return []
    bundles = _bundles(items, max_free(problem).max(axis=0, initial=0), _BUNDLES, WorkLimit(_TOIL, is_late))
    cost = departure_costs(some, prices) + prices.nodes[some.node]
    worth, best = _best(some, bundles, _suits(items, bundles), cost, WorkLimit(_FITS, is_late))
    return [
        PricedPattern(_opening(problem, some, items, bundles, line, int(best[line])), float(worth[line]))
        for line in _top(some.node, worth, per_node)
    ]


def departure_costs(some: DepartureSets, prices: DualPrices) -> Floats:
    """Per line what it costs that its leavers go."""
    costs: Floats = np.append(prices.class_places + prices.move, 0.0)[some.departing_classes].sum(axis=1)
    return costs


def _items(problem: PackingProblem, prices: DualPrices) -> _Items:
    """Everything that gains something at these prices."""
    demands, unit = problem.demands, problem.unit
    gain = np.array([demand.value / unit for demand in demands]) - prices.demands
    wanted = [which for which in np.flatnonzero(gain > _LEAST).tolist() if demands[which].count > 0]
    coming = np.flatnonzero(prices.class_places > _LEAST).tolist()
    nothing = np.zeros((0, problem.free.shape[1]), np.int64)
    nowhere = np.zeros((0, problem.node_count), np.bool_)
    return _Items(
        size=np.vstack([nothing, *(demands[which].size for which in wanted), problem.class_sizes[coming]]),
        gain=np.concatenate([gain[wanted], prices.class_places[coming]]),
        suits=np.vstack(
            [nowhere, *(demands[which].allowed_nodes for which in wanted), *map(problem.allowed_nodes, coming)]
        ),
        most=np.array(
            [*(demands[which].max_per_node for which in wanted), *np.where(problem.one_per_node[coming], 1, UNLIMITED)]
        ),
        number=np.array([*wanted, *coming], np.intp),
        comes=np.arange(len(wanted) + len(coming)) >= len(wanted),
    )


def _bundles(items: _Items, largest: Ints, most: int, toil: WorkLimit) -> _Fillings:
    """Everything that could be together on a node, without what needs more than something else that gains more; of each
    number of items `most` at most, and no larger ones once the toil is over."""
    one = np.eye(len(items.gain), dtype=np.int16)
    single = _Fillings(items.size, items.gain, one, _barred(items.suits))
    single = _taken(single, (items.size <= largest).all(axis=1))
    kept = newest = _least(single, most, toil)
    while len(newest.gain) and toil.allows(_pairs(newest, single)):
        newest = _least(_grown(newest, single, items, largest), most, toil)
        kept = _joined(kept, newest)
    return _least(kept, len(kept.gain), toil)


def _pairs(some: _Fillings, single: _Fillings) -> int:
    """What it takes to look at each bundle with one item more: a row of so many numbers for every pair."""
    items: int = single.counts.shape[1]
    return len(some.gain) * len(single.gain) * (1 + items // 8)


def _grown(some: _Fillings, single: _Fillings, items: _Items, largest: Ints) -> _Fillings:
    """Each with one item more, not before the last it has."""
    last = len(items.gain) - 1 - np.argmax(some.counts[:, ::-1] > 0, axis=1)
    which = np.argmax(single.counts, axis=1)
    a, b = np.nonzero(last[:, None] <= which[None, :])
    counts = some.counts[a] + single.counts[b]
    size = some.size[a] + single.size[b]
    able = (size <= largest).all(axis=1) & (counts <= items.most).all(axis=1)
    a, b = a[able], b[able]
    return _Fillings(size[able], some.gain[a] + single.gain[b], counts[able], some.barred[a] | single.barred[b])


def _least(some: _Fillings, most: int, toil: WorkLimit) -> _Fillings:
    """Without those that need as much as another that gains as much and goes wherever they go. Once the toil is over,
    as they are."""
    left = np.argsort(-some.gain, kind="stable")
    kept: list[int] = []
    while len(left) and len(kept) < most and toil.allows(len(left)):
        first = int(left[0])
        kept.append(first)
        covered = (some.size[left] >= some.size[first]).all(axis=1)
        covered &= (some.barred[first] & ~some.barred[left]) == 0
        left = left[~covered]
    return _taken(some, np.array([*kept, *left[: most - len(kept)]], np.intp))


def _barred(suits: Mask) -> Ints:
    """A bit for each different set of nodes that an item is kept from; if there are many, some share one."""
    bits = np.zeros(len(suits), np.int64)
    known: dict[bytes, int] = {}
    for item in np.flatnonzero(~suits.all(axis=1)).tolist():
        bits[item] = 1 << known.setdefault(suits[item].tobytes(), len(known) % _BITS)
    return bits


def _suits(items: _Items, bundles: _Fillings) -> Mask | None:
    """[bundle, node]: where bundles may be; None for everywhere."""
    if items.suits.all() or not len(bundles.gain):
        return None
    return np.stack([items.suits[counts > 0].all(axis=0) for counts in bundles.counts])


def _taken(some: _Fillings, which: Any) -> _Fillings:
    return _Fillings(some.size[which], some.gain[which], some.counts[which], some.barred[which])


def _joined(one: _Fillings, other: _Fillings) -> _Fillings:
    return _Fillings(
        np.concatenate([one.size, other.size]),
        np.concatenate([one.gain, other.gain]),
        np.concatenate([one.counts, other.counts]),
        np.concatenate([one.barred, other.barred]),
    )


def _best(
    some: DepartureSets, bundles: _Fillings, suits: Mask | None, cost: Floats, toil: WorkLimit
) -> tuple[Floats, RowIndex]:
    """Per line the largest surplus, and the bundle that has it; -inf where there is none, or was no time to look."""
    worth, best = np.full(len(cost), -np.inf), np.zeros(len(cost), np.intp)
    promising = np.flatnonzero(cost < _at_most(some.free_after, bundles) - _LEAST)
    step = max(_AT_ONCE // max(len(bundles.gain), 1), 1)
    for first in range(0, len(promising), step):
        part = promising[first : first + step]
        if not toil.allows(len(part) * len(bundles.gain)):
            break
        room = some.free_after[part]
        fits = np.ones((len(part), len(bundles.gain)), np.bool_)
        for resource in range(room.shape[1]):
            fits &= room[:, resource, None] >= bundles.size[None, :, resource]
        if suits is not None:
            fits &= suits[:, some.node[part]].T
        chosen = fits.argmax(axis=1)
        found = fits[np.arange(len(part)), chosen]
        best[part] = chosen
        worth[part] = np.where(found, bundles.gain[chosen] - cost[part], -np.inf)
    return worth, best


def _at_most(room: Ints, bundles: _Fillings) -> Floats:
    """Per line a gain that no bundle exceeds there, by each resource alone."""
    most = np.full(len(room), bundles.gain.max(initial=0.0))
    for resource in range(room.shape[1]):
        order = np.argsort(bundles.size[:, resource], kind="stable")
        gains = np.append(0.0, np.maximum.accumulate(bundles.gain[order]))
        most = np.minimum(most, gains[np.searchsorted(bundles.size[order, resource], room[:, resource], side="right")])
    return most


def _top(node: RowIndex, worth: Floats, per_node: int) -> Sequence[int]:
    """The lines of the largest surpluses of each node."""
    good = np.flatnonzero(worth > _LEAST)
    order = good[np.lexsort((-worth[good], node[good]))]
    starts = np.searchsorted(node[order], node[order], side="left")
    chosen: list[int] = order[np.arange(len(order)) - starts < per_node].tolist()
    return chosen


def _opening(
    problem: PackingProblem, some: DepartureSets, items: _Items, bundles: _Fillings, line: int, bundle: int
) -> NodePattern:
    counts = bundles.counts[bundle]
    puts = [(int(items.number[one]), int(counts[one])) for one in np.flatnonzero(counts * ~items.comes).tolist()]
    comers = [(int(items.number[one]), int(counts[one])) for one in np.flatnonzero(counts * items.comes).tolist()]
    return NodePattern(
        node=int(some.node[line]),
        departing_classes=tuple(which for which in some.departing_classes[line].tolist() if which >= 0),
        placements=tuple(puts),
        arrivals=tuple(comers),
        value=sum(problem.demands[which].value * number for which, number in puts),
    )
