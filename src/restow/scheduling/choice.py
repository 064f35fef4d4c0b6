"""The best of the rows that are left, where filters or scores have to be asked about many rows together.

Goes in: a cycle, the `Ranking` of its class, and the plugins that have a say. Comes out: the best key, or REFUSED.
Rows that nobody can tell apart form a cell, of which only the row with the best key is looked at; where there are too
many cells, all rows are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex, Which
from restow.model.cluster.domains import Domains
from restow.scheduling.blocks import REFUSED, Keys
from restow.scheduling.cells import Cells
from restow.scheduling.framework import Cycle, FilterPlugin, Reach
from restow.scheduling.ranking import Ranking
from restow.scheduling.screens import Screen
from restow.scheduling.worths import TIE_BITS, Weighted, in_range, mask_of


class Say(msgspec.Struct, frozen=True):
    """The plugins that have a say in a cycle: those whose PreFilter or PreScore did not skip."""

    filters: tuple[FilterPlugin, ...]
    """Of NODE and ROW reach."""
    scores: tuple[Weighted, ...]
    """Of NODE and ROW reach, and not to be normalised."""
    cluster_filters: tuple[FilterPlugin, ...]
    compared: tuple[Weighted, ...]
    """Scores that are known only once all feasible rows are."""


def cells_of(cycle: Cycle, ranking: Ranking, say: Say) -> Cells | None:
    """The sets of rows that are alike to everybody who has to look at all rows, if that can be said and makes few."""
    parts: dict[Domains, None] = {}
    for plugin in (*say.cluster_filters, *(one for one, _ in say.compared if one.reach is Reach.CLUSTER)):
        domains = plugin.domains(cycle)
        if domains is None:
            return None
        parts.update(dict.fromkeys(domains))
    return ranking.cells(list(parts))


def screen_of(cycle: Cycle, ranking: Ranking, say: Say) -> Screen | None:
    """What keeps the best of the rows that are accepted, where all that must accept them is known node by node."""
    boards = [plugin.boards(cycle) for plugin in say.cluster_filters]
    first = boards[0]
    if first is None or None in boards:
        return None
    every = first if len(boards) == 1 else [board for some in boards for board in some or ()]
    return ranking.screen(every)


def best_compared(cycle: Cycle, ranking: Ranking, say: Say, keys: Keys, rows: RowIndex) -> int:
    """The best of these rows, each of which may stand for a cell, by the whole sum."""
    if say.cluster_filters:
        accepted = accepts(cycle, say.cluster_filters, rows)
        keys, rows = keys[accepted], rows[accepted]
    if len(rows) <= 1:  # with a single one there is nothing to compare
        return int(keys.max(initial=REFUSED))
    total = np.zeros(len(rows), np.int64)
    for plugin, weight in say.compared:
        raw = ranking.raw[plugin][rows] if plugin in ranking.raw else plugin.score(cycle, rows)
        total += weight * in_range(plugin, plugin.normalize(cycle, raw))
    return int((keys + (total << TIE_BITS)).max())


def accepts(cycle: Cycle, filters: Sequence[FilterPlugin], rows: Which) -> Mask:
    count = len(cycle.snapshot.nodes.present[rows]) if isinstance(rows, slice) else len(rows)
    mask = mask_of(filters[0], cycle, rows, count)
    for plugin in filters[1:]:
        mask = mask & mask_of(plugin, cycle, rows, count)
    return mask


def accepts_row(cycle: Cycle, filters: Sequence[FilterPlugin], row: int) -> bool:
    """`accepts` for a single row; nobody to ask accepts it."""
    return all(plugin.judge(cycle)(row) for plugin in filters)


def best_of(cycle: Cycle, ranking: Ranking, filters: Sequence[FilterPlugin], rows: Which) -> int:
    accepted = accepts(cycle, filters, rows)
    return int(np.where(accepted, ranking.keys[rows], REFUSED).max(initial=REFUSED))
