"""Certainty: whoever has only been promised a place is in the way of others already, and company to nobody yet.

Goes in: the best node for a pod while room is kept for pods that may still come. Comes out: that node if it also
accepts the pod without their company, else one that accepts it either way, else why there is none. Otherwise a pod
could be bound next to somebody it needs who never comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.model.objects import Pod
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Code, Cycle, Refusal, Verdict
from restow.scheduling.schedule_result import Placed, Unplaced

Refusals = Mapping[str, Sequence[Refusal]]


def recheck_without_nominated_pods(
    engine: Engine, cycle: Cycle, found: Placed, kept: Iterable[Pod]
) -> Placed | Unplaced:
    """`found`, or what is to be done instead, where room on nodes is kept for these pods."""
    snapshot = cycle.snapshot
    with snapshot.counting_only_room_of(*(pod.metadata.uid for pod in kept)):
        if engine.fits(cycle, found.node):
            return found
        alone = engine.feasible_rows(cycle)
        without = engine.diagnose(cycle).refusals
    either = np.intersect1d(alone, engine.feasible_rows(cycle))
    if len(either):
        row = min(either.tolist(), key=lambda one: snapshot.rows.name(one) or "")
        return Placed(snapshot.rows.name(row) or "", row, 0)
    refused = _joined(engine.diagnose(cycle).refusals, without, _mask(alone, snapshot.rows.size))
    return Unplaced(Verdict(Code.UNSCHEDULABLE), int(np.count_nonzero(snapshot.nodes.present)), refused)


def _joined(crowded: Refusals, alone: Refusals, acceptable: Mask) -> dict[str, list[Refusal]]:
    """Why each node refuses: nodes that would accept the pod alone, what they say to the crowd."""
    found: dict[str, list[Refusal]] = {}
    for refusals, rows in ((alone, ~acceptable), (crowded, acceptable)):
        for plugin, each in refusals.items():
            cut = [msgspec.structs.replace(one, rows=one.rows & rows) for one in each if (one.rows & rows).any()]
            if cut:
                found.setdefault(plugin, []).extend(cut)
    return found


def _mask(rows: RowIndex, size: int) -> Mask:
    mask: Mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask
