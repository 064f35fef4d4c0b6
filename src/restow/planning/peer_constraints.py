"""The constraints that a plugin keeps while it plans, so that it does not undo the work of the other plugins.

Goes in: a snapshot and the settings of the other plugins, then pods as they are added to rows or removed. Comes out:
the rows that a plugin may use.

    LoadAware         a move must not bring a node above a targetThreshold, and must not go to a node with unknown
                      measured usage
    Defragmentation   other plugins must not move pods to the nodes that it empties, and must not move so many pods off
                      another node that this one becomes a source, too. Exceptions, where no other node has room:
                      LoadAware, and plugins that mend what the scheduler's own filters forbid

Why plugins that keep these constraints come to rest, however often they run, as long as the requests and the usage of
pods do not change:
1. LoadAware ends. The total by which nodes are above their targetThresholds never rises: each move of LoadAware lowers
   it, and no other plugin may raise it.
2. Defragmentation ends. Between two moves of LoadAware the set of nodes below the low thresholds does not grow, and no
   pod moves to them. So each pod leaves them once at most.
3. NodeResourceBalance ends. Between two moves of the others, each of its moves lowers the sum of all imbalances.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.snapshot import Snapshot
from restow.planning.defragmentation_nodes import DefragmentationNodes
from restow.planning.measured_load import MeasuredLoad
from restow.planning.plan_request import PlanRequest


class PeerConstraints:
    def __init__(self, snapshot: Snapshot, request: PlanRequest) -> None:
        self._snapshot = snapshot
        self._peers = request.peers
        self._defragmentation: tuple[DefragmentationNodes, ...] | None = None
        self._loads = tuple(
            (
                MeasuredLoad(snapshot, request, settings.busy_thresholds, settings.usage_source.max_age),
                settings.busy_thresholds,
            )
            for settings in request.peers.load_aware
        )

    @property
    def defragmentation(self) -> tuple[DefragmentationNodes, ...]:
        """The nodes of each Defragmentation in the policy, as of the first time this is read."""
        if self._defragmentation is None:
            settings = self._peers.defragmentation
            self._defragmentation = tuple(DefragmentationNodes(self._snapshot, each) for each in settings)
        return self._defragmentation

    def rows_kept_cool(self, pod: Occupant, rows: RowIndex) -> RowIndex:
        """Of these rows, those that stay within all targetThresholds of LoadAware with the pod."""
        for load, thresholds in self._loads:
            rows = rows[load.rows_within(thresholds, pod, rows)]
        return rows

    def unmeasured_rows(self) -> Mask:
        """Rows with measured usage that is unknown to some LoadAware; none if the policy has no LoadAware."""
        mask = np.zeros(self._snapshot.rows.size, np.bool_)
        for load, _ in self._loads:
            mask |= ~load.known_rows
        return mask

    def emptied_rows(self) -> Mask:
        """Rows that some Defragmentation empties."""
        mask = np.zeros(self._snapshot.rows.size, np.bool_)
        for nodes in self.defragmentation:
            mask |= nodes.emptied_rows()
        return mask

    def would_be_emptied(self, pod: Occupant, row: int) -> bool:
        """Whether some Defragmentation would empty a row once a pod has left it."""
        return any(nodes.would_become_source(pod, row) for nodes in self.defragmentation)

    def add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        """Add a pod to a row; with sign -1, remove it."""
        for load, _ in self._loads:
            load.add_pod(pod, row, sign)
        for nodes in self._defragmentation or ():
            nodes.usage.add_pod(pod, row, sign)
