"""The largest volume that a storage class can still provision for a node.

Goes in: CSIStorageCapacity objects, often one per node. Comes out: per node the largest size, 0 where no volume can be
provisioned. Capacities reached through one label, the usual case, are kept by the value of that label, so that a change
costs one cell; others are decided once per distinct topology.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from restow.model.affinity import NodeTerm
from restow.model.cluster import node_filters
from restow.model.cluster.node_labels import LabelColumn
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.rows import Which, extended_array
from restow.model.objects import CSIStorageCapacity
from restow.model.quantity import Quantity
from restow.model.selectors import NOTHING, LabelSelector, Requirement, SelectorError, label_selector

Sizes = NDArray[np.int64]


def largest_volume(capacity: CSIStorageCapacity) -> int:
    """The largest volume that a CSIStorageCapacity allows, in bytes; 0 if it does not say. Raises QuantityError."""
    size = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return 0 if size is None else Quantity.parse(size).value


class ProvisionableSizes:
    """What one storage class can provision."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_label: dict[str, _ByValue] = {}
        self._by_topology: dict[LabelSelector, dict[str, int]] = {}

    def put(self, key: str, capacity: CSIStorageCapacity) -> None:
        topology, size = _topology(capacity), largest_volume(capacity)
        label = _one_label(topology)
        if label is None:
            self._by_topology.setdefault(topology, {})[key] = size
        else:
            if label.key not in self._by_label:
                self._by_label[label.key] = _ByValue(self._nodes.labels.column(label.key))
            self._by_label[label.key].put(label.values[0], key, size)

    def drop(self, key: str, capacity: CSIStorageCapacity) -> None:
        """The inverse of `put`."""
        topology = _topology(capacity)
        label = _one_label(topology)
        if label is not None:
            self._by_label[label.key].drop(label.values[0], key)
        else:
            self._by_topology[topology].pop(key)
            if not self._by_topology[topology]:
                del self._by_topology[topology]

    def largest_sizes(self, rows: Which) -> Sizes:
        """The largest volume that can be provisioned for each row."""
        sizes = np.zeros(self._nodes.present[rows].shape, np.int64)
        for by_value in self._by_label.values():
            sizes = np.maximum(sizes, by_value.largest(rows))
        for topology, known in self._by_topology.items():
            if not topology.nothing:
                reached = node_filters.matches_term(self._nodes, NodeTerm(topology.requirements), rows)
                sizes = np.maximum(sizes, np.where(reached, max(known.values()), 0))
        return sizes


class _ByValue:
    """The capacities for nodes with a value of one label, by that value."""

    def __init__(self, column: LabelColumn) -> None:
        self._column = column
        self._known: dict[int, dict[str, int]] = {}
        self._sizes: Sizes = np.zeros(len(column.values), np.int64)

    def put(self, value: str, key: str, size: int) -> None:
        self._known.setdefault(self._column.intern(value), {})[key] = size
        self._refresh(value)

    def drop(self, value: str, key: str) -> None:
        self._known[self._column.intern(value)].pop(key)
        self._refresh(value)

    def largest(self, rows: Which) -> Sizes:
        if len(self._sizes) < len(self._column.values):
            self._sizes = extended_array(self._sizes, 2 * len(self._column.values))
        return self._sizes[self._column.ids[rows]]

    def _refresh(self, value: str) -> None:
        number = self._column.intern(value)
        if number >= len(self._sizes):
            self._sizes = extended_array(self._sizes, 2 * number)
        self._sizes[number] = max(self._known[number].values(), default=0)


def _topology(capacity: CSIStorageCapacity) -> LabelSelector:
    """The nodes that a capacity is for; none if it does not say, or has an invalid selector."""
    try:
        return label_selector(capacity.node_topology)
    except SelectorError:
        return NOTHING


def _one_label(topology: LabelSelector) -> Requirement | None:
    """The requirement of a topology that only requires one value of one label; else None."""
    if len(topology.requirements) != 1:
        return None
    only = topology.requirements[0]
    return only if only.operator == "In" and len(only.values) == 1 else None
