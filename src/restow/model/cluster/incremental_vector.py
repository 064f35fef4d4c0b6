"""Vectors over nodes that are computed once for all rows, and then only for the rows that changed.

Goes in: a function that computes values for given rows, and the change tracks that those values depend on. Comes out:
the whole vector, as of now. So the cost of a pod of a known class hardly grows with the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.row_changes import RowChanges, changed_since
from restow.model.cluster.rows import Rows, S, Which


class IncrementalVector(Generic[S]):
    """A vector over nodes that is brought up to date when it is read."""

    __slots__ = ("_compute", "_generations", "_rows", "_tracks", "_values")

    def __init__(self, rows: Rows, tracks: tuple[RowChanges, ...], compute: Callable[[Which], NDArray[S]]) -> None:
        self._rows = rows
        self._tracks = tracks
        self._compute = compute
        self._values = compute(np.zeros(0, np.intp))
        self._generations = [track.generation for track in tracks]

    def read(self) -> NDArray[S]:
        """The vector as of now, not writable."""
        size = self._rows.size
        generations = [track.generation for track in self._tracks]
        if len(self._values) != size:
            self._values = np.array(self._compute(self._rows.every))
        elif generations != self._generations:
            changed = changed_since(self._tracks, self._generations)
            used = changed[changed < size]  # the others belong to nodes whose addition was undone
            self._values[used] = self._compute(used)
        self._generations = generations
        view = self._values[:]
        view.setflags(write=False)
        return view
