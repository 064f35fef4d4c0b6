"""Packing: which nodes Defragmentation empties, and which it fills.

Goes in: a snapshot and the settings of Defragmentation, then pods as they come to rows. Comes out: rows. Both
Defragmentation and those who must not undo its work go by it.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex, Snapshot
from restow.planning.arguments import Defragmentation
from restow.planning.measures import is_ready, name_order
from restow.planning.use import Use

CRITICAL_LABEL = "critical"


class Packing:
    """Who is low and who is a target is of the beginning; how full a row may become is as of now."""

    def __init__(self, snapshot: Snapshot, settings: Defragmentation) -> None:
        self.use = use = Use(snapshot, {*settings.low, *settings.defragment, *settings.protection})
        ready = is_ready(snapshot)
        self.low: Mask = ready & use.below(settings.low)
        self.targets: Mask = ready & use.above(settings.defragment) & use.below(settings.protection)
        self.by_name = name_order(snapshot)
        self._snapshot = snapshot
        self._settings = settings

    @property
    def begins(self) -> bool:
        """Whether enough nodes are low for anything to happen."""
        return int(self.low.sum()) > self._settings.number_of_nodes

    def sources(self) -> RowIndex:
        """The rows to be emptied, least used first."""
        rows = np.flatnonzero(self.low)
        order = np.lexsort((self.by_name[rows], self.use.rate(self._settings.resource, rows)))
        kept = [row for row in rows[order].tolist() if not self._is_critical(row)]
        return np.array(kept, np.intp)

    def emptied(self) -> Mask:
        """Rows that are being emptied, or are empty and kept so."""
        mask = np.zeros_like(self.low)
        if self.begins:
            mask[self.sources()] = True
        return mask

    def becomes_low(self, pod: Occupant, row: int) -> bool:
        """Whether a row that is not low would be, and be emptied, without a pod."""
        return self.begins and not self.low[row] and self.use.is_below(self._settings.low, row, without=pod)

    def takers(self, pod: Occupant, rows: RowIndex) -> RowIndex:
        """Of these rows, the targets that the pod does not bring above protection."""
        rows = rows[self.targets[rows]]
        return rows[self.use.within(self._settings.protection, pod, rows)]

    def fullest_first(self, rows: RowIndex) -> list[int]:
        """The rows, the most used first; by name where that is the same."""
        order = np.lexsort((self.by_name[rows], -self.use.rate(self._settings.resource, rows)))
        found: list[int] = rows[order].tolist()
        return found

    def _is_critical(self, row: int) -> bool:
        node = self._snapshot.nodes.get(row)
        return node is not None and (node.metadata.labels or {}).get(CRITICAL_LABEL) == "true"
