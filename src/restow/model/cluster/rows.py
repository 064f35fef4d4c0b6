"""Rows: the index of each node in every array of the snapshot.

A node name keeps its row from the first thing known of it (the node, or a pod or seat that names it) until nothing is
known of it any more; then the row is used again, the latest freed first. Vectors over nodes have one entry per row
ever used (`size`), so a row may be unused; filters answer False there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.undo_log import UndoLog

RowIndex = NDArray[np.intp]
Which = RowIndex | slice
"""The rows to read: some, or with `Rows.every` all."""
Mask = NDArray[np.bool_]
S = TypeVar("S", bound=np.generic)


class Rows:
    __slots__ = ("_free", "_growth_listeners", "_log", "_names", "_rows", "capacity", "size")

    def __init__(self, log: UndoLog, capacity: int = 64) -> None:
        self._log = log
        self.capacity = capacity
        self.size = 0
        """One more than the largest row ever used."""
        self._growth_listeners: list[Callable[[int], None]] = []
        self._rows: dict[str, int] = {}
        self._names: list[str | None] = []
        self._free: list[int] = []

    @property
    def every(self) -> slice:
        """All rows, as an index into arrays over rows."""
        return slice(0, self.size)

    def numbers(self, which: Which) -> list[int]:
        """The numbers of these rows, as a list."""
        return list(range(self.size)) if isinstance(which, slice) else which.tolist()

    def on_growth(self, grow: Callable[[int], None]) -> None:
        """Have a function called with the new capacity when arrays over rows must become longer."""
        self._growth_listeners.append(grow)

    def find_row(self, name: str) -> int | None:
        return self._rows.get(name)

    def name(self, row: int) -> str | None:
        """The node name of a row; None for an unused row."""
        return self._names[row]

    def among(self, names: Iterable[str], which: Which) -> Mask:
        """Which of these rows belong to nodes of these names."""
        mask = np.zeros(self.size, np.bool_)
        mask[[row for name in names if (row := self._rows.get(name)) is not None]] = True
        return mask[which]

    def names(self) -> list[str]:
        """Every node name that has a row, sorted."""
        return sorted(self._rows)

    def ensure_row(self, name: str) -> int:
        """The row of a node name; a name without one gets an unused or a new row."""
        row = self._rows.get(name)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self._names[row] = name
            self._log.record(self.release, name)
        else:
            row = len(self._names)
            self._reach(row + 1)
            self._names.append(name)
            self.size = row + 1
            self._log.record(self._shrink, name)
        self._rows[name] = row
        return row

    def release(self, name: str) -> None:
        """Make the row of a node name unused. Its cells must be zero."""
        row = self._rows.pop(name)
        self._names[row] = None
        self._free.append(row)
        self._log.record(self.ensure_row, name)

    def _reach(self, size: int) -> None:
        if size > self.capacity:
            self.capacity *= 2
            for grow in self._growth_listeners:
                grow(self.capacity)

    def _shrink(self, name: str) -> None:
        del self._rows[name]
        self._names.pop()
        self.size -= 1


def extended_array(array: NDArray[S], capacity: int) -> NDArray[S]:
    """The array with its last axis, the rows, extended to `capacity` by zeros."""
    larger = np.zeros((*array.shape[:-1], capacity), array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger
