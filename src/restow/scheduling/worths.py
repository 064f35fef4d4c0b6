"""Worths: what the room on a row is worth to pods of one class, worked out once for all rows in the same state.

Goes in: the plugins that are `by_room`, and a cycle of any pod of the class. Comes out: the weighted sum of their
scores, as the high bits of a key (see `ranking`), or NOTHING where one of them refuses. Whichever rows they are asked
about first, what they say is kept for the state (`Room.states`), not for the row. Where hardly any two rows are in one
state, they are asked about every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, Which
from restow.scheduling.framework import BEST, Cycle, FilterPlugin, ScorePlugin, Scores

TIE_BITS = 24
NOTHING: Final = -(1 << 62)
"""What is refused: added to anything that a key can be, and to itself, it stays below zero."""
_UNKNOWN: Final = 1 << 62

Weighted = tuple[ScorePlugin, int]
Sums = NDArray[np.int64]


class NotAMask(Exception):
    """A plugin did not say of every row whether it accepts it; no choice can be trusted."""


class ScoreOutOfRange(Exception):
    """A plugin broke its promise to score in 0..BEST; no choice can be trusted."""


class Worths:
    def __init__(self, cycle: Cycle, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]) -> None:
        self._states = cycle.snapshot.room.states
        self._filters = filters
        self._scores = scores
        self._judges = [plugin.judge(cycle) for plugin in filters]
        self._appraisers: list[tuple[Callable[[int], int], int]] = [
            (plugin.appraise(cycle), weight) for plugin, weight in scores
        ]
        self._forget()

    def of(self, cycle: Cycle, rows: Which, possible: Mask | None = None) -> Sums:
        """Of these rows. Raises ScoreOutOfRange for one of the rows that are `possible`, if these are given."""
        states = self._states
        if not states.shared:
            return self._ask(cycle, rows, possible)
        if self._epoch != states.epoch:
            self._forget()
        numbers = states.of_row[rows] if isinstance(rows, slice) else states.of_row.take(rows)
        found = self._known.take(numbers)
        if len(found) and found.item(found.argmax()) == _UNKNOWN:
            unknown = np.flatnonzero(found == _UNKNOWN)
            if len(unknown) == len(found):
                news = self._ask(cycle, rows, possible)
            else:
                news = self._ask(cycle, unknown if isinstance(rows, slice) else rows.take(unknown), None)
            found[unknown] = self._known[numbers[unknown]] = news
        return found

    def of_row(self, row: int) -> int:
        """`of` a single row, without temporary arrays."""
        if not self._states.shared:
            return self._ask_row(row)
        if self._epoch != self._states.epoch:
            self._forget()
        state = self._states.at[row]
        worth: int = self._at[state]
        if worth == _UNKNOWN:
            worth = self._at[state] = self._ask_row(row)
        return worth

    def _forget(self) -> None:
        self._epoch = self._states.epoch
        self._known = np.full(self._states.most, _UNKNOWN, np.int64)
        self._at = self._known.data

    def _ask(self, cycle: Cycle, rows: Which, possible: Mask | None) -> Sums:
        accepted: Mask | None = None
        count = rows.stop if isinstance(rows, slice) else len(rows)
        for plugin in self._filters:
            mask = mask_of(plugin, cycle, rows, count)
            accepted = mask if accepted is None else accepted & mask
        if possible is not None and accepted is not None:
            possible = possible & accepted
        total = weighted_sum(cycle, self._scores, rows, possible) << TIE_BITS
        return total if accepted is None else np.where(accepted, total, NOTHING)

    def _ask_row(self, row: int) -> int:
        for accepts in self._judges:
            if not accepts(row):
                return NOTHING
        total = 0
        for appraise, weight in self._appraisers:
            total += weight * appraise(row)
        return total << TIE_BITS


def weighted_sum(cycle: Cycle, scores: Sequence[Weighted], rows: Which, possible: Mask | None) -> Scores:
    """The weighted scores of rows under NODE and ROW plugins; what they say of refused rows means nothing. Raises
    ScoreOutOfRange for one of the rows that are `possible`; nobody looks if that is not said."""
    total: Scores | None = None
    for plugin, weight in scores:
        scored = plugin.score(cycle, rows)
        if possible is not None:
            in_range(plugin, scored[possible])
        weighted = scored if weight == 1 else weight * scored
        total = weighted if total is None else total + weighted
    if total is None:
        length = rows.stop if isinstance(rows, slice) else len(rows)
        return np.zeros(length, np.int64)
    return total


def mask_of(plugin: FilterPlugin, cycle: Cycle, rows: Which, count: int) -> Mask:
    """Which of so many rows a plugin accepts. Raises NotAMask: numbers would be taken for the numbers of rows."""
    mask = plugin.filter(cycle, rows)
    if not isinstance(mask, np.ndarray) or mask.dtype.kind != "b" or len(mask) != count:
        raise NotAMask(f"{plugin.name} does not say true or false of each of {count} rows")
    return mask


def in_range(plugin: ScorePlugin, scores: Scores) -> Scores:
    """The scores of accepted rows, if they are in 0..BEST. Raises ScoreOutOfRange."""
    if len(scores) and (scores.min() < 0 or scores.max() > BEST):
        raise ScoreOutOfRange(f"{plugin.name} scored outside of 0..{BEST}")
    return scores
