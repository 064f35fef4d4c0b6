"""What the decision about locks reads of the nodes, as arrays over nodes in the order of their names.

Goes in: a snapshot, and the PodGroup cache that knows which queue a pod belongs to. Comes out, for every node: what it
offers, what is idle on it, what stays on it for whichever queue it is locked, whether pods may be sent there, and what
each queue uses there; and the nodes on which reservations hold seats, by queue.

The arrays of amounts are read `array[resource_index, node_index]`. Beware of the words: in the snapshot a node is a row
and a resource is a column of its tables, and nodes have other numbers there. So this module says `node_rows` and
`resource_columns` for places in the snapshot, `node_index` and `resource_index` for places in its own arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.pods import find_condition, stays_with_node
from restow.model.queues import DEFAULT_QUEUE
from restow.model.snapshot import Snapshot
from restow.model.taints import untolerated_taint
from restow.scheduling.pod_group_cache import PodGroupCache

ResourceMatrix = NDArray[np.int64]
"""Amounts in base units, as `[resource_index, node_index]`."""
_Sums = dict[int, dict[int, int]]
"""By node index and by resource column of the snapshot."""


class QueueUsage(msgspec.Struct, frozen=True):
    """What a queue uses, on the nodes where it uses anything."""

    nodes: RowIndex
    """Node indices, ascending."""
    amounts: ResourceMatrix
    """For these nodes only, in this order."""


class CapacityOfNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity of all nodes together, in arrays with an entry per node."""

    names: tuple[str, ...]
    """By node index. Sorted: ties between node indices are then ties by name."""
    resources: tuple[str, ...]
    """By resource index."""
    allocatable: ResourceMatrix
    idle: ResourceMatrix
    """Not negative."""
    pinned: ResourceMatrix
    """What pods use that no lock and no eviction moves, such as those of DaemonSets."""
    schedulable: Mask
    """Ready and not cordoned."""
    untainted: Mask
    """Without taints of effect NoSchedule or NoExecute."""
    usage: Mapping[str, QueueUsage] = msgspec.field(default_factory=dict)
    """By queue."""
    reserved_nodes: Mapping[str, RowIndex] = msgspec.field(default_factory=dict)
    """By queue: the nodes on which reservations hold seats for its jobs."""

    def totals(self) -> dict[str, int]:
        """What all nodes offer together, cordoned nodes included."""
        return dict(zip(self.resources, self.allocatable.sum(axis=1).tolist(), strict=True))

    def resource_indices(self, resources: tuple[str, ...]) -> list[int]:
        return [self.resources.index(name) for name in resources]

    def usage_per_node(self, queue: str, resource_indices: list[int]) -> ResourceMatrix:
        """What a queue uses on every node, in the resources with these indices."""
        usage = np.zeros((len(resource_indices), len(self.names)), np.int64)
        queue_usage = self.usage.get(queue)
        if queue_usage is not None:
            usage[:, queue_usage.nodes] = self.usage_where_used(queue_usage, resource_indices)
        return usage

    def usage_where_used(self, usage: QueueUsage, resource_indices: list[int]) -> ResourceMatrix:
        """The same, only for the nodes where the queue uses anything."""
        cells = np.array(resource_indices, np.intp)[:, None], usage.nodes
        # Idle plus the queue's own usage must not exceed what the node offers. It would on an overcommitted node, for
        # example after its allocatable has shrunk: idle is cut at 0 there.
        spent = np.maximum(self.allocatable[cells] - self.idle[cells], 0)
        amounts: ResourceMatrix = np.minimum(usage.amounts[resource_indices], spent)
        return amounts

    def idle_on(self, nodes: RowIndex) -> dict[str, int]:
        """What is idle on these nodes together."""
        return dict(zip(self.resources, self.idle[:, nodes].sum(axis=1).tolist(), strict=True))


def read_node_capacity(snapshot: Snapshot, pod_groups: PodGroupCache) -> CapacityOfNodes:
    """The nodes that exist now."""
    node_rows_by_name, room = snapshot.rows, snapshot.room
    names = tuple(name for name in node_rows_by_name.names() if snapshot.node(name) is not None)
    node_rows = np.array([node_rows_by_name.find_row(name) for name in names], np.intp)
    # Only resources that a column of the snapshot exists for: no guarantee can be given for any other.
    resource_columns = sorted(range(len(room.free)), key=lambda column: room.resources.names[column])
    resource_index_of = {column: resource_index for resource_index, column in enumerate(resource_columns)}
    pinned = np.zeros((len(resource_columns), len(names)), np.int64)
    usage: dict[str, _Sums] = defaultdict(dict)
    reserved_nodes: dict[str, set[int]] = defaultdict(set)
    for node_index, name in enumerate(names):
        for occupant in snapshot.occupants(name):
            queue = occupant_queue(occupant, snapshot, pod_groups)
            if occupant.ledger == "reserved":
                reserved_nodes[queue].add(node_index)
            if stays_with_node(occupant.pod):
                for column, amount in occupant.shape.amounts:
                    if column in resource_index_of:
                        pinned[resource_index_of[column], node_index] += amount
            else:
                _add_occupant(usage[queue], node_index, occupant)
    return CapacityOfNodes(
        names=names,
        resources=tuple(room.resources.names[column] for column in resource_columns),
        allocatable=room.allocatable.cells[resource_columns][:, node_rows],
        idle=np.maximum(room.free[resource_columns][:, node_rows], 0),
        pinned=pinned,
        schedulable=np.array([_is_schedulable(snapshot, name) for name in names], np.bool_),
        untainted=np.array([_is_untainted(snapshot, name) for name in names], np.bool_),
        usage={queue: _queue_usage(nodes, resource_columns) for queue, nodes in sorted(usage.items())},
        reserved_nodes={queue: np.array(sorted(nodes), np.intp) for queue, nodes in sorted(reserved_nodes.items())},
    )


def occupant_queue(occupant: Occupant, snapshot: Snapshot, pod_groups: PodGroupCache) -> str:
    """The queue of a pod, or of the reservation that holds a seat."""
    if occupant.ledger == "requested" or occupant.seat is None:
        return pod_groups.queue_of(occupant.pod)
    reservation = snapshot.reservations.get(occupant.seat.namespace, occupant.seat.reservation)
    return (reservation.spec.queue if reservation else None) or DEFAULT_QUEUE


def _add_occupant(sums: _Sums, node_index: int, occupant: Occupant) -> None:
    on_node = sums.setdefault(node_index, {})
    for column, amount in occupant.shape.amounts:
        on_node[column] = on_node.get(column, 0) + amount


def _queue_usage(sums: _Sums, resource_columns: list[int]) -> QueueUsage:
    nodes = sorted(sums)
    amounts = [[sums[node].get(column, 0) for node in nodes] for column in resource_columns]
    return QueueUsage(np.array(nodes, np.intp), np.array(amounts, np.int64).reshape(len(resource_columns), len(nodes)))


def _is_schedulable(snapshot: Snapshot, name: str) -> bool:
    node = snapshot.node(name)
    if node is None or node.spec.unschedulable:
        return False
    ready = find_condition(node.status.conditions, "Ready")
    return ready is None or ready.status == "True"


def _is_untainted(snapshot: Snapshot, name: str) -> bool:
    node = snapshot.node(name)
    return node is not None and not untolerated_taint(node.spec.taints, ())
