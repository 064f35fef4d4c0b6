"""Why nodes refuse a pod: every row is counted for the first plugin that refuses it.

Goes in: a cycle, the active filters in order, and rows. Comes out: the rows that are left, and the refusals by plugin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import NodeNameFilter
from restow.scheduling.explain import with_unexplained_rows
from restow.scheduling.framework import Cycle, FilterPlugin, Refusal

RefusalsByPlugin = dict[str, list[Refusal]]
"""Masks over all rows."""


def diagnose_rows(cycle: Cycle, filters: Sequence[FilterPlugin], rows: RowIndex) -> tuple[RowIndex, RefusalsByPlugin]:
    """Ask the filters in order, each about the rows that all before it accepted: the rows left, and the refusals."""
    refused: RefusalsByPlugin = {}
    # 1. Rows that the pod excludes by naming its nodes, as kube-scheduler does in PreFilter: before any other filter.
    for plugin in filters:
        excluded = plugin.excluded_by_name(cycle, rows) if isinstance(plugin, NodeNameFilter) else None
        if excluded is not None:
            rows = _note_refusals(cycle, plugin, rows, ~excluded, refused)
    # 2. The filters in order.
    for plugin in filters:
        rows = _note_refusals(cycle, plugin, rows, plugin.filter(cycle, rows), refused)
    return rows, refused


def present_rows(cycle: Cycle) -> RowIndex:
    """The rows of all nodes."""
    return np.flatnonzero(cycle.snapshot.nodes.present[: cycle.snapshot.rows.size])


def _note_refusals(
    cycle: Cycle, plugin: FilterPlugin, rows: RowIndex, accepted: Mask, refused: RefusalsByPlugin
) -> RowIndex:
    """Add the plugin's refusals of the rows outside of the mask; the accepted rows."""
    if accepted.all():
        return rows
    failing = rows[~accepted]
    refusals = with_unexplained_rows(plugin, plugin.refusals(cycle, failing), len(failing))
    over_all = [_over_all_rows(cycle.snapshot, refusal, failing) for refusal in refusals]
    refused.setdefault(plugin.name, []).extend(refusal for refusal in over_all if refusal.rows.any())
    return rows[accepted]


def _over_all_rows(snapshot: Snapshot, refusal: Refusal, rows: RowIndex) -> Refusal:
    mask: Mask = np.zeros(snapshot.rows.size, np.bool_)
    mask[rows[refusal.rows]] = True
    return Refusal(refusal.reason, mask, refusal.resolvable)
