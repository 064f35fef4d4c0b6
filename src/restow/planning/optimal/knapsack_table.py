"""The unbounded knapsack by dynamic programming: the highest gain that a node's room of one resource can bring.

Goes in: what one item requests of the resource and what it gains, and the types of nodes that it may use. Comes out: a
`KnapsackTable`: by type of node and room the highest gain, and the items that it is made of.

It is an upper bound on the gain of everything that fits on a node, because the table relaxes the problem twice: items
do not run out, and all other resources are ignored. Requests are rounded down to grains, so that the table has a
limited number of entries; smaller requests only raise the bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex
from restow.planning.optimal.packing_problem import Ints

Floats = NDArray[np.float64]

_MAX_ENTRIES = 1 << 13
"""How many grains of room a table has at most."""


class _Item(msgspec.Struct, frozen=True, eq=False):
    number: int
    """The index among the items that were given."""
    grains: int
    used: NDArray[np.int16]
    """[type, grains of room]: how many of this item are in the best choice among the items up to this one."""


class KnapsackTable(msgspec.Struct, frozen=True, eq=False):
    grain: int
    gain: Floats
    """[type, grains of room]."""
    density: Floats
    """Per type: the highest gain per unit of room."""
    items: tuple[_Item, ...]

    def best_gains(self, types: RowIndex, room: Ints) -> Floats:
        """The highest gains of so much room on nodes of these types."""
        grains = np.minimum(np.maximum(room, 0) // self.grain, self.gain.shape[1] - 1)
        gain: Floats = self.gain[types, grains]
        return gain

    def item_counts(self, types: RowIndex, room: Ints) -> Iterator[tuple[int, Ints]]:
        """By item: how many of it the best choice for each of these rooms has."""
        left = np.minimum(np.maximum(room, 0) // self.grain, self.gain.shape[1] - 1)
        for item in reversed(self.items):
            used = item.used[types, left].astype(np.int64)
            left -= used * item.grains
            yield item.number, used


def build_knapsack_table(requests: Ints, gains: Floats, allowed: Mask, largest_room: int) -> KnapsackTable | None:
    """The table of items with these requests and gains, on types of nodes that allow them ([item, type]). None if an
    item requests nothing (its gain would be unlimited), or if the table would be too large."""
    grain = _grain(requests, largest_room)
    if grain is None:
        return None
    grains = requests // grain
    width = largest_room // grain + 1
    gain = np.zeros((allowed.shape[1], width))
    items = []
    for number in _undominated(grains, gains, allowed).tolist():
        if grains[number] < width:
            gain, used = _with_item(gain, int(grains[number]), float(gains[number]), allowed[number])
            items.append(_Item(number, int(grains[number]), used))
    density = np.where(allowed, (gains / requests)[:, None], 0.0).max(axis=0, initial=0.0)
    return KnapsackTable(grain, gain, density, tuple(items))


def _grain(requests: Ints, largest_room: int) -> int | None:
    """The greatest common divisor of the requests, if the table is then small enough; else the smallest possible grain.
    None if that is larger than a request, which would be rounded down to nothing."""
    if not len(requests) or (requests <= 0).any():
        return None
    divisor = int(np.gcd.reduce(requests))
    grain = divisor if largest_room // divisor < _MAX_ENTRIES else -(-largest_room // (_MAX_ENTRIES - 1))
    return grain if grain <= requests.min() else None


def _with_item(gain: Floats, grains: int, value: float, allowed: Mask) -> tuple[Floats, NDArray[np.int16]]:
    """The gains with any number of one more item, and that number.

    The recurrence is gain[r] = max over k of gain[r - k * grains] + k * value. Rooms with the same remainder modulo
    `grains` form a column; in it, gain[r] - (r // grains) * value turns the recurrence into a running maximum, so the
    whole table takes a few array operations instead of a loop over rooms.
    """
    types, width = gain.shape
    rows = -(-width // grains)
    padded = np.full((types, rows * grains), -np.inf)
    padded[:, :width] = gain
    turns = np.arange(rows)
    shifted = padded.reshape(types, rows, grains) - (turns * value)[None, :, None]
    best = np.maximum.accumulate(shifted, axis=1)
    start = np.maximum.accumulate(np.where(shifted >= best, turns[None, :, None], 0), axis=1)
    with_item = (best + (turns * value)[None, :, None]).reshape(types, -1)[:, :width]
    used = (turns[None, :, None] - start).astype(np.int16).reshape(types, -1)[:, :width]
    return np.where(allowed[:, None], with_item, gain), np.where(allowed[:, None], used, np.int16(0))


def _undominated(grains: Ints, gains: Floats, allowed: Mask) -> RowIndex:
    """The items that no other item dominates: one that requests no more, gains no less and may use the same nodes."""
    order = np.lexsort((grains, -gains))
    kept: list[int] = []
    for item in order.tolist():
        if not any(grains[other] <= grains[item] and not (allowed[item] & ~allowed[other]).any() for other in kept):
            kept.append(item)
    return np.array(sorted(kept, key=lambda item: (int(grains[item]), item)), np.intp)
