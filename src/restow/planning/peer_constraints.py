"""Neighbours: what the other plugins of a policy are after, while one of them plans.

    LoadAware         no move brings a node above a targetThreshold, or to a node of which nobody knows how busy it is
    Defragmentation   nodes that are being emptied are filled by nobody else, and no node is drained until it is one of
                      them; where nothing else takes a pod that has to leave, LoadAware may, and so may those who mend
                      what the scheduler's own filters forbid

With these, plugins do not undo each other however often they run. By how much nodes are above targetThresholds, in all,
only ever falls: LoadAware lowers it, nobody raises it; so LoadAware comes to an end. Between two of its moves the same
nodes are low, and take nobody: every pod leaves them once at most, and Defragmentation comes to an end. Between two of
its moves, every move of NodeResourceBalance lowers the sum of all imbalances. All that holds while pods use and request
what they do; when that changes, so do the answers.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.snapshot import Snapshot
from restow.planning.measured_load import MeasuredLoad
from restow.planning.defragmentation_nodes import DefragmentationNodes
from restow.planning.plan_request import PlanRequest


class PeerConstraints:
    def __init__(self, snapshot: Snapshot, request: PlanRequest) -> None:
        self._snapshot = snapshot
        self._regard = request.peers
        self._packing: tuple[DefragmentationNodes, ...] | None = None
        self._cooling = tuple(
            (MeasuredLoad(snapshot, request, one.busy_thresholds, one.usage_source.max_age), one.busy_thresholds) for one in request.peers.load_aware
        )

    @property
    def defragmentation(self) -> tuple[DefragmentationNodes, ...]:
        """What Defragmentation is after, as of the first time somebody asks."""
        if self._packing is None:
            self._packing = tuple(DefragmentationNodes(self._snapshot, one) for one in self._regard.defragmentation)
        return self._packing

    def rows_kept_cool(self, pod: Occupant, rows: RowIndex) -> RowIndex:
        """Of these rows, those that do not become busy by the pod."""
        for heat, limits in self._cooling:
            rows = rows[heat.rows_within(limits, pod, rows)]
        return rows

    def unmeasured_rows(self) -> Mask:
        """Rows of which nobody knows whether they are busy, where that matters to anybody."""
        mask = np.zeros(self._snapshot.rows.size, np.bool_)
        for heat, _ in self._cooling:
            mask |= ~heat.known_rows
        return mask

    def emptied_rows(self) -> Mask:
        """Rows that are being emptied."""
        mask = np.zeros(self._snapshot.rows.size, np.bool_)
        for one in self.defragmentation:
            mask |= one.emptied_rows()
        return mask

    def would_be_emptied(self, pod: Occupant, row: int) -> bool:
        """Whether a row would have to be emptied once a pod has left."""
        return any(one.would_become_source(pod, row) for one in self.defragmentation)

    def add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        """A pod comes to a row, or leaves it."""
        for heat, _ in self._cooling:
            heat.add_pod(pod, row, sign)
        for one in self._packing or ():
            one.usage.add_pod(pod, row, sign)
