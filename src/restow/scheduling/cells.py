"""Cells: rows that are alike to every plugin that has to look at all rows, the keys of the ranking apart.

Goes in: what tells rows apart, a code per row (their domain of a topology key, their score by a preference), and the
keys of rows. Comes out: the largest key of each cell, and with it the one row of the cell that such plugins need be
asked about. A cluster has few cells (zones, nodes that meet a preference and nodes that do not), so that the best row
of all costs one look at the cells, and a changed row one look at its cell.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex
from restow.scheduling.blocks import Keys

_ROWS_PER_CELL = 8
"""With fewer rows to a cell on average, cells are not worth their upkeep."""


def too_many(cells: int, rows: int) -> bool:
    return cells * _ROWS_PER_CELL > rows


class Cells:
    __slots__ = ("_cell_of", "_rows", "_sorted", "_starts", "maxima")

    def __init__(self, cell_of: RowIndex, count: int) -> None:
        self._cell_of = cell_of
        self._sorted: RowIndex = np.argsort(cell_of, kind="stable")
        self._starts: RowIndex = np.searchsorted(cell_of[self._sorted], np.arange(count))
        self._rows = np.split(self._sorted, self._starts[1:])
        self.maxima: Keys = np.zeros(count, np.int64)
        """The largest key in each cell."""

    @classmethod
    def of(cls, codes: Iterable[NDArray[np.int64]], size: int) -> Cells | None:
        """The cells of the first `size` rows, each with its own combination of codes; None if that makes too many."""
        count, cell_of = min(size, 1), np.zeros(size, np.intp)
        for code in codes:
            values, each = np.unique(code[:size], return_inverse=True)
            combined, cell_of = np.unique(cell_of * len(values) + each.reshape(-1), return_inverse=True)
            count = len(combined)
            if too_many(count, size):
                return None
        return cls(cell_of.reshape(-1), count) if count else None

    def refresh(self, keys: Keys) -> None:
        """Any keys may have changed."""
        np.maximum.reduceat(keys.take(self._sorted), self._starts, out=self.maxima)

    def changed(self, row: int, old: int, keys: Keys) -> None:
        """The key of one row changed. Rows beyond those the cells were made of have no Node, so they are refused."""
        if row >= len(self._cell_of):
            return
        cell, new = self._cell_of.item(row), keys.item(row)
        if new >= self.maxima.item(cell):
            self.maxima[cell] = new
        elif old == self.maxima.item(cell):
            self.maxima[cell] = keys.take(self._rows[cell]).max()
