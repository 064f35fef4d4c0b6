"""The sum of scores that pods of one class get on a row, worked out once for all rows with the same room.

Goes in: the plugins that are `RoomOnly`, and a cycle of any pod of the class. Comes out: the weighted sum of their
scores, as the high bits of a key (see `ranking`), or NOT_FEASIBLE if one of the filters refuses. The answer about one
row is kept for the state of its room (`Room.states`), so that rows with the same offered and free amounts are not asked
about. If hardly any two rows are in one state, the plugins are asked about every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, Which
from restow.scheduling.accelerated import row_filter_of, row_score_of
from restow.scheduling.framework import BEST, Cycle, FilterPlugin, ScorePlugin, Scores

TIE_BITS = 24
NOT_FEASIBLE: Final = -(1 << 62)
"""The sum of a refused row: added to anything that a key can be, and to itself, it stays below zero."""
_UNKNOWN: Final = 1 << 62

Weighted = tuple[ScorePlugin, int]
Sums = NDArray[np.int64]


class NotAMask(Exception):
    """A plugin did not say of every row whether it accepts it; no choice can be trusted."""


class ScoreOutOfRange(Exception):
    """A plugin broke its promise to score in 0..BEST; no choice can be trusted."""


class ScoreCache:
    def __init__(self, cycle: Cycle, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]) -> None:
        self._states = cycle.snapshot.room.states
        self._filters = filters
        self._scores = scores
        self._row_filters = [row_filter_of(plugin)(cycle) for plugin in filters]
        self._row_scores = [(row_score_of(plugin)(cycle), weight) for plugin, weight in scores]
        self._forget()

    def of_rows(self, cycle: Cycle, rows: Which, possible: Mask | None = None) -> Sums:
        """The sums of these rows. If `possible` is given, raises ScoreOutOfRange for a row of that mask."""
        states = self._states
        if not states.shared:
            return self._compute_rows(cycle, rows, possible)
        if self._epoch != states.epoch:
            self._forget()
        numbers = states.of_row[rows] if isinstance(rows, slice) else states.of_row.take(rows)
        sums = self._known.take(numbers)
        if len(sums) and sums.item(sums.argmax()) == _UNKNOWN:
            unknown = np.flatnonzero(sums == _UNKNOWN)
            if len(unknown) == len(sums):
                computed = self._compute_rows(cycle, rows, possible)
            else:
                computed = self._compute_rows(cycle, unknown if isinstance(rows, slice) else rows.take(unknown), None)
            sums[unknown] = self._known[numbers[unknown]] = computed
        return sums

    def of_row(self, row: int) -> int:
        """The sum of a single row, without temporary arrays."""
        if not self._states.shared:
            return self._compute_row(row)
        if self._epoch != self._states.epoch:
            self._forget()
        state = self._states.at[row]
        total: int = self._at[state]
        if total == _UNKNOWN:
            total = self._at[state] = self._compute_row(row)
        return total

    def _forget(self) -> None:
        """States were numbered anew."""
        self._epoch = self._states.epoch
        self._known = np.full(self._states.most, _UNKNOWN, np.int64)
        self._at = self._known.data

    def _compute_rows(self, cycle: Cycle, rows: Which, possible: Mask | None) -> Sums:
        accepted: Mask | None = None
        count = rows.stop if isinstance(rows, slice) else len(rows)
        for plugin in self._filters:
            mask = filter_mask(plugin, cycle, rows, count)
            accepted = mask if accepted is None else accepted & mask
        if possible is not None and accepted is not None:
            possible = possible & accepted
        total = weighted_sum(cycle, self._scores, rows, possible) << TIE_BITS
        return total if accepted is None else np.where(accepted, total, NOT_FEASIBLE)

    def _compute_row(self, row: int) -> int:
        for accepts in self._row_filters:
            if not accepts(row):
                return NOT_FEASIBLE
        total = 0
        for score, weight in self._row_scores:
            total += weight * score(row)
        return total << TIE_BITS


def weighted_sum(cycle: Cycle, scores: Sequence[Weighted], rows: Which, possible: Mask | None) -> Scores:
    """The weighted scores of rows under NODE and ROW plugins; those of refused rows mean nothing. If `possible` is
    given, raises ScoreOutOfRange for a row of that mask."""
    total: Scores | None = None
    for plugin, weight in scores:
        scored = plugin.score(cycle, rows)
        if possible is not None:
            require_in_range(plugin, scored[possible])
        weighted = scored if weight == 1 else weight * scored
        total = weighted if total is None else total + weighted
    if total is None:
        length = rows.stop if isinstance(rows, slice) else len(rows)
        return np.zeros(length, np.int64)
    return total


def filter_mask(plugin: FilterPlugin, cycle: Cycle, rows: Which, count: int) -> Mask:
    """Which of so many rows a plugin accepts. Raises NotAMask: NumPy would take an array of integers for row
    numbers."""
    mask = plugin.filter(cycle, rows)
    if not isinstance(mask, np.ndarray) or mask.dtype.kind != "b" or len(mask) != count:
        raise NotAMask(f"{plugin.name} does not say true or false of each of {count} rows")
    return mask


def require_in_range(plugin: ScorePlugin, scores: Scores) -> Scores:
    """The scores of accepted rows, if they are in 0..BEST. Raises ScoreOutOfRange."""
    if len(scores) and (scores.min() < 0 or scores.max() > BEST):
        raise ScoreOutOfRange(f"{plugin.name} scored outside of 0..{BEST}")
    return scores
