"""Keys of rows in blocks of 128, with the maximum of each block.

Goes in: keys as they change. Comes out: the largest key of all, at the cost of one look at the maxima; a changed key
costs one look at its block at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex

BLOCK = 128
REFUSED = -1

Keys = NDArray[np.int64]


class KeyBlocks:
    """After a write to `keys`, `refresh_blocks_of` or `refresh_all` must follow; `set_key` does both for one row."""

    __slots__ = ("_best", "_blocks", "_keys_at", "_maxima_at", "keys", "maxima")

    def __init__(self, capacity: int) -> None:
        blocks = -(-max(capacity, 1) // BLOCK)
        self.keys: Keys = np.full(blocks * BLOCK, REFUSED, np.int64)
        self.maxima: Keys = np.full(blocks, REFUSED, np.int64)
        self._keys_at, self._maxima_at = self.keys.data, self.maxima.data
        self._blocks = self.keys.reshape(blocks, BLOCK)
        self._best: int | None = REFUSED
        """The largest key; None if it has to be looked for."""

    def best(self) -> int:
        """The largest key, REFUSED if every row is refused."""
        if self._best is None:
            self._best = self.maxima.item(self.maxima.argmax())
        return self._best

    def set_key(self, row: int, new: int) -> int:
        """Write the key of a row; the key before."""
        keys, maxima = self._keys_at, self._maxima_at
        old = keys[row]
        keys[row] = new
        block = row // BLOCK
        most, best = maxima[block], self._best
        if best is not None:
            # If the best key itself sank, the next best may be in any block: `best` looks for it when it is asked.
            self._best = new if new >= best else None if old == best else best
        if new >= most:
            maxima[block] = new
        elif old == most:
            block_keys = self._blocks[block]
            maxima[block] = block_keys.item(block_keys.argmax())  # in half the time that `max` takes
        return old

    def refresh_blocks_of(self, rows: RowIndex) -> None:
        """The keys of these rows were written: renew the maxima of their blocks."""
        if len(rows) > len(self.maxima):  # then most blocks have one of them
            self.refresh_all()
            return
        blocks = np.flatnonzero(np.bincount(rows // BLOCK))
        self.maxima[blocks] = np.maximum.reduce(self._blocks[blocks], axis=1)
        self._best = None

    def refresh_all(self) -> None:
        """All keys were written: renew all maxima."""
        np.maximum.reduce(self._blocks, axis=1, out=self.maxima)
        self._best = None
