"""Fresh vectors: computed once over all nodes, then only for the rows that changed.

Goes in: a function that computes values for given rows, and the change tracks those values depend on. Comes out: the
whole vector, as of now. This is what makes the cost of a pod of a known class hardly grow with the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.changes import Changes
from restow.model.cluster.rows import RowIndex, Rows, S, Which


class Fresh(Generic[S]):
    """A vector over nodes that is brought up to date when read; readers must not write into it."""

    __slots__ = ("_compute", "_generations", "_rows", "_tracks", "_values")

    def __init__(self, rows: Rows, tracks: tuple[Changes, ...], compute: Callable[[Which], NDArray[S]]) -> None:
        self._rows = rows
        self._tracks = tracks
        self._compute = compute
        self._values: NDArray[S] | None = None
        self._generations: list[int] = []

    def read(self) -> NDArray[S]:
        size = self._rows.size
        values = self._values
        generations = [track.generation for track in self._tracks]
        if values is None or len(values) < size:
            values = self._recompute(size)
        elif generations != self._generations:
            changed = self._changed(size)
            if 2 * len(changed) < size:
                values[changed] = self._compute(changed)
            else:
                values = self._recompute(size)
        self._generations = generations
        view = values[:size]
        view.flags.writeable = False
        return view

    def _recompute(self, size: int) -> NDArray[S]:
        self._values = values = np.array(self._compute(slice(0, size)))
        return values

    def _changed(self, size: int) -> RowIndex:
        """Rows to compute again; rows past `size` belong to nodes whose addition was undone."""
        parts = [track.since(seen) for track, seen in zip(self._tracks, self._generations, strict=True)]
        changed = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return changed[changed < size]
