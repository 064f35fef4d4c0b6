"""Sums per topology domain, kept fresh: what affinity and spread count.

Goes in: a topology key, a function that gives the contribution of rows, and the change tracks it depends on. Comes out:
an array indexed by domain, which is the value id of the key's label column; id 0 collects the nodes that lack the key.
A look costs the rows that changed since the previous one: each gives back what it had contributed and contributes anew.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.changes import Changes, changed_since
from restow.model.cluster.labels import Ids
from restow.model.cluster.nodes import NodeTable
from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.cluster.rows import RowIndex, Rows, Which, grown

Counts = NDArray[np.int64]


class DomainSums:
    """The sum of the rows' contributions in each domain of one topology key."""

    def __init__(
        self, nodes: NodeTable, key: str, tracks: tuple[Changes, ...], contribution: Callable[[Which], Counts]
    ) -> None:
        self._rows = nodes.rows
        self._column = nodes.labels.column(key)
        self._contribution = contribution
        self._tracks = (nodes.changes, *tracks)
        self._seen = [0] * len(self._tracks)
        self._contributed: Counts = np.zeros(0, np.int64)
        self._domains: Ids = np.zeros(0, np.int32)
        self._sums: Counts = np.zeros(0, np.int64)

    def read(self) -> Counts:
        """The sums as of now, not writable."""
        self._reach(self._rows.capacity, len(self._column.values))
        generations = [track.generation for track in self._tracks]
        if generations != self._seen:
            self._catch_up(changed_since(self._tracks, self._seen))
            self._seen = generations
        view = self._sums[: len(self._column.values)]
        view.setflags(write=False)
        return view

    def _catch_up(self, changed: RowIndex) -> None:
        np.subtract.at(self._sums, self._domains[changed], self._contributed[changed])
        self._contributed[changed] = 0
        used = changed[changed < self._rows.size]
        self._contributed[used] = self._contribution(used)
        self._domains[used] = self._column.ids[used]
        np.add.at(self._sums, self._domains[used], self._contributed[used])

    def _reach(self, capacity: int, domains: int) -> None:
        if capacity > len(self._contributed):
            self._contributed = grown(self._contributed, capacity)
            self._domains = grown(self._domains, capacity)
        if domains > len(self._sums):
            self._sums = grown(self._sums, 2 * domains)


def counting(rows: Rows, occupancy: Occupancy, counts: Callable[[Occupant], bool]) -> Callable[[Which], Counts]:
    """The contribution "how many occupants are such": pods and held seats alike."""

    def contribution(which: Which) -> Counts:
        names = map(rows.name, rows.numbers(which))
        return np.array([occupancy.count(name, counts) if name else 0 for name in names], np.int64)

    return contribution
