"""Takings: the most that room of one resource can bring, when there are items to be had that each need some of it.

Goes in: what one item needs and brings, and on which types of nodes it may be. Comes out: a `Table` by type of node and
room, and what it is made of. Items do not run out and other resources are ignored, so nothing that really fits brings
more. What items need is rounded down to grains, so that a table has only so many entries.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex
from restow.planning.optimal.packing_problem import Ints

Floats = NDArray[np.float64]

_ENTRIES = 1 << 13
"""Grains of room, at most."""


class _Item(msgspec.Struct, frozen=True, eq=False):
    number: int
    """Among the items that were given."""
    grains: int
    used: NDArray[np.int16]
    """[type, grains of room]: how many there are, if only items up to this one may be."""


class KnapsackTable(msgspec.Struct, frozen=True, eq=False):
    grain: int
    gain: Floats
    """[type, grains of room]."""
    density: Floats
    """Per type, the most that one unit of room brings."""
    items: tuple[_Item, ...]

    def best_gains(self, types: RowIndex, room: Ints) -> Floats:
        """What so much room brings on nodes of these types."""
        grains = np.minimum(np.maximum(room, 0) // self.grain, self.gain.shape[1] - 1)
        gain: Floats = self.gain[types, grains]
        return gain

    def item_counts(self, types: RowIndex, room: Ints) -> Iterator[tuple[int, Ints]]:
        """By item, how many of it all of these rooms have together."""
        left = np.minimum(np.maximum(room, 0) // self.grain, self.gain.shape[1] - 1)
        for item in reversed(self.items):
            used = item.used[types, left].astype(np.int64)
            left -= used * item.grains
            yield item.number, used


def build_knapsack_table(needs: Ints, gains: Floats, allowed: Mask, largest: int) -> KnapsackTable | None:
    """The table of items that need so much of a resource and bring so much, on types of nodes that allow them
    ([item, type]); None where a table would be too large, or an item needs nothing."""
    grain = _grain(needs, largest)
    if grain is None:
        return None
    grains = needs // grain
    width = largest // grain + 1
    gain = np.zeros((allowed.shape[1], width))
    items = []
    for number in _undominated(grains, gains, allowed).tolist():
        if grains[number] < width:
            gain, used = _with(gain, int(grains[number]), float(gains[number]), allowed[number])
            items.append(_Item(number, int(grains[number]), used))
    density = np.where(allowed, (gains / needs)[:, None], 0.0).max(axis=0, initial=0.0)
    return KnapsackTable(grain, gain, density, tuple(items))


def _grain(needs: Ints, largest: int) -> int | None:
    """Something that divides what is needed, if that makes few enough entries; otherwise as small as may be."""
    if not len(needs) or (needs <= 0).any():
        return None
    divisor = int(np.gcd.reduce(needs))
    grain = divisor if largest // divisor < _ENTRIES else -(-largest // (_ENTRIES - 1))
    return grain if grain <= needs.min() else None


def _with(gain: Floats, grains: int, worth: float, allowed: Mask) -> tuple[Floats, NDArray[np.int16]]:
    """The gain with as many of one more item as is best, and how many that is. Rooms that differ by whole items are
    looked at together: so many of it in the larger are as good as fewer of it in the smaller."""
    types, width = gain.shape
    rows = -(-width // grains)
    padded = np.full((types, rows * grains), -np.inf)
    padded[:, :width] = gain
    turns = np.arange(rows)
    without = padded.reshape(types, rows, grains) - (turns * worth)[None, :, None]
    best = np.maximum.accumulate(without, axis=1)
    at = np.maximum.accumulate(np.where(without >= best, turns[None, :, None], 0), axis=1)
    with_it = (best + (turns * worth)[None, :, None]).reshape(types, -1)[:, :width]
    used = (turns[None, :, None] - at).astype(np.int16).reshape(types, -1)[:, :width]
    return np.where(allowed[:, None], with_it, gain), np.where(allowed[:, None], used, np.int16(0))


def _undominated(grains: Ints, gains: Floats, allowed: Mask) -> RowIndex:
    """Items, without those that need as much as another that brings as much and may be wherever they may be."""
    order = np.lexsort((grains, -gains))
    kept: list[int] = []
    for one in order.tolist():
        if not any(grains[other] <= grains[one] and not (allowed[one] & ~allowed[other]).any() for other in kept):
            kept.append(one)
    return np.array(sorted(kept, key=lambda one: (int(grains[one]), one)), np.intp)
