"""States: which rows have the same room, so that what was worked out for one of them holds for the others.

Goes in: the cells of ledgers that make up a row's state, whenever one of them changed. Comes out: a number per row, the
same for rows whose cells are all equal. Most clusters have many nodes of one kind that take pods of the same few
workloads: they have few states for their size, and the same ones come again and again.

States that no row is in any more keep their numbers, until there are too many: then all rows get new ones, and `epoch`
changes. Whoever keeps something by number forgets it then. Where most rows turn out to be in a state of their own,
nothing is `shared`, and telling states apart costs nobody anything until it is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.rows import Rows

_SPARE = 1024
"""So many states there may be beyond one for every other row."""
_ROWS_PER_STATE = 4
"""With fewer rows to a state on average, states are not worth their upkeep; half of the spare ones always are."""
_PATIENCE = 16
"""So many changes for every row are let pass before it is tried again."""


class RowStates:
    __slots__ = ("_ignored", "_lines", "_numbers", "_rows", "at", "epoch", "of_row", "shared")

    def __init__(self, rows: Rows, lines: Sequence[memoryview]) -> None:
        """`lines` are the cells by row that make up a state."""
        self._rows = rows
        self._ignored = 0
        self.epoch = 0
        self.shared = True
        """Whether `of_row` tells anything."""
        self.renew(lines)

    @property
    def most(self) -> int:
        """All numbers of an epoch are below this."""
        return len(self.of_row) // 2 + _SPARE

    def changed(self, row: int) -> None:
        """A cell of a row is another now."""
        if not self.shared:
            self._ignored += 1
            if self._ignored > _PATIENCE * len(self.of_row):
                self.renew(self._lines)
        elif not self._number(row):
            self.renew(self._lines)

    def renew(self, lines: Sequence[memoryview]) -> None:
        """Any cell may be another now, and there may be more rows and more lines."""
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
        """Give a row the number of its state; False if there are too many."""
        cells = tuple([line[row] for line in self._lines])
        number = self._numbers.get(cells)
        if number is None:
            number = len(self._numbers)
            if number >= self.most:
                return False
            self._numbers[cells] = number
        self.at[row] = number
        return True
