"""Cells: rows that are alike to every plugin whose scores must be compared with those of all other rows.

Goes in: the raw scores of rows, which change only when a Node does, and the keys of rows. Comes out: per cell its raw
scores and its largest key. A cluster has few cells (nodes that meet a preference and nodes that do not), so that the
best row of all costs one look at the cells, and a changed row one look at its cell.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex
from restow.scheduling.framework import ScorePlugin, Scores

Keys = NDArray[np.int64]

_ROWS_PER_CELL = 8
"""With fewer rows to a cell on average, cells are not worth their upkeep."""


class Cells:
    __slots__ = ("_cell_of", "_rows", "_sorted", "_starts", "maxima", "raw")

    def __init__(self, raw: Mapping[ScorePlugin, Scores], cell_of: RowIndex, firsts: RowIndex) -> None:
        self.raw = {plugin: scores[firsts] for plugin, scores in raw.items()}
        """The raw scores of each cell."""
        self._cell_of = cell_of
        self._sorted: RowIndex = np.argsort(cell_of, kind="stable")
        self._starts: RowIndex = np.searchsorted(cell_of[self._sorted], np.arange(len(firsts)))
        self._rows = np.split(self._sorted, self._starts[1:])
        self.maxima: Keys = np.zeros(len(firsts), np.int64)
        """The largest key in each cell."""

    @classmethod
    def of(cls, raw: Mapping[ScorePlugin, Scores], size: int) -> Cells | None:
        """The cells of the first `size` rows; None if there would be too many."""
        if size == 0:
            return None
        table = np.stack([scores[:size] for scores in raw.values()])
        _, firsts, cell_of = np.unique(table, axis=1, return_index=True, return_inverse=True)
        return cls(raw, cell_of.reshape(-1), firsts) if len(firsts) * _ROWS_PER_CELL <= size else None

    def refresh(self, keys: Keys) -> None:
        """Any keys may have changed."""
        np.maximum.reduceat(keys[self._sorted], self._starts, out=self.maxima)

    def changed(self, row: int, old: int, keys: Keys) -> None:
        """The key of one row changed. Rows beyond those the cells were made of have no Node, so they are refused."""
        if row >= len(self._cell_of):
            return
        cell, new = self._cell_of.item(row), keys.item(row)
        if new >= self.maxima.item(cell):
            self.maxima[cell] = new
        elif old == self.maxima.item(cell):
            self.maxima[cell] = keys[self._rows[cell]].max()
