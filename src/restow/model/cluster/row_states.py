"""Row states: which rows have the same room, so that what was worked out for one of them holds for the others.

Goes in: the cells of ledgers that make up a row's state, whenever one of them changed. Comes out: a number per row,
equal for rows with equal cells. Most clusters have many nodes of one kind with pods of the same few workloads:
they have few states for their size, and the same states come again and again.

States that no row is in any more keep their numbers, until there are too many: then all rows get new numbers, and
`epoch` changes. What a caller keeps by number is void then. Where most rows turn out to have a state of their own,
nothing is `shared`, and states are not told apart, at no cost, until that is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.rows import Rows

_SPARE = 1024
"""How many states there may be beyond one for every other row."""
_ROWS_PER_STATE = 4
"""With fewer rows per state on average, states cost more than they save; up to half of the spare ones always pay."""
_PATIENCE = 16
"""How many changes per row are ignored before sharing is tried again."""


class RowStates:
    __slots__ = ("_ignored", "_lines", "_numbers", "_rows", "at", "epoch", "of_row", "shared")

    def __init__(self, rows: Rows, lines: Sequence[memoryview]) -> None:
        """`lines` are the cells by row that make up a state."""
        self._rows = rows
        self._ignored = 0
        self.epoch = 0
        self.shared = True
        """Whether `of_row` is kept up to date."""
        self.renew(lines)

    @property
    def most(self) -> int:
        """All numbers of an epoch are below this."""
        return len(self.of_row) // 2 + _SPARE

    def changed(self, row: int) -> None:
        """A cell of a row changed."""
        if not self.shared:
            self._ignored += 1
            if self._ignored > _PATIENCE * len(self.of_row):
                self.renew(self._lines)
        elif not self._number(row):
            self.renew(self._lines)

    def renew(self, lines: Sequence[memoryview]) -> None:
        """Number all states anew: any cell may have changed, and there may be more rows and more lines."""
        self.epoch += 1
        self._lines = lines
        self._ignored = 0
        self._numbers: dict[tuple[int, ...], int] = {(0,) * len(lines): 0}
        self.of_row: NDArray[np.int64] = np.zeros(self._rows.capacity, np.int64)
        self.at = self.of_row.data
        size = self._rows.size
        enough = all(map(self._number, range(size)))
        self.shared = enough and len(self._numbers) <= max(size // _ROWS_PER_STATE, _SPARE // 2)

    def _number(self, row: int) -> bool:
        """Give a row the number of its state; False if there are too many states."""
        cells = tuple([line[row] for line in self._lines])
        number = self._numbers.get(cells)
        if number is None:
            number = len(self._numbers)
            if number >= self.most:
                return False
            self._numbers[cells] = number
        self.at[row] = number
        return True
