"""The measured load of nodes in percent of their allocatable amounts, kept up to date while moves are planned.

Goes in: a snapshot, usage samples, and pods as they are added to rows or removed. Comes out: the rows with a load
below or within thresholds in percent. A sample is ignored if it is too old, or older than the last migration from or to
the node: it does not show the node as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.pods import namespaced_name
from restow.model.resources import PODS, Vector
from restow.model.snapshot import Snapshot
from restow.planning.cooldown import last_migration_times
from restow.planning.measures import Rates, allocatable_amounts
from restow.planning.plan_request import PlanRequest
from restow.planning.requested_usage import Percents
from restow.planning.usage_samples import UsageSample, UsageSamples


class MeasuredLoad:
    def __init__(self, snapshot: Snapshot, request: PlanRequest, resources: Percents, max_age: float) -> None:
        self._samples = request.measured_usage or UsageSamples(unavailable_reason="usage metrics were not read")
        self._oldest = request.now - max_age
        self._allocatable = {name: allocatable_amounts(snapshot, name) for name in resources}
        self._columns = {name: snapshot.room.resources.column(name) for name in resources}
        self.percents: dict[str, Rates] = {name: np.full(snapshot.rows.size, np.nan) for name in resources}
        """By resource and row; NaN where the load is unknown, also because a pod came or left after the sample."""
        self._read_nodes(snapshot, last_migration_times(snapshot, request.last_migrations, request.now + max_age))

    def _read_nodes(self, snapshot: Snapshot, last_migrations: Mapping[str, float]) -> None:
        for name, sample in self._samples.nodes.items():
            row = snapshot.rows.find_row(name)
            if row is None or sample.measured_at < max(self._oldest, last_migrations.get(name, self._oldest)):
                continue
            used = {**sample.amounts, PODS: len(snapshot.occupants(name))}
            if all(resource in used and total.item(row) > 0 for resource, total in self._allocatable.items()):
                for resource, total in self._allocatable.items():
                    self.percents[resource][row] = 100.0 * used[resource] / total.item(row)

    @property
    def known_rows(self) -> Mask:
        """Rows with a known load."""
        known: Mask = np.logical_and.reduce([~np.isnan(percents) for percents in self.percents.values()])
        return known

    def pod_sample(self, pod: Occupant) -> UsageSample | None:
        """The last sample of a pod, if it is recent enough and has all resources that count."""
        sample = self._samples.pods.get(namespaced_name(pod.pod))
        if sample is None or sample.measured_at < self._oldest:
            return None
        return sample if all(name in sample.amounts for name in self._allocatable if name != PODS) else None

    def excess_points(self, thresholds: Percents, row: int) -> float:
        """By how many percentage points a row is above its thresholds: the largest difference."""
        return max(self.percents[name].item(row) - percent for name, percent in thresholds.items())

    def rows_below(self, thresholds: Percents, rows: RowIndex) -> Mask:
        """Which of these rows are known to be below every threshold."""
        mask: Mask = np.ones(len(rows), np.bool_)
        for name, percent in thresholds.items():
            mask &= self.percents[name][rows] < percent
        return mask

    def rows_within(self, thresholds: Percents, pod: Occupant, rows: RowIndex) -> Mask:
        """Which of these rows are known not to be above any threshold with the pod. A row with an unknown load (NaN)
        never is: no pod should move there before the node has been measured again."""
        used = self._usage(pod)
        mask: Mask = np.ones(len(rows), np.bool_)
        for name, percent in thresholds.items():
            with_pod = self.percents[name][rows] + self._points(name, used, rows)
            mask &= with_pod <= percent
        return mask

    def uses_any(self, pod: Occupant, resources: Iterable[str]) -> bool:
        """Whether the pod uses any of these resources, so that its node would be less loaded without it."""
        used = self._usage(pod)
        return any(used.get(name, 0) > 0 for name in resources)

    def highest_percents(self, rows: RowIndex) -> Rates:
        """Per row the highest load over the resources."""
        highest: Rates = np.max([percents[rows] for percents in self.percents.values()], axis=0)
        return highest

    def add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        """Add a pod to a row; with sign -1, remove it."""
        used, rows = self._usage(pod), np.array([row], np.intp)
        for name, percents in self.percents.items():
            percents[row] += sign * self._points(name, used, rows).item()

    def _usage(self, pod: Occupant) -> Vector:
        """The measured usage of a pod; without a sample, its requests."""
        sample = self.pod_sample(pod)
        if sample is not None:
            return {**sample.amounts, PODS: 1}
        requests = dict(pod.shape.amounts)
        return {name: requests.get(column, 0) for name, column in self._columns.items()} | {PODS: 1}

    def _points(self, name: str, used: Vector, rows: RowIndex) -> Rates:
        """The usage in percentage points of each row."""
        points: Rates = 100.0 * used.get(name, 0) / np.maximum(self._allocatable[name][rows], 1)
        return points
