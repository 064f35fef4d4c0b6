"""Which rows changed since when.

A generation counts row changes. `stamps[row]` is the generation of a row's latest change, and a journal lists the rows
in order of change, so that a reader that remembers the generation of its last read pays for the rows that changed
since, not for all rows. The journal is cut now and then; to look back beyond it, or over much of it, reads the stamps.

Generations only grow, also when a change is undone: a vector computed in between has read the tried value, so the row
must count as changed again.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.rows import Mask, RowIndex, Rows, extended_array

_JOURNAL_LIMIT = 8192
_FEW = 32  # below this a dict finds repetitions faster than arrays do
_VERY_FEW = 8  # so many rows take half the time one by one that they take as arrays
_MANY = 8  # with more than one change for so many rows, to read all stamps is faster


class RowChanges:
    __slots__ = ("_cut", "_journal", "generation", "stamps")

    def __init__(self, rows: Rows) -> None:
        self.generation = 0
        self.stamps: NDArray[np.int64] = np.zeros(rows.capacity, np.int64)
        self._journal = array("q")
        self._cut = 0  # the generations before this have no journal entry any more
        rows.on_growth(self._grow)

    def touch(self, row: int) -> None:
        """Record that a row changed."""
        self.generation += 1
        self.stamps[row] = self.generation
        self._journal.append(row)
        if len(self._journal) > _JOURNAL_LIMIT:
            half = len(self._journal) // 2
            del self._journal[:half]
            self._cut += half

    def only_since(self, generation: int) -> int | None:
        """The row that changed after `generation`, if there was one change only: the usual case between two pods."""
        return self._journal[-1] if generation + 1 == self.generation and self._journal else None

    def few_since(self, generation: int) -> Collection[int] | None:
        """The rows that changed after `generation`, each once, if they are very few: the usual case between two pods of
        a class while pods of several classes are placed in turn. None otherwise."""
        if self.generation - generation > _FEW or generation < self._cut:
            return None
        rows = dict.fromkeys(self._journal[generation - self._cut :])
        return rows if len(rows) <= _VERY_FEW else None

    def since(self, generation: int) -> RowIndex:
        """The rows that changed after `generation`, each once."""
        many = (self.generation - generation) * _MANY > len(self.stamps)
        if generation < self._cut or many:
            return np.flatnonzero(self.stamps > generation)
        recent = self._journal[generation - self._cut :]
        if len(recent) <= _FEW:
            return np.array(list(dict.fromkeys(recent)), np.intp)
        rows = np.frombuffer(recent, np.int64)
        latest: Mask = self.stamps[rows] == np.arange(generation + 1, self.generation + 1)
        newest: RowIndex = rows[latest]
        return newest

    def _grow(self, capacity: int) -> None:
        self.stamps = extended_array(self.stamps, capacity)


def changed_since(tracks: Sequence[RowChanges], seen: Sequence[int]) -> RowIndex:
    """The rows that changed in any of the tracks after the generations in `seen`, each once."""
    parts = [
        track.since(generation)
        for track, generation in zip(tracks, seen, strict=True)
        if track.generation != generation
    ]
    if len(parts) == 1:
        return parts[0]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.intp)
