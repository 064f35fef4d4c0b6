"""States: which rows have the same room, so that what was worked out for one of them holds for the others.

Goes in: the cells of ledgers that make up a row's state, whenever one of them changed. Comes out: a number per row, the
same for rows whose cells are all equal. A cluster has many nodes of one kind that take pods of the same few workloads,
so that it has few states for its size, and the same ones come again and again.

States that no row is in any more keep their numbers, until there are too many: then all rows get new ones, and `epoch`
changes. Whoever keeps something by number forgets it then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.rows import Rows

_SPARE = 1024
"""So many states there may be beyond one for every row."""


class States:
    __slots__ = ("_lines", "_numbers", "_rows", "at", "epoch", "of_row")

    def __init__(self, rows: Rows, lines: Sequence[memoryview]) -> None:
        """`lines` are the cells by row that make up a state."""
        self._rows = rows
        self.epoch = 0
        self.renew(lines)

    @property
    def most(self) -> int:
        """All numbers of an epoch are below this."""
        return len(self.of_row) + _SPARE

    def changed(self, row: int) -> None:
        """A cell of a row is another now."""
        cells = tuple([line[row] for line in self._lines])
        number = self._numbers.get(cells)
        if number is None:
            number = self._numbers[cells] = len(self._numbers)
            if number >= self.most:
                self.renew(self._lines)
                return
        self.at[row] = number

    def renew(self, lines: Sequence[memoryview]) -> None:
        """Any cell may be another now, and there may be more rows and more lines."""
        self.epoch += 1
        self._lines = lines
        self._numbers: dict[tuple[int, ...], int] = {(0,) * len(lines): 0}
        self.of_row: NDArray[np.int64] = np.zeros(self._rows.capacity, np.int64)
        self.at = self.of_row.data
        for row in range(self._rows.size):
            self.changed(row)
