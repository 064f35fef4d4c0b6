"""Measures how scattered the free resources of a cluster are.

Goes in: a `Snapshot`. Comes out: figures, or arrays over its rows. Requested is what all pods request and what live
reservations hold. Rows without a Node, and Nodes that do not offer a resource, are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.cluster.resource_columns import Amounts
from restow.model.pods import stays_with_node
from restow.model.resources import CPU, MEMORY, PODS, Vector
from restow.model.snapshot import Snapshot
from restow.planning.plan import Measures

Rates = NDArray[np.float64]


def pods_on_node(snapshot: Snapshot, node: str) -> list[Occupant]:
    """The pods and the seats of reservations on a node, without static and DaemonSet pods."""
    return [occupant for occupant in snapshot.occupants(node) if not stays_with_node(occupant.pod)]


def pod_counts(snapshot: Snapshot) -> NDArray[np.int64]:
    """How many pods and seats each row has, static and DaemonSet pods not counted."""
    counts = np.zeros(snapshot.rows.size, np.int64)
    for name in snapshot.rows.names():
        row = snapshot.rows.find_row(name)
        if row is not None:
            counts[row] = len(pods_on_node(snapshot, name))
    return counts


def shape_amounts(snapshot: Snapshot, shape: Vector) -> Amounts:
    """What one pod of a shape takes: the amounts of the shape, and one of the pods that the node allows."""
    return snapshot.room.resources.amounts({PODS: 1, **shape})


def slots_by_row(snapshot: Snapshot, amounts: Amounts) -> NDArray[np.int64]:
    """How many more pods of these amounts each row has room for; none on cordoned nodes."""
    room, every = snapshot.room, snapshot.rows.every
    usable = snapshot.nodes.present[every] & ~snapshot.nodes.unschedulable[every]
    slots = np.full(snapshot.rows.size, np.iinfo(np.int64).max)
    for column, amount in amounts:
        free = room.free[column][every] if column < len(room.free) else np.zeros_like(slots)
        slots = np.minimum(slots, np.maximum(free, 0) // amount)
    return np.where(usable, slots, 0)


def count_slots(snapshot: Snapshot, shape: Vector) -> int:
    """How many more pods of a shape the cluster has room for."""
    return int(slots_by_row(snapshot, shape_amounts(snapshot, shape)).sum())


def requested_amounts(snapshot: Snapshot, resource: str) -> NDArray[np.int64]:
    """How much of a resource is requested by pods or held by reservations, per row."""
    room, column = snapshot.room, snapshot.room.resources.column(resource)
    if column >= len(room.free):
        return np.zeros(snapshot.rows.size, np.int64)
    every = snapshot.rows.every
    total: NDArray[np.int64] = room.requested.cells[column][every] + room.reserved.cells[column][every]
    return total


def allocatable_amounts(snapshot: Snapshot, resource: str) -> NDArray[np.int64]:
    """The allocatable amount of a resource, per row."""
    room, column = snapshot.room, snapshot.room.resources.column(resource)
    if column >= len(room.free):
        return np.zeros(snapshot.rows.size, np.int64)
    cells: NDArray[np.int64] = room.allocatable.cells[column][snapshot.rows.every].copy()
    return cells


def utilisation_percent(snapshot: Snapshot, resource: str) -> Rates:
    """Requested per allocatable, in percent; NaN on rows that do not offer the resource."""
    total = allocatable_amounts(snapshot, resource)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 100.0 * requested_amounts(snapshot, resource) / total, np.nan)


def node_imbalance(rates_by_resource: Sequence[Rates]) -> Rates:
    """The population standard deviation of each node's rates over the resources. NaN rates are left out; with fewer
    than two rates it is 0."""
    rates = np.stack(rates_by_resource)
    known = ~np.isnan(rates)
    number = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rates, 0.0).sum(axis=0) / number
    spread: Rates = np.sqrt((np.where(known, rates - mean, 0.0) ** 2).sum(axis=0) / number)
    return spread


def dense_imbalance(rates_by_resource: Sequence[Rates]) -> Rates:
    """`node_imbalance`, faster, where every node offers every resource."""
    mean = sum(rates_by_resource[1:], rates_by_resource[0]) / len(rates_by_resource)
    squares = [(rates - mean) ** 2 for rates in rates_by_resource]
    spread: Rates = np.sqrt(sum(squares[1:], squares[0]) / len(rates_by_resource))
    return spread


def mean_and_deviation(values: Rates) -> tuple[float, float]:
    """The mean and the population standard deviation; zeros for no values."""
    return (float(values.mean()), float(values.std())) if len(values) else (0.0, 0.0)


def ready_rows(snapshot: Snapshot) -> Mask:
    """Rows with a Node that has no Ready condition, or one that is True."""
    ready = snapshot.nodes.present[snapshot.rows.every].copy()
    for row in np.flatnonzero(ready).tolist():
        node = snapshot.nodes.get(row)
        conditions = (node.status.conditions if node else None) or ()
        ready[row] = all(condition.status == "True" for condition in conditions if condition.type == "Ready")
    return ready


def name_ranks(snapshot: Snapshot) -> RowIndex:
    """The rank of each row's name among all names, to break ties."""
    ranks = np.zeros(snapshot.rows.size, np.intp)
    for rank, name in enumerate(snapshot.rows.names()):
        row = snapshot.rows.find_row(name)
        if row is not None:
            ranks[row] = rank
    return ranks


def cluster_overview(snapshot: Snapshot, resources: Collection[str] = (CPU, MEMORY)) -> Measures:
    """The number of nodes and of free nodes, and by resource the mean utilisation of the nodes that are not free."""
    counts = pod_counts(snapshot)
    present = snapshot.nodes.present[snapshot.rows.every]
    figures: Measures = {"nodes": int(present.sum()), "freeNodes": int(np.count_nonzero(present & (counts == 0)))}
    for resource in resources:
        rates = utilisation_percent(snapshot, resource)
        occupied = rates[present & (counts > 0) & ~np.isnan(rates)]
        figures[f"utilisation.{resource}"] = round(float(occupied.mean()), 2) if len(occupied) else 0.0
    return figures
