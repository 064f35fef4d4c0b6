"""Pricing, the subproblem of column generation: which patterns have a positive reduced cost at given dual prices?

Goes in: a problem, the enumerated departures of its nodes, and prices of what patterns compete for: moves, pending
pods, and places for departing pods. Comes out: per node the patterns with the highest reduced cost (value less prices).
Places have prices because departing pods need them, so a pattern that takes in pods of other nodes earns the price of a
place; that is how chains of moves are found without searching for chains.

What takes the freed room of a node is a filling: a multiset of items. Only fillings that no other one dominates are
tried (one that requests no more, gains no less and may use the same nodes). Everything is arrays, with one line per
combination of departing pods over all nodes. There can be far more fillings than there is time for, so a `WorkLimit`
stops the enumeration. Patterns may be missed then; no bound depends on them.
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

_FILLINGS_PER_SIZE = 400
"""Fillings with the same number of items, at most."""
_MAX_FILLING_WORK = 6_000_000
"""Fillings that are compared, at most, each as often as it is."""
_PAIRS_AT_ONCE = 1 << 22
_MAX_PAIRS = 1 << 31
"""Pairs of line and filling that are tried, at most."""
_TOLERANCE = 1e-6
_MASK_BITS = 62


class DualPrices(msgspec.Struct, frozen=True, eq=False):
    """The prices of the constraints of the master problem, in units of value."""

    move: float
    demands: Floats
    """Per demand: the price of placing one pod."""
    class_places: Floats
    """Per class: the price of a place for a departing pod."""
    nodes: Floats
    """Per node: the price of using a pattern on it."""
    total: float
    """The value of the linear relaxation that has these dual prices."""


class PricedPattern(msgspec.Struct, frozen=True):
    pattern: NodePattern
    reduced_cost: float
    """The value less the prices; positive if the pattern improves the linear relaxation."""


class _Items(msgspec.Struct, frozen=True, eq=False):
    """What can take room: pending pods, and departing pods of other nodes."""

    size: Ints
    gain: Floats
    allowed: Mask
    """[item, node]."""
    max_count: Ints
    """How many of each may be on one node."""
    number: RowIndex
    """The index of the demand, or of the class."""
    is_class: Mask


class _Fillings(msgspec.Struct, frozen=True, eq=False):
    """Multisets of items, those with the highest gain first."""

    size: Ints
    gain: Floats
    counts: NDArray[np.int16]
    """[filling, item]."""
    node_masks: Ints
    """The different sets of nodes that its items exclude, as bits."""


def zero_prices(problem: PackingProblem, move: float = 0.0) -> DualPrices:
    """Prices of 0 for everything but moves."""
    classes, nodes = np.zeros(problem.class_count), np.zeros(problem.node_count)
    return DualPrices(move, np.zeros(len(problem.demands)), classes, nodes, 0.0)


def best_patterns(
    problem: PackingProblem,
    departures: DepartureSets,
    prices: DualPrices,
    per_node: int = 2,
    *,
    is_late: DeadlineCheck = no_deadline,
) -> list[PricedPattern]:
    """The patterns of each node with the highest positive reduced costs, among those that are found until it is
    late."""
    items = _items(problem, prices)
    if not len(items.gain):
        return []
    largest_room = max_free(problem).max(axis=0, initial=0)
    fillings = _fillings(items, largest_room, _FILLINGS_PER_SIZE, WorkLimit(_MAX_FILLING_WORK, is_late))
    costs = departure_costs(departures, prices) + prices.nodes[departures.node]
    allowed = _allowed_nodes(items, fillings)
    reduced_costs, best = _best_fillings(departures, fillings, allowed, costs, WorkLimit(_MAX_PAIRS, is_late))
    return [
        PricedPattern(_pattern(problem, departures, items, fillings, line, int(best[line])), float(reduced_costs[line]))
        for line in _best_lines(departures.node, reduced_costs, per_node)
    ]


def departure_costs(departures: DepartureSets, prices: DualPrices) -> Floats:
    """Per line: the prices of the moves and of the places of its departing pods."""
    costs: Floats = np.append(prices.class_places + prices.move, 0.0)[departures.departing_classes].sum(axis=1)
    return costs


def _items(problem: PackingProblem, prices: DualPrices) -> _Items:
    """All items that gain something at these prices."""
    demands, unit = problem.demands, problem.unit
    gain = np.array([demand.value / unit for demand in demands]) - prices.demands
    wanted = [index for index in np.flatnonzero(gain > _TOLERANCE).tolist() if demands[index].count > 0]
    arriving = np.flatnonzero(prices.class_places > _TOLERANCE).tolist()
    nothing = np.zeros((0, problem.free.shape[1]), np.int64)
    nowhere = np.zeros((0, problem.node_count), np.bool_)
    max_arrivals = np.where(problem.one_per_node[arriving], 1, UNLIMITED)
    return _Items(
        size=np.vstack([nothing, *(demands[index].size for index in wanted), problem.class_sizes[arriving]]),
        gain=np.concatenate([gain[wanted], prices.class_places[arriving]]),
        allowed=np.vstack(
            [nowhere, *(demands[index].allowed_nodes for index in wanted), *map(problem.allowed_nodes, arriving)]
        ),
        max_count=np.array([*(demands[index].max_per_node for index in wanted), *max_arrivals]),
        number=np.array([*wanted, *arriving], np.intp),
        is_class=np.arange(len(wanted) + len(arriving)) >= len(wanted),
    )


def _fillings(items: _Items, largest_room: Ints, per_size: int, work: WorkLimit) -> _Fillings:
    """The undominated fillings that fit on some node: at most `per_size` of each number of items, and no larger ones
    once the work limit is reached."""
    unit_counts = np.eye(len(items.gain), dtype=np.int16)
    single = _Fillings(items.size, items.gain, unit_counts, _node_masks(items.allowed))
    single = _selected(single, (items.size <= largest_room).all(axis=1))
    kept = newest = _undominated(single, per_size, work)
    while len(newest.gain) and work.allows(_extension_work(newest, single)):
        newest = _undominated(_extended(newest, single, items, largest_room), per_size, work)
        kept = _joined(kept, newest)
    return _undominated(kept, len(kept.gain), work)


def _extension_work(fillings: _Fillings, single: _Fillings) -> int:
    """The work of adding one more item to each filling: every pair makes a row of counts."""
    items: int = single.counts.shape[1]
    return len(fillings.gain) * len(single.gain) * (1 + items // 8)


def _extended(fillings: _Fillings, single: _Fillings, items: _Items, largest_room: Ints) -> _Fillings:
    """Each filling with one more item. The new item does not come before its last one, so that each multiset is made
    once."""
    last = len(items.gain) - 1 - np.argmax(fillings.counts[:, ::-1] > 0, axis=1)
    item = np.argmax(single.counts, axis=1)
    a, b = np.nonzero(last[:, None] <= item[None, :])
    counts = fillings.counts[a] + single.counts[b]
    size = fillings.size[a] + single.size[b]
    possible = (size <= largest_room).all(axis=1) & (counts <= items.max_count).all(axis=1)
    a, b = a[possible], b[possible]
    masks = fillings.node_masks[a] | single.node_masks[b]
    return _Fillings(size[possible], fillings.gain[a] + single.gain[b], counts[possible], masks)


def _undominated(fillings: _Fillings, max_count: int, work: WorkLimit) -> _Fillings:
    """The fillings that no other one dominates; once the work limit is reached, the rest as it is."""
    left = np.argsort(-fillings.gain, kind="stable")
    kept: list[int] = []
    while len(left) and len(kept) < max_count and work.allows(len(left)):
        first = int(left[0])
        kept.append(first)
        # Those after it gain no more. It dominates the ones that also request as much and may not use other nodes.
        dominated = (fillings.size[left] >= fillings.size[first]).all(axis=1)
        dominated &= (fillings.node_masks[first] & ~fillings.node_masks[left]) == 0
        left = left[~dominated]
    return _selected(fillings, np.array([*kept, *left[: max_count - len(kept)]], np.intp))


def _node_masks(allowed: Mask) -> Ints:
    """Per item a bit for the set of nodes that it may not use; if there are many sets, some share a bit."""
    bits = np.zeros(len(allowed), np.int64)
    known: dict[bytes, int] = {}
    for item in np.flatnonzero(~allowed.all(axis=1)).tolist():
        bits[item] = 1 << known.setdefault(allowed[item].tobytes(), len(known) % _MASK_BITS)
    return bits


def _allowed_nodes(items: _Items, fillings: _Fillings) -> Mask | None:
    """[filling, node]: the nodes that a filling may use; None for all."""
    if items.allowed.all() or not len(fillings.gain):
        return None
    return np.stack([items.allowed[counts > 0].all(axis=0) for counts in fillings.counts])


def _selected(fillings: _Fillings, chosen: Any) -> _Fillings:
    return _Fillings(fillings.size[chosen], fillings.gain[chosen], fillings.counts[chosen], fillings.node_masks[chosen])


def _joined(fillings: _Fillings, more: _Fillings) -> _Fillings:
    return _Fillings(
        np.concatenate([fillings.size, more.size]),
        np.concatenate([fillings.gain, more.gain]),
        np.concatenate([fillings.counts, more.counts]),
        np.concatenate([fillings.node_masks, more.node_masks]),
    )


def _best_fillings(
    departures: DepartureSets, fillings: _Fillings, allowed: Mask | None, costs: Floats, work: WorkLimit
) -> tuple[Floats, RowIndex]:
    """Per line the highest reduced cost, and the filling that has it; -inf where there is none, or was no time left."""
    reduced_costs, best = np.full(len(costs), -np.inf), np.zeros(len(costs), np.intp)
    promising = np.flatnonzero(costs < _max_gains(departures.free_after, fillings) - _TOLERANCE)
    # In blocks, so that the matrix of lines and fillings does not get too large.
    step = max(_PAIRS_AT_ONCE // max(len(fillings.gain), 1), 1)
    for start in range(0, len(promising), step):
        part = promising[start : start + step]
        if not work.allows(len(part) * len(fillings.gain)):
            break
        room = departures.free_after[part]
        fits = np.ones((len(part), len(fillings.gain)), np.bool_)
        for resource in range(room.shape[1]):
            fits &= room[:, resource, None] >= fillings.size[None, :, resource]
        if allowed is not None:
            fits &= allowed[:, departures.node[part]].T
        # Fillings are in the order of their gains, so the first one that fits is the best one.
        chosen = fits.argmax(axis=1)
        exists = fits[np.arange(len(part)), chosen]
        best[part] = chosen
        reduced_costs[part] = np.where(exists, fillings.gain[chosen] - costs[part], -np.inf)
    return reduced_costs, best


def _max_gains(room: Ints, fillings: _Fillings) -> Floats:
    """Per line an upper bound on the gain of its fillings: the lowest one by a single resource."""
    highest = np.full(len(room), fillings.gain.max(initial=0.0))
    for resource in range(room.shape[1]):
        order = np.argsort(fillings.size[:, resource], kind="stable")
        gains = np.append(0.0, np.maximum.accumulate(fillings.gain[order]))
        fitting = np.searchsorted(fillings.size[order, resource], room[:, resource], side="right")
        highest = np.minimum(highest, gains[fitting])
    return highest


def _best_lines(node: RowIndex, reduced_costs: Floats, per_node: int) -> Sequence[int]:
    """The lines with the highest positive reduced costs of each node."""
    positive = np.flatnonzero(reduced_costs > _TOLERANCE)
    order = positive[np.lexsort((-reduced_costs[positive], node[positive]))]
    starts = np.searchsorted(node[order], node[order], side="left")
    chosen: list[int] = order[np.arange(len(order)) - starts < per_node].tolist()
    return chosen


def _pattern(
    problem: PackingProblem,
    departures: DepartureSets,
    items: _Items,
    fillings: _Fillings,
    line: int,
    filling: int,
) -> NodePattern:
    counts, number = fillings.counts[filling], items.number
    placements = [(int(number[item]), int(counts[item])) for item in np.flatnonzero(counts * ~items.is_class).tolist()]
    arrivals = [(int(number[item]), int(counts[item])) for item in np.flatnonzero(counts * items.is_class).tolist()]
    return NodePattern(
        node=int(departures.node[line]),
        departing_classes=tuple(each for each in departures.departing_classes[line].tolist() if each >= 0),
        placements=tuple(placements),
        arrivals=tuple(arrivals),
        value=sum(problem.demands[demand].value * count for demand, count in placements),
    )
