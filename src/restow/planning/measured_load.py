"""Heat: how much of what nodes offer is really used, by row, kept up to date while moves are planned.

Goes in: a snapshot, what was measured, and pods that come to rows or leave them. Comes out: rows by how their real use
compares with percentages. A sample that is too old, or older than the last migration that touched the node, tells
nothing about the node as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.pods import full_name
from restow.model.resources import PODS, Vector
from restow.model.snapshot import Snapshot
from restow.planning.cooldown import last_migration_times
from restow.planning.usage_samples import UsageSamples, UsageSample
from restow.planning.measures import Rates, allocatable_amounts
from restow.planning.plan_request import PlanRequest
from restow.planning.requested_usage import Percents


class MeasuredLoad:
    def __init__(self, snapshot: Snapshot, request: PlanRequest, resources: Percents, max_age: float) -> None:
        self._measured = request.measured_usage or UsageSamples(unavailable_reason="nobody measures")
        self._since = request.now - max_age
        self._offers = {name: allocatable_amounts(snapshot, name) for name in resources}
        self._columns = {name: snapshot.room.resources.column(name) for name in resources}
        self.percents: dict[str, Rates] = {name: np.full(snapshot.rows.size, np.nan) for name in resources}
        """By resource; NaN where it is not known, also because somebody came or left since it was measured."""
        self._read(snapshot, last_migration_times(snapshot, request.last_migrations, request.now + max_age))

    def _read(self, snapshot: Snapshot, touched: Mapping[str, float]) -> None:
        for name, sample in self._measured.nodes.items():
            row = snapshot.rows.find(name)
            if row is None or sample.measured_at < max(self._since, touched.get(name, self._since)):
                continue
            used = {**sample.amounts, PODS: len(snapshot.occupants(name))}
            if all(each in used and offers.item(row) > 0 for each, offers in self._offers.items()):
                for each, offers in self._offers.items():
                    self.percents[each][row] = 100.0 * used[each] / offers.item(row)

    @property
    def known_rows(self) -> Mask:
        """Rows whose use is known."""
        known: Mask = np.logical_and.reduce([~np.isnan(one) for one in self.percents.values()])
        return known

    def pod_sample(self, pod: Occupant) -> UsageSample | None:
        """What a pod was last seen to use, if that is not too long ago and says all that matters."""
        found = self._measured.pods.get(full_name(pod.pod))
        if found is None or found.measured_at < self._since:
            return None
        return found if all(name in found.amounts for name in self._offers if name != PODS) else None

    def excess_points(self, limits: Percents, row: int) -> float:
        """By how many points a row is above the limit that it is most above."""
        return max(self.percents[name].item(row) - most for name, most in limits.items())

    def rows_below(self, limits: Percents, rows: RowIndex) -> Mask:
        """Which of these rows are known to be below every limit."""
        mask: Mask = np.ones(len(rows), np.bool_)
        for name, least in limits.items():
            mask &= self.percents[name][rows] < least
        return mask

    def rows_within(self, limits: Percents, pod: Occupant, rows: RowIndex) -> Mask:
        """Which of these rows are known not to be above any limit once the pod is there. Where somebody came or left
        since they were measured, nobody should come before they are measured again."""
        used = self._uses(pod)
        mask: Mask = np.ones(len(rows), np.bool_)
        for name, most in limits.items():
            with_it = self.percents[name][rows] + self._points(name, used, rows)
            mask &= with_it <= most
        return mask

    def uses_any(self, pod: Occupant, resources: Iterable[str]) -> bool:
        """Whether a node would use less of one of these without the pod."""
        used = self._uses(pod)
        return any(used.get(name, 0) > 0 for name in resources)

    def highest_percents(self, rows: RowIndex) -> Rates:
        """Per row, the percentage that is largest."""
        most: Rates = np.max([one[rows] for one in self.percents.values()], axis=0)
        return most

    def add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        used, rows = self._uses(pod), np.array([row], np.intp)
        for name, percents in self.percents.items():
            percents[row] += sign * self._points(name, used, rows).item()

    def _uses(self, pod: Occupant) -> Vector:
        """What a pod was measured to use; what it asks for where nothing else is known."""
        sample = self.pod_sample(pod)
        if sample is not None:
            return {**sample.amounts, PODS: 1}
        asked = dict(pod.shape.amounts)
        return {name: asked.get(column, 0) for name, column in self._columns.items()} | {PODS: 1}

    def _points(self, name: str, used: Vector, rows: RowIndex) -> Rates:
        points: Rates = 100.0 * used.get(name, 0) / np.maximum(self._offers[name][rows], 1)
        return points
