"""The snapshot against a naive reference, through random events: repeated, late, out of order between kinds, undone."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from restow.model.affinity import node_constraint
from restow.model.cluster import SeatName, Snapshot
from restow.model.cluster.audience import Audience
from restow.model.cluster.domains import summed
from restow.model.cluster.filters import shortages
from restow.model.cluster.room import LIMIT
from restow.model.objects import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Placement,
    Pod,
    Reservation,
    SelectorRequirement,
    Taint,
    Toleration,
)
from restow.model.resources import add, amounts, fits, pod_requests, scored_requests, subtract
from restow.model.selectors import parse_label_selector
from restow.model.taints import UNSCHEDULABLE, untolerated
from tests.model.cluster.builders import node, placements_of, pod, reservation
from tests.model.cluster.reading import LEDGERS, Table, everything, ledgers

NODES = ["n0", "n1", "n2", "n3"]
OFFERS = [
    {"cpu": "4", "memory": "8Gi", "pods": "10"},
    {"cpu": "1", "memory": "1Gi", "pods": "3", "example.com/gpu": "2"},
    {"cpu": "0", "pods": "1"},
    {"cpu": "9E", "memory": "8E", "pods": "110"},
]
REQUESTS = [
    {},
    {"cpu": "1"},
    {"cpu": "500m", "memory": "1Gi"},
    {"example.com/gpu": "1"},
    {"memory": "7E"},
    {"new": "3"},
]
LABELS = [None, {"zone": "a"}, {"zone": "b", "disk": "ssd"}, {"zone": "a", "cores": "16"}]
TAINTS = [
    None,
    [Taint(key="gpu", effect="NoSchedule")],
    [Taint(key="gpu", effect="NoSchedule"), Taint(key="soft", effect="PreferNoSchedule")],
    [Taint(key="gone", value="yes", effect="NoExecute")],
]
APPS = [{"app": "web"}, {"app": "db"}]
RESERVATIONS = ["r0", "r1"]
SEATS = [f"default/{name}/t/{index}" for name in RESERVATIONS for index in range(2)]


def _term(key: str, operator: str, *values: str, field: bool = False) -> NodeSelectorTerm:
    expression = [SelectorRequirement(key=key, operator=operator, values=list(values) or None)]
    return NodeSelectorTerm(match_fields=expression) if field else NodeSelectorTerm(match_expressions=expression)


def _required(*terms: NodeSelectorTerm) -> Affinity:
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=list(terms))))


PROBES = [
    pod("plain", {"cpu": "1"}),
    pod("nothing", {}),
    pod("memory", {"memory": "2Gi"}),
    pod("gpu", {"example.com/gpu": "1"}, tolerations=[Toleration(key="gpu", operator="Exists")]),
    pod("never seen", {"other.com/thing": "1"}),
    pod("anywhere", {"cpu": "100m"}, tolerations=[Toleration(operator="Exists")]),
    pod("zone a", node_selector={"zone": "a"}),
    pod(
        "not a or named",
        affinity=_required(_term("zone", "NotIn", "a"), _term("metadata.name", "In", "n1", field=True)),
    ),
    pod("not n1", affinity=_required(_term("metadata.name", "NotIn", "n1", field=True))),
    pod("many cores", affinity=_required(_term("cores", "Gt", "8"))),
    pod("ssd or none", affinity=_required(_term("disk", "Exists"), _term("zone", "DoesNotExist"))),
    pod("unreadable", affinity=_required(_term("zone", "Sometimes", "a"))),
]


class Reference:
    """The objects delivered so far; everything else is computed from them, slowly and plainly."""

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
            (f"default/{name}/t/{placement.index}", placement.node_name, Pod(spec=one.spec.tasks[0].template.spec))
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
        seat = f"default/{name}/t/{placement.index}"
        return not any(
            named == seat
            and where == placement.node_name
            and (ours or (other.metadata.labels or {}).get("app") == "web")
            for other, where, named, ours in self.placed()
        )

    def ledgers(self) -> dict[str, Table]:
        tables: dict[str, Table] = {name: {} for name in LEDGERS}

        def count(ledger: str, where: str, vector: dict[str, int]) -> None:
            tables[ledger][where] = add(tables[ledger].get(where, {}), vector)

        for name, one in self.nodes.items():
            count("allocatable", name, amounts(one.status.allocatable))
        for one, where, _, _ in self.placed():
            count("requested", where, {**pod_requests(one), "pods": 1})
            count("nonzero", where, scored_requests(one))
            if one.metadata.deletion_timestamp and one.spec.node_name:
                count("releasing", where, {**pod_requests(one), "pods": 1})
        for _, where, stand_in in self.held():
            count("reserved", where, {**pod_requests(stand_in), "pods": 1})
            count("nonzero", where, scored_requests(stand_in))
        return {name: _without_zeros(table) for name, table in tables.items()}


def _without_zeros(table: Table) -> Table:
    cleaned = {where: {name: value for name, value in vector.items() if value} for where, vector in table.items()}
    return {where: vector for where, vector in cleaned.items() if vector}


class SnapshotMachine(RuleBasedStateMachine):
    """Writes change the truth and queue events, delivered in order per kind and in any order between kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = Snapshot()
        self.reference = Reference()
        self.version = 0
        self.pods: dict[str, Pod] = {}
        self.queues: dict[str, deque[tuple[bool, Any]]] = {"node": deque(), "pod": deque(), "reservation": deque()}
        self.delivered: list[tuple[str, bool, Any]] = []
        self.marks: list[tuple[Any, Reference, dict[str, Any], int]] = []
        self.created = 0
        web = (Audience(parse_label_selector("app=web"), frozenset(["default"])),)
        self.web_by_zone = summed(self.snapshot.topologies.domains("zone"), self.snapshot.crowd.headcount(web))

    # --- writes -------------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self.version += 1
        return self.version

    @rule(
        name=st.sampled_from(NODES),
        offers=st.sampled_from(OFFERS),
        labels=st.sampled_from(LABELS),
        taints=st.sampled_from(TAINTS),
        cordoned=st.booleans(),
    )
    def write_node(self, name: str, offers: Any, labels: Any, taints: Any, cordoned: bool) -> None:
        written = node(name, offers, labels=labels, taints=taints, unschedulable=cordoned, version=self._next())
        self.queues["node"].append((False, written))

    @rule(name=st.sampled_from(NODES))
    def delete_node(self, name: str) -> None:
        self.queues["node"].append((True, node(name, version=self._next())))

    def _write_pod(self, written: Pod, gone: bool = False) -> None:
        if gone or written.status.phase == "Succeeded":
            self.pods.pop(written.metadata.uid, None)
        else:
            self.pods[written.metadata.uid] = written
        self.queues["pod"].append((gone, written))

    @rule(
        requests=st.sampled_from(REQUESTS),
        on=st.sampled_from([None, None, *NODES]),
        labels=st.sampled_from(APPS),
        seat=st.sampled_from([None, *SEATS, "nonsense"]),
    )
    def create_pod(self, requests: Any, on: str | None, labels: Any, seat: str | None) -> None:
        self.created += 1
        self._write_pod(pod(f"p{self.created}", requests, on=on, labels=labels, seat=seat, version=self._next()))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), change=st.sampled_from(["bind", "leave", "label", "finish", "delete"]))
    def change_pod(self, data: st.DataObject, change: str) -> None:
        one = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        seat = data.draw(st.sampled_from([None, *SEATS])) if change == "bind" else None
        meta = replace(one.metadata, resource_version=str(self._next()))
        written = replace(one, metadata=meta)
        if change == "bind" and not one.spec.node_name:
            annotations = {"restow.sh/reservation": seat} if seat else meta.annotations
            spec = replace(one.spec, node_name=data.draw(st.sampled_from(NODES)))
            written = replace(written, spec=spec, metadata=replace(meta, annotations=annotations))
        elif change == "leave":
            written = replace(written, metadata=replace(meta, deletion_timestamp="2026-01-01T00:00:00Z"))
        elif change == "label":
            written = replace(written, metadata=replace(meta, labels=data.draw(st.sampled_from(APPS))))
        elif change == "finish":
            written = replace(written, status=replace(one.status, phase="Succeeded"))
        self._write_pod(written, gone=change == "delete")

    @rule(
        name=st.sampled_from(RESERVATIONS),
        where=st.dictionaries(st.integers(0, 1), st.sampled_from(NODES)),
        phase=st.sampled_from(["Pending", "Waiting", "Available", "Succeeded", "Failed"]),
        requests=st.sampled_from(REQUESTS),
        data=st.data(),
    )
    def write_reservation(self, name: str, where: Any, phase: str, requests: Any, data: st.DataObject) -> None:
        consumers = st.sampled_from(["uid-never", *sorted(self.pods)])
        taken = data.draw(st.dictionaries(st.sampled_from(sorted(where)), consumers)) if where else {}
        written = reservation(name, where, taken=taken, phase=phase, requests=requests, version=self._next())
        self.queues["reservation"].append((False, written))

    @rule(name=st.sampled_from(RESERVATIONS))
    def delete_reservation(self, name: str) -> None:
        self.queues["reservation"].append((True, reservation(name, version=self._next())))

    # --- events -------------------------------------------------------------------------------------------------------

    def _show(self, kind: str, gone: bool, item: Any) -> None:
        getattr(self.snapshot, f"{'remove' if gone else 'apply'}_{kind}")(item)

    @rule(kind=st.sampled_from(["node", "pod", "reservation"]), count=st.integers(1, 4))
    def deliver_some(self, kind: str, count: int) -> None:
        self.deliver(kind, count)

    def deliver(self, kind: str, count: int) -> None:
        for _ in range(min(count, len(self.queues[kind]))):
            gone, item = self.queues[kind].popleft()
            self._show(kind, gone, item)
            self.reference.deliver(kind, gone, item)
            self.delivered.append((kind, gone, item))

    @rule()
    def deliver_everything(self) -> None:
        for kind in self.queues:
            self.deliver(kind, len(self.queues[kind]))

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        self._show(*data.draw(st.sampled_from(self.delivered)))

    @rule()
    def bookmark(self) -> None:
        """Everything up to now was seen, which a bookmark may only say when nothing is on its way."""
        if not self.queues["pod"]:
            self.snapshot.pods_seen_through(str(self.version))
            self.reference.seen = self.version

    # --- assumptions --------------------------------------------------------------------------------------------------

    @rule(data=st.data(), where=st.sampled_from(NODES), seat=st.sampled_from([None, *SEATS]))
    def assume(self, data: st.DataObject, where: str, seat: str | None) -> None:
        placed = {one.metadata.uid for one, *_ in self.reference.placed()}
        waiting = sorted(uid for uid in self.reference.pods if uid not in placed)
        if waiting and where in self.reference.nodes:
            one = self.reference.pods[data.draw(st.sampled_from(waiting))]
            self.snapshot.assume(one, where, at=float(self.version), seat=SeatName.parse(seat) if seat else None)
            self.reference.assumed[one.metadata.uid] = (one, where, seat)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        one = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        assumed = self.reference.assumed.pop(one.metadata.uid, None)
        assert self.snapshot.forget(one) is (assumed is not None)

    @rule(data=st.data(), where=st.dictionaries(st.integers(0, 1), st.sampled_from(NODES)))
    def assume_placements(self, data: st.DataObject, where: dict[int, str]) -> None:
        if self.reference.reservations:
            name = data.draw(st.sampled_from(sorted(self.reference.reservations)))
            placements = placements_of(where)
            self.snapshot.assume_placements(reservation(name), placements, at=float(self.version))
            self.reference.assumed_placements.setdefault(name, {}).update({one.index: one for one in placements})
            self.reference.drop_shown_placements(name)

    @rule(name=st.sampled_from(RESERVATIONS))
    def forget_placements(self, name: str) -> None:
        assumed = self.reference.assumed_placements.pop(name, None)
        assert self.snapshot.forget_placements(reservation(name)) is (assumed is not None)

    # --- trying -------------------------------------------------------------------------------------------------------

    @rule()
    def mark(self) -> None:
        before = everything(self.snapshot)
        self.marks.append((self.snapshot.mark(), copy.deepcopy(self.reference), before, len(self.delivered)))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.marks) - 1))
        mark, self.reference, before, delivered = self.marks[chosen]
        del self.marks[chosen:], self.delivered[delivered:]
        self.snapshot.undo_to(mark)
        assert _same(before, everything(self.snapshot))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.marks) - 1))
        self.snapshot.keep(self.marks[chosen][0])
        del self.marks[chosen:]

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def ledgers_are_what_the_objects_add_up_to(self) -> None:
        assert ledgers(self.snapshot) == self.reference.ledgers()

    @invariant()
    def nothing_is_lost_or_counted_twice(self) -> None:
        counted = sum(vector.get("pods", 0) for vector in ledgers(self.snapshot)["requested"].values())
        assert counted == len(self.reference.placed()) == len(self.snapshot.pods.known)
        assert [str(seat) for seat in self.snapshot.reservations.held()] == sorted(
            s for s, _, _ in self.reference.held()
        )

    @invariant()
    def rows_exist_for_what_is_known_only(self) -> None:
        used = {where for _, where, *_ in self.reference.placed()} | {where for _, where, _ in self.reference.held()}
        assert self.snapshot.rows.names() == sorted(used | set(self.reference.nodes))

    @invariant()
    def assumptions_wait_for_the_watch(self) -> None:
        assert {one.pod.metadata.uid for one in self.snapshot.assumed(now=0)} == set(self.reference.assumed)

    @rule(probes=st.lists(st.sampled_from(PROBES), min_size=1, max_size=4))
    def masks_say_what_each_node_would(self, probes: list[Pod]) -> None:
        """Looked at now and then, so that masks have several changes to catch up with."""
        tables = self.reference.ledgers()
        for probe in probes:
            shape = self.snapshot.class_of(probe).shape
            eligible, fitting = self.snapshot.masks.eligible(shape), self.snapshot.masks.fitting(shape)
            short = shortages(self.snapshot.room, shape.amounts)
            assert len(eligible) == len(fitting) == self.snapshot.rows.size
            for row in range(self.snapshot.rows.size):
                name = self.snapshot.rows.name(row) or ""
                really = fits(_need(probe), _left(tables, name))
                assert eligible[row] == _accepts(self.reference.nodes.get(name), probe), (probe.metadata.name, name)
                assert fitting[row] == really or (really and _is_huge(tables, name)), (probe.metadata.name, name)
                assert any(mask[row] for mask in short.values()) == (not fitting[row])

    @rule()
    def domains_count_what_is_in_them(self) -> None:
        self.web_by_zone.refresh()
        expected = {(one.metadata.labels or {}).get("zone"): 0 for one in self.reference.nodes.values()} | {None: 0}
        for one, where, *_ in self.reference.placed():
            if one.metadata.labels == {"app": "web"}:
                labels = self.reference.nodes[where].metadata.labels if where in self.reference.nodes else None
                expected[(labels or {}).get("zone")] += 1
        del expected[None]
        column = self.snapshot.nodes.labels.column("zone")
        assert {zone: self.web_by_zone.totals[column.intern(str(zone))] for zone in expected} == expected
        assert self.web_by_zone.lowest() == min(expected.values(), default=0)
        assert self.web_by_zone.everywhere == sum(expected.values())

    def teardown(self) -> None:
        self.domains_count_what_is_in_them()
        self.masks_say_what_each_node_would(PROBES)


def _accepts(one: Node | None, probe: Pod) -> bool:
    if one is None:
        return False
    tolerations = probe.spec.tolerations
    cordoned = bool(one.spec.unschedulable and untolerated([UNSCHEDULABLE], tolerations))
    wanted = node_constraint(probe.spec).matches(one.metadata.name, one.metadata.labels)
    return wanted and not cordoned and not untolerated(one.spec.taints, tolerations)


def _need(probe: Pod) -> dict[str, int]:
    return {**pod_requests(probe), "pods": 1}


def _left(tables: dict[str, Table], name: str) -> dict[str, int]:
    """Free room as exact integers."""
    taken = add(tables["requested"].get(name, {}), tables["reserved"].get(name, {}))
    return subtract(tables["allocatable"].get(name, {}), taken)


def _is_huge(tables: dict[str, Table], name: str) -> bool:
    """Beyond the limit of a cell a node may look smaller than it is."""
    return any(value > LIMIT for table in tables.values() for value in table.get(name, {}).values())


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Equal, where label columns made in between do not count."""
    columns = {key: ids for key, ids in after["labels"][1].items() if key in before["labels"][1]}
    return before == {**after, "labels": (after["labels"][0], columns)}


SnapshotMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestSnapshotMachine = SnapshotMachine.TestCase
