"""The best of the rows that are left, where filters or scores have to be asked about many rows together.

Goes in: a cycle, the `Ranking` of its class, and the plugins that have a say. Comes out: the best key, or REFUSED.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from restow.model.cluster import Mask, Which
from restow.scheduling.cells import Keys
from restow.scheduling.framework import Cycle, FilterPlugin, ScorePlugin, Scores
from restow.scheduling.ranking import REFUSED, TIE_BITS, Ranking, Weighted, in_range


class Say(msgspec.Struct, frozen=True):
    """The plugins that have a say in a cycle: those whose PreFilter or PreScore did not skip."""

    filters: tuple[FilterPlugin, ...]
    """Of NODE and ROW reach."""
    scores: tuple[Weighted, ...]
    """Of NODE and ROW reach, and not to be normalised."""
    cluster_filters: tuple[FilterPlugin, ...]
    compared: tuple[Weighted, ...]
    """Scores that are known only once all feasible rows are."""


def best_compared(cycle: Cycle, ranking: Ranking, say: Say) -> int:
    """The best of all feasible rows by the whole sum."""
    cells = ranking.cells
    if cells is not None and not say.cluster_filters and len(cells.raw) == len(say.compared):
        feasible = np.flatnonzero(cells.maxima != REFUSED)
        raw = {plugin: scores[feasible] for plugin, scores in cells.raw.items()}
        return _best_by_sum(cycle, cells.maxima[feasible], [(*pair, raw[pair[0]]) for pair in say.compared])
    keys = ranking.every()
    rows = np.flatnonzero(keys != REFUSED)
    if say.cluster_filters:
        rows = rows[accepts(cycle, say.cluster_filters, rows)]
    if len(rows) <= 1:  # with a single one there is nothing to compare
        return int(keys[rows].max(initial=REFUSED))
    raw_scores = (
        (plugin, weight, ranking.raw[plugin][rows] if plugin in ranking.raw else plugin.score(cycle, rows))
        for plugin, weight in say.compared
    )
    return _best_by_sum(cycle, keys[rows], raw_scores)


def _best_by_sum(cycle: Cycle, keys: Keys, raw: Iterable[tuple[ScorePlugin, int, Scores]]) -> int:
    for plugin, weight, scores in raw:
        keys = keys + ((weight * in_range(plugin, plugin.normalize(cycle, scores))) << TIE_BITS)
    return int(keys.max())


def accepts(cycle: Cycle, filters: Sequence[FilterPlugin], rows: Which) -> Mask:
    mask = filters[0].filter(cycle, rows)
    for plugin in filters[1:]:
        mask = mask & plugin.filter(cycle, rows)
    return mask


def best_of(cycle: Cycle, ranking: Ranking, filters: Sequence[FilterPlugin], rows: Which) -> int:
    accepted = accepts(cycle, filters, rows)
    return int(np.where(accepted, ranking.keys[rows], REFUSED).max(initial=REFUSED))
