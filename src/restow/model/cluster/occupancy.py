"""Occupancy: the pods and reserved pods that take room on nodes.

Goes in: occupants, which are pods (bound or assumed) and the reserved pods of seats. Comes out: the ledgers of `room`,
the host ports in use, the volumes mounted, the sums of the affinity index and, per node, the list of occupants. A
reserved pod counts in every respect as the pod that will come; only the ledger that it is charged to differs.
"""

from __future__ import annotations

import msgspec

from restow.model.cluster.affinity_index import AffinityIndex
from restow.model.cluster.host_ports import HostPorts
from restow.model.cluster.mounted_volumes import MountedVolumes
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.resource_columns import UNLISTED, Amounts
from restow.model.cluster.room import LedgerName, Room, negated_amounts
from restow.model.cluster.rows import Rows
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import Pod
from restow.model.reservations.seat_name import SeatName


class Occupant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod on a node, or the reserved pod of a seat there."""

    key: str
    """The UID of the pod; of a reserved pod, that is the name of its seat."""
    pod: Pod
    node: str
    shape: Shape
    ledger: LedgerName = "requested"
    leaving: bool = False
    assumed_at: float | None = None
    """When it was assumed; None once the API has shown it."""
    seat: SeatName | None = None
    """The seat that it was assumed in, or that its annotation names."""


class Occupancy:
    __slots__ = ("_affinity", "_log", "_nodes", "_occupants", "_ports", "_remainders", "_room", "_rows", "mounts")

    def __init__(
        self, log: UndoLog, rows: Rows, room: Room, nodes: NodeTable, ports: HostPorts, affinity: AffinityIndex
    ) -> None:
        self._log = log
        self._rows = rows
        self._room = room
        self._nodes = nodes
        self._ports = ports
        self._affinity = affinity
        self.mounts = MountedVolumes(log, rows)
        self._occupants: dict[str, dict[str, Occupant]] = {}
        self._remainders: dict[SeatName, tuple[str, Amounts]] = {}

    def occupants(self, node: str) -> list[Occupant]:
        """The occupants of a node, by key."""
        occupants = self._occupants.get(node, {})
        return [occupants[key] for key in sorted(occupants)]

    def add(self, occupant: Occupant) -> None:
        node, shape = occupant.node, occupant.shape
        row = self._rows.ensure_row(node)
        self._room.charge(occupant.ledger, row, shape.amounts, shape.scored)
        if occupant.leaving:
            self._room.count_leaving(row, shape.amounts)
        if shape.fields.ports:
            self._ports.use(row, occupant.key, shape.fields.ports)
        if shape.fields.volumes:
            self.mounts.mount(row, occupant.key, occupant.pod)
        self._affinity.add_pod(row, occupant)
        if node not in self._occupants:
            self._log.put(self._occupants, node, {})
        self._log.put(self._occupants[node], occupant.key, occupant)

    def remove(self, occupant: Occupant) -> None:
        row = self._rows.ensure_row(occupant.node)
        # In the reverse order of `add`, so that undo, which runs backwards, sees the same states in between.
        self._affinity.remove_pod(row, occupant)
        if occupant.shape.fields.volumes:
            self.mounts.unmount(row, occupant.key)
        if occupant.shape.fields.ports:
            self._ports.release(row, occupant.key, occupant.shape.fields.ports)
        if occupant.leaving:
            self._room.count_leaving(row, negated_amounts(occupant.shape.amounts))
        self._room.discharge(occupant.ledger, row, occupant.shape.amounts, occupant.shape.scored)
        self._log.drop(self._occupants[occupant.node], occupant.key)
        if not self._occupants[occupant.node]:
            self._log.drop(self._occupants, occupant.node)
        self.free_row(occupant.node)

    def remainder(self, seat: SeatName) -> Amounts:
        """What a seat reserves beside the pod in it."""
        remainder = self._remainders.get(seat)
        return remainder[1] if remainder is not None else ()

    def set_remainder(self, seat: SeatName, node: str, amounts: Amounts) -> None:
        """Reserve amounts on a node beside the pod in a seat, instead of those set for this seat before."""
        old = self._remainders.get(seat)
        if (old[1] if old else ()) == amounts and (old is None or old[0] == node):
            return
        if old is not None:
            self._room.discharge("reserved", self._rows.ensure_row(old[0]), old[1], ())
            self._log.drop(self._remainders, seat)
            self.free_row(old[0])
        if amounts:
            self._room.charge("reserved", self._rows.ensure_row(node), amounts, ())
            self._log.put(self._remainders, seat, (node, amounts))

    def count_only_room(self, occupant: Occupant) -> None:
        """Let an occupant count for nothing but its room. There is no inverse: only undo makes it count again."""
        row = self._rows.ensure_row(occupant.node)
        self._affinity.remove_pod(row, occupant)
        if occupant.shape.fields.volumes:
            self.mounts.unmount(row, occupant.key)
        if occupant.shape.fields.ports:
            self._log.record(self._room.changes.touch, row)  # undone last, so that masks made in between are made again
            self._ports.release(row, occupant.key, occupant.shape.fields.ports)
            self._room.changes.touch(row)

    def replace(self, old: Occupant, new: Occupant) -> None:
        """Put `new` in the place of `old`. An update that takes the same room changes no row: API servers write the
        zone and region labels of the node into every pod that is bound."""
        if not _takes_same_room(old, new):
            self.remove(old)
            self.add(new)
            return
        if old.pod.metadata.labels != new.pod.metadata.labels:
            self._affinity.replace_pod(self._rows.ensure_row(new.node), old, new)
        self._log.put(self._occupants[new.node], new.key, new)

    def is_exchangeable(self, held: Occupant, shape: Shape) -> bool:
        """Whether a pod of this shape takes exactly what an occupant has, in everything that is counted but labels."""
        facts = shape.fields
        return (
            held.shape is shape
            and not (held.leaving or facts.ports or facts.volumes or shape.selector_scopes)
            and not (shape.amounts and shape.amounts[-1][0] >= UNLISTED)
        )

    def exchange(self, old: Occupant, new: Occupant) -> None:
        """Put a pod in the place of a reserved pod that it is exchangeable with."""
        row, there = self._rows.ensure_row(new.node), self._occupants[new.node]
        self._room.transfer(row, new.shape.amounts, old.ledger, new.ledger)
        if old.pod.metadata.labels != new.pod.metadata.labels:
            self._affinity.replace_pod(row, old, new)
        self._log.drop(there, old.key)
        self._log.put(there, new.key, new)

    def free_row(self, node: str) -> None:
        """Free the row of a node name if nothing is known of it any more: no Node, occupant or remainder."""
        row = self._rows.find_row(node)
        if row is None or node in self._occupants or self._nodes.present[row]:
            return
        if all(where != node for where, _ in self._remainders.values()):
            self._rows.release(node)


def _takes_same_room(old: Occupant, new: Occupant) -> bool:
    return (
        old.key == new.key
        and old.node == new.node
        and old.shape is new.shape
        and old.ledger == new.ledger
        and old.leaving == new.leaving
    )


def is_consumption_unchanged(before: Occupant, after: Occupant) -> bool:
    """Whether an update changed nothing by which a pod is believed to have consumed a seat: see `consumer_rules`."""
    old, new = before.pod.metadata, after.pod.metadata
    return (
        before.node == after.node
        and before.assumed_at == after.assumed_at
        and before.shape is after.shape
        and old.labels == new.labels
        and old.annotations == new.annotations
        and old.owner_references == new.owner_references
    )
