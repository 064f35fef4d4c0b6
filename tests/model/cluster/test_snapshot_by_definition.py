"""The snapshot against a naive reference, through random events: repeated, late, out of order between kinds, undone."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from restow.model.cluster.node_filters import rows_short_of
from restow.model.cluster.selector_group import SelectorGroup
from restow.model.cluster.topology_domains import domain_sums
from restow.model.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    SelectorRequirement,
    Taint,
    Toleration,
)
from restow.model.reservations.seat_name import SeatName
from restow.model.resources import vector_fits
from restow.model.selectors import parse_label_selector
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, placements_of, pod, reservation, seat_annotations
from tests.model.cluster.reference_cluster import Reference, accepts, free_of, is_huge, requests_of_probe
from tests.model.cluster.snapshot_values import Fitting, all_values, ledgers

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


class SnapshotWrites(RuleBasedStateMachine):
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
        web = (SelectorGroup(parse_label_selector("app=web"), frozenset(["default"])),)
        self.fitting = Fitting(self.snapshot)
        self.web_by_zone = domain_sums(self.snapshot.topologies.domains("zone"), self.snapshot.affinity.pod_count(web))

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
        life=st.sampled_from([None, None, None, "", "uid-before"]),
    )
    def create_pod(self, requests: Any, on: str | None, labels: Any, seat: str | None, life: str | None) -> None:
        self.created += 1
        name, version = f"p{self.created}", self._next()
        self._write_pod(pod(name, requests, on=on, labels=labels, seat=seat, reservation_uid=life, version=version))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), change=st.sampled_from(["bind", "leave", "label", "finish", "delete"]))
    def change_pod(self, data: st.DataObject, change: str) -> None:
        one = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        seat = data.draw(st.sampled_from([None, *SEATS])) if change == "bind" else None
        meta = replace(one.metadata, resource_version=str(self._next()))
        written = replace(one, metadata=meta)
        if change == "bind" and not one.spec.node_name:
            annotations = seat_annotations(seat) if seat else meta.annotations
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
        written = reservation(name, where, consumed=taken, phase=phase, requests=requests, version=self._next())
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
        before = all_values(self.snapshot)
        self.marks.append((self.snapshot.mark(), copy.deepcopy(self.reference), before, len(self.delivered)))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.marks) - 1))
        mark, self.reference, before, delivered = self.marks[chosen]
        del self.marks[chosen:], self.delivered[delivered:]
        self.snapshot.undo_to(mark)
        assert _same(before, all_values(self.snapshot))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.marks) - 1))
        self.snapshot.keep(self.marks[chosen][0])
        del self.marks[chosen:]


class SnapshotMachine(SnapshotWrites):
    """What must hold after every step."""

    @invariant()
    def ledgers_are_what_the_objects_add_up_to(self) -> None:
        assert ledgers(self.snapshot) == self.reference.ledgers()

    @invariant()
    def nothing_is_lost_or_counted_twice(self) -> None:
        counted = sum(vector.get("pods", 0) for vector in ledgers(self.snapshot)["requested"].values())
        assert counted == len(self.reference.placed()) == len(self.snapshot.pods.known)
        assert [str(seat) for seat in self.snapshot.reservations.reserved_pods.names()] == sorted(
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
            eligible, fitting = self.snapshot.masks.eligible(shape), self.fitting.of(shape)
            short = rows_short_of(self.snapshot.room, shape.amounts)
            assert len(eligible) == len(fitting) == self.snapshot.rows.size
            for row in range(self.snapshot.rows.size):
                name = self.snapshot.rows.name(row) or ""
                really = vector_fits(requests_of_probe(probe), free_of(tables, name))
                assert eligible[row] == accepts(self.reference.nodes.get(name), probe), (probe.metadata.name, name)
                assert fitting[row] == really or (really and is_huge(tables, name)), (probe.metadata.name, name)
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


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Equal, where label columns made in between do not count."""
    columns = {key: ids for key, ids in after["labels"][1].items() if key in before["labels"][1]}
    return before == {**after, "labels": (after["labels"][0], columns)}


SnapshotMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestSnapshotMachine = SnapshotMachine.TestCase
