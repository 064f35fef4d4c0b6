"""The contents of a snapshot as plain values that tests can compare."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from restow.model.cluster import PodClass, node_filters
from restow.model.cluster.incremental_vector import IncrementalVector
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.room import Ledger
from restow.model.cluster.rows import Mask
from restow.model.snapshot import Snapshot

LEDGERS = ("allocatable", "requested", "reserved", "releasing", "nonzero")
Table = dict[str, dict[str, int]]


def ledgers(snapshot: Snapshot) -> dict[str, Table]:
    """Every non-zero amount by ledger, node and resource."""
    return {name: _table(snapshot, getattr(snapshot.room, name)) for name in LEDGERS}


def free_amounts(snapshot: Snapshot, name: str) -> dict[str, int]:
    return _free(snapshot, snapshot.rows._rows[name])


def ledger_amount(snapshot: Snapshot, ledger: str, name: str, resource: str = "cpu") -> int:
    return ledgers(snapshot)[ledger].get(name, {}).get(resource, 0)


class Fitting:
    """Where there is room for one more pod, brought up to date by nothing but the changes of the room, as all are who
    keep what they read of it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._kept: dict[Shape, IncrementalVector[np.bool_]] = {}

    def of(self, shape: Shape) -> Mask:
        room = self._snapshot.room
        if shape not in self._kept:
            self._kept[shape] = IncrementalVector(
                room.rows, (room.changes,), lambda rows: node_filters.rows_that_fit(room, shape.amounts, rows)
            )
        return self._kept[shape].read()

    def feasible(self, pod_class: PodClass) -> Mask:
        """Nodes that suit pods of a class, too, by their own word."""
        return self._snapshot.masks.eligible(pod_class.shape) & self.of(pod_class.shape)


def all_values(snapshot: Snapshot) -> dict[str, Any]:
    """Every value that undo must restore, also which row belongs to which node; but not generations and interned
    names."""
    rows, room, nodes, pods, reservations = (
        snapshot.rows,
        snapshot.room,
        snapshot.nodes,
        snapshot.pods,
        snapshot.reservations,
    )
    placements, assigned = reservations.placements, reservations.consumers.assigned
    size = rows.size
    return {
        "rows": (dict(rows._rows), list(rows._names), list(rows._free)),
        "room": ledgers(snapshot),
        "beyond": {kind: dict(getattr(room, kind)._beyond) for kind in LEDGERS},
        "free": [_free(snapshot, row) for row in range(size)],
        "nodes": (dict(nodes._nodes), nodes.present[:size].tolist(), nodes.unschedulable[:size].tolist()),
        "taints": nodes.taints[:size].tolist(),
        "labels": (dict(nodes.labels._labels), {k: c.ids[:size].tolist() for k, c in nodes.labels._columns.items()}),
        "occupants": {name: dict(known) for name, known in snapshot.occupancy._occupants.items()},
        "pods": (dict(pods._known), pods.seen),
        "versions": [
            (dict(one._live), dict(one._gone))
            for one in (pods._versions, snapshot._node_versions, placements._versions, snapshot.locks._versions)
        ],
        "reservations": {
            (type(part), name): {key: dict(one) if isinstance(one, dict) else one for key, one in value.items()}
            for part in (placements, reservations.consumers, reservations.states, reservations.reserved_pods)
            for name, value in vars(part).items()
            if isinstance(value, dict)
        },
        "assigned seats": [dict(one) for one in (assigned._reservation_of, assigned._on_the_way, assigned._count)],
        "remainders": dict(snapshot.occupancy._remainders),
        "free seats": copy.deepcopy((reservations.free._seats, reservations.free.owner_index._by_lookup_key)),
        "live reservations": copy.deepcopy(reservations.live._by_lookup_key),
        "reserved usage": copy.deepcopy(reservations.reserved_pods.usage._sums),
        "ports": copy.deepcopy(snapshot.ports._in_use),
        "mounts": copy.deepcopy((snapshot.mounts._by_row, snapshot.mounts._claims, snapshot.mounts._disks)),
        "alike pods": {group.key: dict(group.rows) for group in snapshot.affinity._groups.values() if group.rows},
        "pod counts": [dict(one.by_row) for one in snapshot.affinity._pod_counts.values()],
        "affinity weights": {term: dict(one.by_row) for term, one in snapshot.affinity._weights.items() if one.by_row},
        "namespaces": dict(snapshot.namespaces._labels),
        "locks": (dict(snapshot.locks._nodes_of), dict(snapshot.locks._holders_of)),
        "locked rows": [snapshot.locks.holders[number] for number in snapshot.locks.of_row[:size].tolist()],
        "owner chains": (dict(snapshot.owner_chains._owners), dict(snapshot.owner_chains._groups)),
    }


def _free(snapshot: Snapshot, row: int) -> dict[str, int]:
    """What is left of each resource that some is offered or taken of, whether it has a column or not."""
    room = snapshot.room
    numbers = [*range(len(room.free)), *room._unlisted.by_row.get(row, ())]
    return {room.resources.name(number): room.left(number, row) for number in numbers if room.left(number, row)}


def _table(snapshot: Snapshot, ledger: Ledger) -> Table:
    resources = snapshot.room.resources
    table: Table = {}
    for row in range(snapshot.rows.size):
        amounts = {resources.name(column): ledger.exact(column, row) for column in range(len(ledger.cells))}
        apart = snapshot.room._unlisted.by_row.get(row, {})
        amounts |= {resources.name(number): sums.get(ledger, 0) for number, sums in apart.items()}
        present = {name: value for name, value in amounts.items() if value}
        if present:
            table[snapshot.rows.name(row) or f"free row {row}"] = present
    return table
