"""The fleet: what locking nodes for queues has to know of them, as arrays over nodes in the order of their names.

Goes in: a snapshot, and the roster that knows whose pods are whose. Comes out: what each node offers, what is idle on
it, what stays on it whoever it is locked for, whether pods may be sent there, and pods of everybody, what each queue
uses where, and which nodes are held for jobs of which queue by reservations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.pods import condition, stays_with_node
from restow.model.queues import DEFAULT_QUEUE
from restow.model.snapshot import Snapshot
from restow.model.taints import untolerated
from restow.scheduling.pod_group_cache import PodGroupCache

Cells = NDArray[np.int64]
"""A line per resource, a column per node, in base units."""
_Sums = dict[int, dict[int, int]]
"""By node and resource."""


class QueueUsage(msgspec.Struct, frozen=True):
    """What a queue uses, on the nodes where it does."""

    nodes: RowIndex
    amounts: Cells


class NodeCapacity(msgspec.Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    """Sorted, so that the order of columns is the order of names."""
    resources: tuple[str, ...]
    allocatable: Cells
    idle: Cells
    """Not negative."""
    pinned: Cells
    """What pods take that no lock and no eviction moves, such as DaemonSets'."""
    schedulable: Mask
    """Ready and not cordoned."""
    untainted: Mask
    """Without taints that keep pods off."""
    usage: Mapping[str, QueueUsage] = msgspec.field(default_factory=dict)
    seat_nodes: Mapping[str, RowIndex] = msgspec.field(default_factory=dict)
    """By queue: nodes on which reservations hold seats for its jobs."""

    def totals(self) -> dict[str, int]:
        """What all nodes offer, cordoned ones as well."""
        return dict(zip(self.resources, self.allocatable.sum(axis=1).tolist(), strict=True))

    def resource_rows(self, resources: tuple[str, ...]) -> list[int]:
        return [self.resources.index(name) for name in resources]

    def usage_per_node(self, queue: str, lines: list[int]) -> Cells:
        """What a queue uses on every node, at most what is not idle there."""
        own = np.zeros((len(lines), len(self.names)), np.int64)
        use = self.usage.get(queue)
        if use is not None:
            own[:, use.nodes] = self.usage_where_used(use, lines)
        return own

    def usage_where_used(self, use: QueueUsage, lines: list[int]) -> Cells:
        """The same, where the queue uses something."""
        cells = np.array(lines, np.intp)[:, None], use.nodes
        spent = np.maximum(self.allocatable[cells] - self.idle[cells], 0)
        own: Cells = np.minimum(use.amounts[lines], spent)
        return own

    def idle_on(self, nodes: RowIndex) -> dict[str, int]:
        return dict(zip(self.resources, self.idle[:, nodes].sum(axis=1).tolist(), strict=True))


def read_node_capacity(snapshot: Snapshot, roster: PodGroupCache) -> NodeCapacity:
    """The nodes that exist now."""
    table, room = snapshot.rows, snapshot.room
    names = tuple(name for name in table.names() if snapshot.node(name) is not None)
    rows = np.array([table.find(name) for name in names], np.intp)
    order = sorted(range(len(room.free)), key=lambda column: room.resources.names[column])
    line_of = {column: line for line, column in enumerate(order)}  # nobody can be guaranteed what no node offers
    staying = np.zeros((len(order), len(names)), np.int64)
    used: dict[str, _Sums] = defaultdict(dict)
    held: dict[str, set[int]] = defaultdict(set)
    for number, name in enumerate(names):
        for occupant in snapshot.occupants(name):
            queue = occupant_queue(occupant, snapshot, roster)
            if occupant.ledger == "reserved":
                held[queue].add(number)
            if stays_with_node(occupant.pod):
                for column, amount in occupant.shape.amounts:
                    if column in line_of:
                        staying[line_of[column], number] += amount
            else:
                _count(used[queue], number, occupant)
    return NodeCapacity(
        names=names,
        resources=tuple(room.resources.names[column] for column in order),
        allocatable=room.allocatable.cells[order][:, rows],
        idle=np.maximum(room.free[order][:, rows], 0),
        pinned=staying,
        schedulable=np.array([_takes_pods(snapshot, name) for name in names], np.bool_),
        untainted=np.array([_is_untainted(snapshot, name) for name in names], np.bool_),
        usage={queue: _use(nodes, order) for queue, nodes in sorted(used.items())},
        seat_nodes={queue: np.array(sorted(nodes), np.intp) for queue, nodes in sorted(held.items())},
    )


def occupant_queue(occupant: Occupant, snapshot: Snapshot, roster: PodGroupCache) -> str:
    """The queue of a pod, or of the reservation that holds a seat."""
    if occupant.ledger == "requested" or occupant.seat is None:
        return roster.queue_of(occupant.pod)
    reservation = snapshot.reservations.get(occupant.seat.namespace, occupant.seat.reservation)
    return (reservation.spec.queue if reservation else None) or DEFAULT_QUEUE


def _count(nodes: _Sums, number: int, occupant: Occupant) -> None:
    sums = nodes.setdefault(number, {})
    for column, amount in occupant.shape.amounts:
        sums[column] = sums.get(column, 0) + amount


def _use(nodes: _Sums, order: list[int]) -> QueueUsage:
    places = sorted(nodes)
    amounts = [[nodes[place].get(column, 0) for place in places] for column in order]
    return QueueUsage(np.array(places, np.intp), np.array(amounts, np.int64).reshape(len(order), len(places)))


def _takes_pods(snapshot: Snapshot, name: str) -> bool:
    node = snapshot.node(name)
    if node is None or node.spec.unschedulable:
        return False
    ready = condition(node.status.conditions, "Ready")
    return ready is None or ready.status == "True"


def _is_untainted(snapshot: Snapshot, name: str) -> bool:
    node = snapshot.node(name)
    return node is not None and not untolerated(node.spec.taints, ())
