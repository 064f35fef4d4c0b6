"""The requested usage of nodes: how much of some resources is requested on each, kept up to date while moves are
planned.

Goes in: a snapshot, resources, and pods as they are added to rows or removed. Comes out: the rows with a usage is below
or above thresholds in percent. Comparisons multiply instead of dividing, so that rounding never puts a node that is
exactly at a threshold above or below it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.snapshot import Snapshot
from restow.planning.measures import Rates, allocatable_amounts, dense_imbalance, node_imbalance, requested_amounts

Percents = Mapping[str, float]


class RequestedUsage:
    def __init__(self, snapshot: Snapshot, resources: Collection[str]) -> None:
        names = sorted(resources)
        self._columns = {name: snapshot.room.resources.column(name) for name in names}
        self.offered = {name: allocatable_amounts(snapshot, name) for name in names}
        self.used = {name: requested_amounts(snapshot, name) for name in names}
        self.offers_all: Mask = np.logical_and.reduce([amount > 0 for amount in self.offered.values()])
        present = snapshot.nodes.present[snapshot.rows.every]
        self._offered_everywhere = bool(self.offers_all[present].all())
        """Whether every node offers all resources; then the imbalance needs no special case for NaN."""

    def rows_below(self, percents: Percents) -> Mask:
        """Rows strictly below every threshold."""
        mask = self.offers_all.copy()
        for name, percent in percents.items():
            mask &= 100.0 * self.used[name] < percent * self.offered[name]
        return mask

    def is_row_below(self, percents: Percents, row: int, without: Occupant) -> bool:
        """Whether one row is strictly below every threshold once a pod has left it."""
        requests = dict(without.shape.amounts)
        return bool(self.offers_all[row]) and all(
            100.0 * (self.used[name].item(row) - requests.get(self._columns[name], 0))
            < percent * self.offered[name].item(row)
            for name, percent in percents.items()
        )

    def rows_above(self, percents: Percents) -> Mask:
        """Rows strictly above every threshold."""
        mask = self.offers_all.copy()
        for name, percent in percents.items():
            mask &= 100.0 * self.used[name] > percent * self.offered[name]
        return mask

    def rows_within(self, percents: Percents, pod: Occupant, rows: RowIndex) -> Mask:
        """Which of these rows are not above any threshold with the pod."""
        requests = dict(pod.shape.amounts)
        mask: Mask = np.ones(len(rows), np.bool_)
        for name, percent in percents.items():
            total = self.used[name][rows] + requests.get(self._columns[name], 0)
            mask &= 100.0 * total <= percent * self.offered[name][rows]
        return mask

    def utilisation_rate(self, name: str, rows: RowIndex) -> Rates:
        """Requested divided by allocatable, for rows that offer the resource."""
        rates: Rates = self.used[name][rows] / self.offered[name][rows]
        return rates

    def pod_request(self, name: str, pod: Occupant) -> int:
        return dict(pod.shape.amounts).get(self._columns[name], 0)

    def add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        """Add a pod to a row; with sign -1, remove it."""
        requests = dict(pod.shape.amounts)
        for name, column in self._columns.items():
            self.used[name][row] += sign * requests.get(column, 0)

    def imbalance_with(self, pod: Occupant, rows: RowIndex) -> Rates:
        """The imbalance of each of these rows with the pod."""
        requests = dict(pod.shape.amounts)
        rates = []
        for name, column in self._columns.items():
            total = self.used[name][rows] + requests.get(column, 0)
            offered = self.offered[name][rows]
            if self._offered_everywhere:
                rates.append(total / offered)
            else:
                rates.append(np.divide(total, offered, out=np.full(len(rows), np.nan), where=offered > 0))
        return dense_imbalance(rates) if self._offered_everywhere else node_imbalance(rates)

    def imbalance_at(self, row: int, without: Occupant | None = None) -> float:
        """The imbalance of one row, or of the row without one of its pods. For one row plain numbers are faster than
        arrays."""
        requests = dict(without.shape.amounts) if without is not None else {}
        rates = [
            (self.used[name].item(row) - requests.get(column, 0)) / self.offered[name].item(row)
            for name, column in self._columns.items()
            if self.offered[name].item(row) > 0
        ]
        mean = math.fsum(rates) / max(len(rates), 1)
        return math.sqrt(math.fsum((rate - mean) ** 2 for rate in rates) / max(len(rates), 1))
