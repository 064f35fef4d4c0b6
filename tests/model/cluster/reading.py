"""What a snapshot holds, as plain values that tests can compare."""

from __future__ import annotations

import copy
from typing import Any

from restow.model.cluster import Snapshot
from restow.model.cluster.room import Ledger

LEDGERS = ("allocatable", "requested", "reserved", "releasing", "nonzero")
Table = dict[str, dict[str, int]]


def ledgers(snapshot: Snapshot) -> dict[str, Table]:
    """Every non-zero amount by ledger, node and resource."""
    return {name: _table(snapshot, getattr(snapshot.room, name)) for name in LEDGERS}


def free(snapshot: Snapshot, name: str) -> dict[str, int]:
    row = snapshot.rows.find(name)
    names = snapshot.room.resources.names
    return {names[column]: int(cells[row]) for column, cells in enumerate(snapshot.room.free)}


def amount(snapshot: Snapshot, ledger: str, name: str, resource: str = "cpu") -> int:
    return ledgers(snapshot)[ledger].get(name, {}).get(resource, 0)


def everything(snapshot: Snapshot) -> dict[str, Any]:
    """Every value that undo must restore, down to which row is whose; generations and interned names apart."""
    rows, room, nodes, pods, reservations = (
        snapshot.rows,
        snapshot.room,
        snapshot.nodes,
        snapshot.pods,
        snapshot.reservations,
    )
    size = rows.size
    names = room.resources.names
    return {
        "rows": (dict(rows._rows), list(rows._names), list(rows._free)),
        "room": {
            (kind, names[column]): cells[:size].tolist()
            for kind in LEDGERS
            for column, cells in enumerate(getattr(room, kind).cells)
            if cells.any()
        },
        "beyond": {kind: dict(getattr(room, kind)._beyond) for kind in LEDGERS},
        "free": {names[column]: cells[:size].tolist() for column, cells in enumerate(room.free) if cells.any()},
        "nodes": (dict(nodes._nodes), nodes.present[:size].tolist(), nodes.unschedulable[:size].tolist()),
        "taints": nodes.taints[:size].tolist(),
        "labels": (dict(nodes.labels._labels), {k: c.ids[:size].tolist() for k, c in nodes.labels._columns.items()}),
        "occupants": {name: dict(known) for name, known in snapshot.occupancy._occupants.items()},
        "pods": (dict(pods._known), pods.seen),
        "versions": [
            (dict(one._live), dict(one._gone))
            for one in (pods._versions, snapshot._node_versions, reservations._versions, snapshot.locks._versions)
        ],
        "reservations": {name: dict(value) for name, value in vars(reservations).items() if isinstance(value, dict)},
        "aside": dict(snapshot.occupancy._aside),
        "vacancies": copy.deepcopy((reservations.vacancies._seats, reservations.vacancies._listed)),
        "holdings": copy.deepcopy(reservations.holdings._sums),
        "ports": copy.deepcopy(snapshot.ports._held),
        "mounts": copy.deepcopy((snapshot.mounts._on, snapshot.mounts._claims, snapshot.mounts._disks)),
        "crowd": {group.key: dict(group.rows) for group in snapshot.crowd._groups.values() if group.rows},
        "headcounts": [dict(one.by_row) for one in snapshot.crowd._headcounts.values()],
        "stances": {view: dict(one.by_row) for view, one in snapshot.crowd._stances.items() if one.by_row},
        "namespaces": dict(snapshot.namespaces._labels),
        "locks": (dict(snapshot.locks._nodes_of), dict(snapshot.locks._holders_of)),
        "locked rows": [snapshot.locks.holders[number] for number in snapshot.locks.of_row[:size].tolist()],
        "kinship": (dict(snapshot.kinship._owners), dict(snapshot.kinship._groups)),
    }


def _table(snapshot: Snapshot, ledger: Ledger) -> Table:
    names = snapshot.room.resources.names
    table: Table = {}
    for row in range(snapshot.rows.size):
        amounts = {name: ledger.exact(column, row) for column, name in enumerate(names) if column < len(ledger.cells)}
        present = {name: value for name, value in amounts.items() if value}
        if present:
            table[snapshot.rows.name(row) or f"vacant row {row}"] = present
    return table
