"""The recheck without nominated pods: a node must suit a pod whether nominated pods come or not.

Nominated pods count for resources and anti-affinity, but do not satisfy affinity: a pod could be bound beside a pod
that it needs and that never comes. kube-scheduler runs the filters twice for this (RunFilterPluginsWithNominatedPods).

Goes in: the best node for a pod, found while room is kept for nominated pods. Comes out: that node if it also accepts
the pod without them; else another node that accepts it both ways; else why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.model.objects import Pod
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Code, Cycle, Refusal, Verdict
from restow.scheduling.schedule_result import NodeFound, NoNodeFound

Refusals = Mapping[str, Sequence[Refusal]]


def recheck_without_nominated_pods(
    engine: Engine, cycle: Cycle, placed: NodeFound, nominated: Iterable[Pod]
) -> NodeFound | NoNodeFound:
    """`placed`, or another result, given the pods that room is kept for."""
    snapshot = cycle.snapshot
    # 1. The best node without the nominated pods: nearly always it is fine.
    with snapshot.counting_only_room_of(*(pod.metadata.uid for pod in nominated)):
        if engine.fits(cycle, placed.node):
            return placed
        rows_without = engine.feasible_rows(cycle)
        refusals_without = engine.diagnose(cycle).refusals
    # 2. A node that accepts the pod both with and without them, the first by name.
    rows = np.intersect1d(rows_without, engine.feasible_rows(cycle))
    if len(rows):
        row = min(rows.tolist(), key=lambda each: snapshot.rows.name(each) or "")
        return NodeFound(snapshot.rows.name(row) or "", row, 0)
    # 3. Why not: each node refuses for the first reason that it has.
    refused = _merged(refusals_without, engine.diagnose(cycle).refusals, _mask(rows_without, snapshot.rows.size))
    return NoNodeFound(Verdict(Code.UNSCHEDULABLE), int(np.count_nonzero(snapshot.nodes.present)), refused)


def _merged(without: Refusals, together: Refusals, accepted_without: Mask) -> dict[str, list[Refusal]]:
    """Why each node refuses: without the nominated pods, or if it accepts the pod then, with them."""
    merged: dict[str, list[Refusal]] = {}
    for refusals, rows in ((without, ~accepted_without), (together, accepted_without)):
        for plugin, each in refusals.items():
            of_rows = [
                msgspec.structs.replace(refusal, rows=refusal.rows & rows)
                for refusal in each
                if (refusal.rows & rows).any()
            ]
            if of_rows:
                merged.setdefault(plugin, []).extend(of_rows)
    return merged


def _mask(rows: RowIndex, size: int) -> Mask:
    mask: Mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask
