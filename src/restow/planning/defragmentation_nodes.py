"""Packing: which nodes Defragmentation empties, and which it fills.

Goes in: a snapshot and the settings of Defragmentation, then pods as they come to rows. Comes out: rows. Both
Defragmentation and those who must not undo its work go by it.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.snapshot import Snapshot
from restow.planning.arguments import DefragmentationSettings
from restow.planning.measures import ready_rows, name_ranks
from restow.planning.requested_usage import RequestedUsage

CRITICAL_LABEL = "critical"


class DefragmentationNodes:
    """Who is low and who is a target is of the beginning; how full a row may become is as of now."""

    def __init__(self, snapshot: Snapshot, settings: DefragmentationSettings) -> None:
        self.usage = use = RequestedUsage(snapshot, {*settings.low_thresholds, *settings.defragment_thresholds, *settings.protection_thresholds})
        ready = ready_rows(snapshot)
        self.low_rows: Mask = ready & use.rows_below(settings.low_thresholds)
        self.target_rows: Mask = ready & use.rows_above(settings.defragment_thresholds) & use.rows_below(settings.protection_thresholds)
        self.name_ranks = name_ranks(snapshot)
        self._snapshot = snapshot
        self._settings = settings

    @property
    def has_enough_sources(self) -> bool:
        """Whether enough nodes are low for anything to happen."""
        return int(self.low_rows.sum()) > self._settings.number_of_nodes

    def source_rows(self) -> RowIndex:
        """The rows to be emptied, least used first."""
        rows = np.flatnonzero(self.low_rows)
        order = np.lexsort((self.name_ranks[rows], self.usage.utilisation_rate(self._settings.resource, rows)))
        kept = [row for row in rows[order].tolist() if not self._is_critical(row)]
        return np.array(kept, np.intp)

    def emptied_rows(self) -> Mask:
        """Rows that are being emptied, or are empty and kept so."""
        mask = np.zeros_like(self.low_rows)
        if self.has_enough_sources:
            mask[self.source_rows()] = True
        return mask

    def would_become_source(self, pod: Occupant, row: int) -> bool:
        """Whether a row that is not low would be, and be emptied, without a pod."""
        return self.has_enough_sources and not self.low_rows[row] and self.usage.is_row_below(self._settings.low_thresholds, row, without=pod)

    def rows_accepting(self, pod: Occupant, rows: RowIndex) -> RowIndex:
        """Of these rows, the targets that the pod does not bring above protection."""
        rows = rows[self.target_rows[rows]]
        return rows[self.usage.rows_within(self._settings.protection_thresholds, pod, rows)]

    def most_used_first(self, rows: RowIndex) -> list[int]:
        """The rows, the most used first; by name where that is the same."""
        order = np.lexsort((self.name_ranks[rows], -self.usage.utilisation_rate(self._settings.resource, rows)))
        found: list[int] = rows[order].tolist()
        return found

    def _is_critical(self, row: int) -> bool:
        node = self._snapshot.nodes.get(row)
        return node is not None and (node.metadata.labels or {}).get(CRITICAL_LABEL) == "true"
