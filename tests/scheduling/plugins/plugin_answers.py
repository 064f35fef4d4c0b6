"""The answers of one plugin about a pod and a few nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from restow.model.objects import Node, Pod
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import row_filter_of, row_score_of
from restow.scheduling.framework import Code, Cycle, FilterPlugin, ScorePlugin


def cycle(pod: Pod, nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> Cycle:
    snapshot = Snapshot()
    for node in nodes:
        snapshot.apply_node(node)
    for placed in pods:
        snapshot.apply_pod(placed)
    return Cycle(pod, snapshot, 0.0)


def reasons(plugin: FilterPlugin, asked: Cycle) -> dict[str, list[str]]:
    """Why each node is refused; empty for those that are not. A reason for good ends in an exclamation mark."""
    rows = asked.snapshot.rows
    if plugin.pre_filter(asked).code is Code.SKIP:
        assert plugin.filter(asked, rows.every).all()
    found: dict[str, list[str]] = {name: [] for name in rows.names()}
    for refusal in plugin.refusals(asked, rows.every):
        for row in np.flatnonzero(refusal.rows).tolist():
            found[rows.name(row) or ""].append(refusal.reason + ("" if refusal.resolvable else "!"))
    accepted = {rows.name(row): bool(one) for row, one in enumerate(plugin.filter(asked, rows.every))}
    assert accepted == {rows.name(row): row_filter_of(plugin)(asked)(row) for row in range(rows.size)}
    assert accepted == {name: not refused for name, refused in found.items()}
    return found


def scores(plugin: ScorePlugin, asked: Cycle) -> dict[str, int] | None:
    """The normalised score of each node; None where the plugin skips."""
    rows = asked.snapshot.rows
    if plugin.pre_score(asked).code is Code.SKIP:
        return None
    raw = plugin.score(asked, rows.every)
    one_by_one = [int(plugin.score(asked, np.array([row]))[0]) for row in range(rows.size)]
    assert raw.tolist() == one_by_one
    assert raw.tolist() == [row_score_of(plugin)(asked)(row) for row in range(rows.size)]
    return {rows.name(row) or "": int(one) for row, one in enumerate(plugin.normalize_score(asked, raw))}
