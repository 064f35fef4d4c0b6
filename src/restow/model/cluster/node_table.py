"""The node table: what Nodes say, as arrays over rows.

Goes in: a Node (or None) for a row. Comes out: `present`, `unschedulable`, interned taint sets (a cluster has few
distinct ones, so a toleration is checked once per set), label columns. A row is present while its Node exists; a row
that only pods or seats name is not present, and no filter accepts it.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster.node_labels import Ids, NodeLabels
from restow.model.cluster.row_changes import RowChanges
from restow.model.cluster.rows import Mask, Rows, extended_array
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import Node, Taint

TaintSet = tuple[Taint, ...]


class NodeTable:
    def __init__(self, log: UndoLog, rows: Rows) -> None:
        capacity = rows.capacity
        self._log = log
        self.rows = rows
        self.changes = RowChanges(rows)
        self.present: Mask = np.zeros(capacity, np.bool_)
        self.unschedulable: Mask = np.zeros(capacity, np.bool_)
        self.taints: Ids = np.zeros(capacity, np.int32)
        self.taint_sets: list[TaintSet] = [()]
        self.labels = NodeLabels(rows)
        self._taint_ids: dict[TaintSet, int] = {(): 0}
        self._nodes: dict[int, Node] = {}
        rows.on_growth(self._grow)

    def get(self, row: int) -> Node | None:
        return self._nodes.get(row)

    def write(self, row: int, node: Node | None) -> None:
        """Replace what is known of the node on a row. A heartbeat changes nothing that scheduling reads, and no row."""
        old = self._nodes.get(row)
        self._log.record(self.write, row, old)
        if node is None:
            self._nodes.pop(row, None)
        else:
            self._nodes[row] = node
        if _is_equal_to_scheduling(old, node):
            return
        self.present[row] = node is not None
        self.unschedulable[row] = node is not None and bool(node.spec.unschedulable)
        self.taints[row] = self._intern(_taint_set(node))
        self.labels.write(row, None if node is None else node.metadata.labels or {})
        self.changes.touch(row)

    def _grow(self, capacity: int) -> None:
        self.present = extended_array(self.present, capacity)
        self.unschedulable = extended_array(self.unschedulable, capacity)
        self.taints = extended_array(self.taints, capacity)

    def _intern(self, taints: TaintSet) -> int:
        taint_id = self._taint_ids.get(taints)
        if taint_id is None:
            taint_id = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return taint_id


def _taint_set(node: Node | None) -> TaintSet:
    """Taints without the time they were added, sorted."""
    taints = {(taint.key, taint.value or "", taint.effect) for taint in node.spec.taints or ()} if node else set()
    return tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in sorted(taints))


def _is_equal_to_scheduling(old: Node | None, new: Node | None) -> bool:
    if old is None or new is None:
        return old is new
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.images == new.status.images
        and old.status.declared_features == new.status.declared_features
    )
