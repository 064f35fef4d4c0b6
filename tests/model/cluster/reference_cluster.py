"""A slow reference of the snapshot: it keeps the objects that were delivered and works everything out from them."""

from __future__ import annotations

from typing import Any

from restow.model.affinity import node_constraint
from restow.model.cluster.room import LIMIT
from restow.model.objects import Node, Placement, Pod, Reservation
from restow.model.resources import add_vectors, parse_amounts, pod_requests, scored_requests, subtract_vectors
from restow.model.taints import UNSCHEDULABLE, untolerated_taint
from tests.model.cluster.snapshot_values import LEDGERS, Table
from tests.narrowing import present


class Reference:
    """The objects delivered so far; everything else is computed from them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.over: set[str] = set()
        self.reservations: dict[str, Reservation] = {}
        self.named_at: dict[tuple[str, int], tuple[str, int]] = {}
        self.assumed: dict[str, tuple[Pod, str, str | None]] = {}
        self.assumed_placements: dict[str, dict[int, Placement]] = {}
        self.seen = 0

    def deliver(self, kind: str, gone: bool, item: Any) -> None:
        version = int(item.metadata.resource_version)
        if kind == "node":
            self.nodes.pop(item.metadata.name, None) if gone else self.nodes.update({item.metadata.name: item})
        elif kind == "pod":
            self._deliver_pod(gone or item.status.phase == "Succeeded", item)
        else:
            self._deliver_reservation(gone, item, version)

    def _deliver_pod(self, over: bool, item: Pod) -> None:
        uid = item.metadata.uid
        if over:
            self.over.add(uid)
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = item
        if over or item.spec.node_name:
            self.assumed.pop(uid, None)
        elif uid in self.assumed:
            self.assumed[uid] = (item, *self.assumed[uid][1:])

    def _deliver_reservation(self, gone: bool, item: Reservation, version: int) -> None:
        name = item.metadata.name
        old, self.named_at = self.named_at, {key: at for key, at in self.named_at.items() if key[0] != name}
        self.reservations.pop(name, None)
        if gone or item.status.state.phase in ("Succeeded", "Failed"):
            self.assumed_placements.pop(name, None)
        if gone:
            return
        self.reservations[name] = item
        self.drop_shown_placements(name)
        for placement in item.status.placements or ():
            if placement.pod_ref and placement.pod_ref.uid:
                consumer, key = placement.pod_ref.uid, (name, placement.index)
                known = old.get(key)
                self.named_at[key] = known if known and known[0] == consumer else (consumer, version)

    def drop_shown_placements(self, name: str) -> None:
        shown = {placement.index for placement in self.reservations[name].status.placements or ()}
        left = {index: one for index, one in self.assumed_placements.pop(name, {}).items() if index not in shown}
        if left:
            self.assumed_placements[name] = left

    def placed(self) -> list[tuple[Pod, str, str | None, bool]]:
        """(pod, node, the seat it names, whether we assumed it)."""
        bound = [
            (one, one.spec.node_name, (one.metadata.annotations or {}).get("restow.sh/reservation"), False)
            for one in self.pods.values()
            if one.spec.node_name
        ]
        return bound + [(one, where, seat, True) for one, where, seat in self.assumed.values()]

    def held(self) -> list[tuple[str, str, Pod]]:
        """(seat, node, a pod like the one it is kept for) of every seat that holds room."""
        return [
            (
                f"default/{name}/t/{placement.index}",
                placement.node_name,
                Pod(spec=present(one.spec.tasks)[0].template.spec),
            )
            for name, one in self.reservations.items()
            for placement in (*(one.status.placements or ()), *self.assumed_placements.get(name, {}).values())
            if self._holds(name, one, placement)
        ]

    def _holds(self, name: str, one: Reservation, placement: Any) -> bool:
        if placement.pod_ref is not None:
            consumer, version = self.named_at[name, placement.index]
            visible = any(other.metadata.uid == consumer for other, *_ in self.placed())
            return not visible and consumer not in self.over and version > self.seen
        if one.status.state.phase in ("Succeeded", "Failed"):
            return False
        return not self._occupants(name, placement)

    def _occupants(self, name: str, placement: Any) -> list[tuple[str, Pod, bool]]:
        """(UID, pod, whether it is assumed) of the pods that may occupy an open seat; the first of them does. A pod
        that does not name the UID of the reservation means another one."""
        seat = f"default/{name}/t/{placement.index}"
        occupants = [
            (other.metadata.uid, other, ours)
            for other, where, named, ours in self.placed()
            if (named, where) == (seat, placement.node_name)
            and (
                ours
                or (
                    _named_reservation_uid(other) == f"uid-{name}" and (other.metadata.labels or {}).get("app") == "web"
                )
            )
        ]
        return sorted(occupants, key=lambda occupant: occupant[0])

    def aside(self) -> list[tuple[str, dict[str, int]]]:
        """(node, amounts) of what seats hold remainder the pods in them, or on their way there."""
        found = []
        for name, one in self.reservations.items():
            size = pod_requests(Pod(spec=present(one.spec.tasks)[0].template.spec))
            for placement in (*(one.status.placements or ()), *self.assumed_placements.get(name, {}).values()):
                is_open = placement.pod_ref is None and one.status.state.phase not in ("Succeeded", "Failed")
                occupants = self._occupants(name, placement) if is_open else []
                if occupants:
                    remainder = subtract_vectors(size, pod_requests(occupants[0][1]))
                    found.append((placement.node_name, {what: more for what, more in remainder.items() if more > 0}))
        return found

    def ledgers(self) -> dict[str, Table]:
        tables: dict[str, Table] = {name: {} for name in LEDGERS}

        def count(ledger: str, where: str, vector: dict[str, int]) -> None:
            tables[ledger][where] = add_vectors(tables[ledger].get(where, {}), vector)

        for name, node in self.nodes.items():
            count("allocatable", name, parse_amounts(node.status.allocatable))
        for one, where, _, _ in self.placed():
            count("requested", where, {**pod_requests(one), "pods": 1})
            count("nonzero", where, scored_requests(one))
            if one.metadata.deletion_timestamp and one.spec.node_name:
                count("releasing", where, {**pod_requests(one), "pods": 1})
        for _, where, reserved_pod in self.held():
            count("reserved", where, {**pod_requests(reserved_pod), "pods": 1})
            count("nonzero", where, scored_requests(reserved_pod))
        for where, remainder in self.aside():
            count("reserved", where, remainder)
        return {name: _without_zeros(table) for name, table in tables.items()}


def _without_zeros(table: Table) -> Table:
    cleaned = {where: {name: value for name, value in vector.items() if value} for where, vector in table.items()}
    return {where: vector for where, vector in cleaned.items() if vector}


def accepts(one: Node | None, probe: Pod) -> bool:
    if one is None:
        return False
    tolerations = probe.spec.tolerations
    cordoned = bool(one.spec.unschedulable and untolerated_taint([UNSCHEDULABLE], tolerations))
    wanted = node_constraint(probe.spec).matches(one.metadata.name, one.metadata.labels)
    return wanted and not cordoned and not untolerated_taint(one.spec.taints, tolerations)


def requests_of_probe(probe: Pod) -> dict[str, int]:
    return {**pod_requests(probe), "pods": 1}


def free_of(tables: dict[str, Table], name: str) -> dict[str, int]:
    """Free room as exact integers."""
    taken = add_vectors(tables["requested"].get(name, {}), tables["reserved"].get(name, {}))
    return subtract_vectors(tables["allocatable"].get(name, {}), taken)


def is_huge(tables: dict[str, Table], name: str) -> bool:
    """Beyond the limit of a cell a node may look smaller than it is."""
    return any(value > LIMIT for table in tables.values() for value in table.get(name, {}).values())


def _named_reservation_uid(one: Pod) -> str | None:
    return (one.metadata.annotations or {}).get("restow.sh/reservation-uid")
