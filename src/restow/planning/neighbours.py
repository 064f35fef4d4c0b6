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

from restow.model.cluster import Mask, Occupant, RowIndex, Snapshot
from restow.planning.heat import Heat
from restow.planning.packing import Packing
from restow.planning.request import Request


class Neighbours:
    def __init__(self, snapshot: Snapshot, request: Request) -> None:
        self._snapshot = snapshot
        self._regard = request.regard
        self._packing: tuple[Packing, ...] | None = None
        self._cooling = tuple(
            (Heat(snapshot, request, one.busy, one.metering.max_age), one.busy) for one in request.regard.cooling
        )

    @property
    def packing(self) -> tuple[Packing, ...]:
        """What Defragmentation is after, as of the first time somebody asks."""
        if self._packing is None:
            self._packing = tuple(Packing(self._snapshot, one) for one in self._regard.packing)
        return self._packing

    def cool(self, pod: Occupant, rows: RowIndex) -> RowIndex:
        """Of these rows, those that do not become busy by the pod."""
        for heat, limits in self._cooling:
            rows = rows[heat.within(limits, pod, rows)]
        return rows

    def unmeasured(self) -> Mask:
        """Rows of which nobody knows whether they are busy, where that matters to anybody."""
        mask = np.zeros(self._snapshot.rows.size, np.bool_)
        for heat, _ in self._cooling:
            mask |= ~heat.known
        return mask

    def emptied(self) -> Mask:
        """Rows that are being emptied."""
        mask = np.zeros(self._snapshot.rows.size, np.bool_)
        for one in self.packing:
            mask |= one.emptied()
        return mask

    def drained(self, pod: Occupant, row: int) -> bool:
        """Whether a row would have to be emptied once a pod has left."""
        return any(one.becomes_low(pod, row) for one in self.packing)

    def add(self, pod: Occupant, row: int, sign: int = 1) -> None:
        """A pod comes to a row, or leaves it."""
        for heat, _ in self._cooling:
            heat.add(pod, row, sign)
        for one in self._packing or ():
            one.use.add(pod, row, sign)
