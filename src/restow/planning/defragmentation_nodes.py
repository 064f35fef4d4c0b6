"""Which nodes the plugin Defragmentation empties (sources), and which it fills (targets).

Goes in: a snapshot and the settings of Defragmentation, then pods as they are added to rows or removed. Comes out:
rows. Defragmentation itself uses it, and the other plugins, which must not undo its work (`peer_constraints`).
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.snapshot import Snapshot
from restow.planning.arguments import DefragmentationSettings
from restow.planning.measures import name_ranks, ready_rows
from restow.planning.requested_usage import RequestedUsage

CRITICAL_LABEL = "critical"


class DefragmentationNodes:
    """Sources and targets are chosen once, by the usage at the beginning. The usage against the protection thresholds
    is kept up to date while moves are planned."""

    def __init__(self, snapshot: Snapshot, settings: DefragmentationSettings) -> None:
        low, defragment, protection = (
            settings.low_thresholds,
            settings.defragment_thresholds,
            settings.protection_thresholds,
        )
        self.usage = usage = RequestedUsage(snapshot, {*low, *defragment, *protection})
        ready = ready_rows(snapshot)
        self.low_rows: Mask = ready & usage.rows_below(low)
        self.target_rows: Mask = ready & usage.rows_above(defragment) & usage.rows_below(protection)
        self.name_ranks = name_ranks(snapshot)
        self._snapshot = snapshot
        self._settings = settings

    @property
    def has_enough_sources(self) -> bool:
        """Whether more nodes are below the low thresholds than `numberOfNodes`, so that the plugin starts at all."""
        return int(self.low_rows.sum()) > self._settings.number_of_nodes

    def source_rows(self) -> RowIndex:
        """The rows to empty, the least used first."""
        rows = np.flatnonzero(self.low_rows)
        order = np.lexsort((self.name_ranks[rows], self.usage.utilisation_rate(self._settings.resource, rows)))
        sources = [row for row in rows[order].tolist() if not self._is_critical(row)]
        return np.array(sources, np.intp)

    def emptied_rows(self) -> Mask:
        """Rows that are being emptied, or are empty and stay so."""
        mask = np.zeros_like(self.low_rows)
        if self.has_enough_sources:
            mask[self.source_rows()] = True
        return mask

    def would_become_source(self, pod: Occupant, row: int) -> bool:
        """Whether a row that is no source would become one if a pod left it."""
        low = self._settings.low_thresholds
        return self.has_enough_sources and not self.low_rows[row] and self.usage.is_row_below(low, row, without=pod)

    def rows_accepting(self, pod: Occupant, rows: RowIndex) -> RowIndex:
        """Of these rows, the targets that stay within the protection thresholds with the pod."""
        rows = rows[self.target_rows[rows]]
        return rows[self.usage.rows_within(self._settings.protection_thresholds, pod, rows)]

    def most_used_first(self, rows: RowIndex) -> list[int]:
        """The rows, the most used first; equally used ones by name."""
        order = np.lexsort((self.name_ranks[rows], -self.usage.utilisation_rate(self._settings.resource, rows)))
        ordered: list[int] = rows[order].tolist()
        return ordered

    def _is_critical(self, row: int) -> bool:
        node = self._snapshot.nodes.get(row)
        return node is not None and (node.metadata.labels or {}).get(CRITICAL_LABEL) == "true"
