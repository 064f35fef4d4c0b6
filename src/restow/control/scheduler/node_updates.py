"""Node updates: what a node, as it is now, changes in the snapshot and for reservations.

Goes in: nodes from watch events and from live reads. Comes out: the same nodes in the snapshot, and a look at the
reservations with seats there.
"""

from __future__ import annotations

from restow.control.scheduler.reservation_work_queue import ReservationWorkQueue
from restow.model.objects import Node
from restow.model.snapshot import Snapshot


class NodeUpdates:
    def __init__(self, snapshot: Snapshot, reservations: ReservationWorkQueue) -> None:
        self._snapshot = snapshot
        self._reservations = reservations

    def upsert_node(self, node: Node) -> None:
        """Take over a node as it is."""
        self._snapshot.apply_node(node)
        self._reservations.node_changed(node.metadata.name)

    def remove_node(self, node: Node) -> None:
        """A node is gone."""
        self._snapshot.remove_node(node)
        self._reservations.node_changed(node.metadata.name)
