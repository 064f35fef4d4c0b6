"""Use: how much of some resources nodes offer and use, kept up to date while moves are planned.

Goes in: a snapshot, resources, and pods that come to rows or leave them. Comes out: rows by how their use compares with
percentages. Comparisons multiply instead of dividing, so that a node at a threshold is exactly there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.snapshot import Snapshot
from restow.planning.measures import Rates, dense_imbalance, node_imbalance, allocatable_amounts, requested_amounts

Percents = Mapping[str, float]


class RequestedUsage:
    def __init__(self, snapshot: Snapshot, resources: Collection[str]) -> None:
        names = sorted(resources)
        self._columns = {name: snapshot.room.resources.column(name) for name in names}
        self.offered = {name: allocatable_amounts(snapshot, name) for name in names}
        self.used = {name: requested_amounts(snapshot, name) for name in names}
        self.offers_all: Mask = np.logical_and.reduce([amount > 0 for amount in self.offered.values()])
        present = snapshot.nodes.present[snapshot.rows.every]
        self._everywhere = bool(self.offers_all[present].all())
        """Whether every node offers all of them, which makes arithmetic simpler."""

    def rows_below(self, percents: Percents) -> Mask:
        """Rows strictly below every threshold."""
        mask = self.offers_all.copy()
        for name, percent in percents.items():
            mask &= 100.0 * self.used[name] < percent * self.offered[name]
        return mask

    def is_row_below(self, percents: Percents, row: int, without: Occupant) -> bool:
        """Whether one row is strictly below every threshold once a pod has left."""
        asked = dict(without.shape.amounts)
        return bool(self.offers_all[row]) and all(
            100.0 * (self.used[name].item(row) - asked.get(self._columns[name], 0))
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
        """Which of these rows are not above any threshold once the pod is there."""
        asked = dict(pod.shape.amounts)
        mask: Mask = np.ones(len(rows), np.bool_)
        for name, percent in percents.items():
            total = self.used[name][rows] + asked.get(self._columns[name], 0)
            mask &= 100.0 * total <= percent * self.offered[name][rows]
        return mask

    def utilisation_rate(self, name: str, rows: RowIndex) -> Rates:
        """Used per offered; the rows offer it."""
        rates: Rates = self.used[name][rows] / self.offered[name][rows]
        return rates

    def pod_request(self, name: str, pod: Occupant) -> int:
        return dict(pod.shape.amounts).get(self._columns[name], 0)

    def add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        asked = dict(pod.shape.amounts)
        for name, column in self._columns.items():
            self.used[name][row] += sign * asked.get(column, 0)

    def imbalance_with(self, pod: Occupant, rows: RowIndex) -> Rates:
        """The population standard deviation of use over the resources, with the pod on each of these rows."""
        asked = dict(pod.shape.amounts)
        taken = []
        for name, column in self._columns.items():
            total = self.used[name][rows] + asked.get(column, 0)
            offered = self.offered[name][rows]
            if self._everywhere:
                taken.append(total / offered)
            else:
                taken.append(np.divide(total, offered, out=np.full(len(rows), np.nan), where=offered > 0))
        return dense_imbalance(taken) if self._everywhere else node_imbalance(taken)

    def imbalance_at(self, row: int, without: Occupant | None = None) -> float:
        """The same of one row as it is, or without a pod that is there; plain numbers are quicker than arrays."""
        asked = dict(without.shape.amounts) if without is not None else {}
        taken = [
            (self.used[name].item(row) - asked.get(column, 0)) / self.offered[name].item(row)
            for name, column in self._columns.items()
            if self.offered[name].item(row) > 0
        ]
        mean = math.fsum(taken) / max(len(taken), 1)
        return math.sqrt(math.fsum((one - mean) ** 2 for one in taken) / max(len(taken), 1))
