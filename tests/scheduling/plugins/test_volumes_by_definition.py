"""The volume plugins, vectorised and kept up to date, against their definition node by node, through random events."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.cluster.storage import StorageObject, key_of
from restow.model.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    GcePersistentDisk,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    SelectorRequirement,
    SelectorSpec,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Code, Cycle, FilterPlugin
from restow.scheduling.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits
from restow.scheduling.plugins.volume_binding import VolumeBinding
from restow.scheduling.plugins.volume_binding_state import VolumeWrites
from restow.scheduling.plugins.volume_restrictions import CLAIM_IN_USE, DISK_IN_USE, VolumeRestrictions
from tests.model.cluster.builders import node, pod
from tests.scheduling.plugins import volumes_by_definition as definition
from tests.scheduling.plugins.volume_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_node,
    csi_volume,
    driver,
    on_label,
    storage_class,
    using,
    volume,
)

NODES = [node(f"n{i}", labels={"zone": "abc"[i % 3], "host": f"n{i}", "size": str(i)}) for i in range(4)]
CLASSES = ["local", "made"]
VOLUMES, CLAIMS = [f"v{i}" for i in range(6)], [f"c{i}" for i in range(4)]
SIZES = ["1Gi", "2Gi", "2048Mi", "3Gi"]


def _beyond(size: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=[SelectorRequirement(key="size", operator="Gt", values=[size])])


places = st.one_of(
    st.none(),
    st.sampled_from(["n0", "n1", "n3"]).map(lambda name: on_label("host", name)),
    st.sampled_from([("a",), ("a", "b"), ("z",)]).map(lambda values: on_label("zone", *values)),
    st.sampled_from(["0", "2"]).map(_beyond),
    st.just([on_label("zone", "a"), on_label("host", "n1")]),
)
some_volumes = st.builds(
    volume,
    st.sampled_from(VOLUMES),
    st.sampled_from(SIZES),
    of=st.sampled_from(CLASSES),
    at=places,
    claim=st.sampled_from([None, None, None, *CLAIMS]),
    phase=st.sampled_from(["Available", "Available", "Bound"]),
    labels=st.sampled_from([None, {"disk": "ssd"}]),
    access_modes=st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteOncePod"]]),
    volume_mode=st.sampled_from([None, None, "Block"]),
    csi=st.sampled_from([None, csi_volume("h1"), csi_volume("h2"), csi_volume("h3")]),
    leaving=st.sampled_from([False, False, False, True]),
    version=st.just(""),
)
some_claims = st.builds(
    claim,
    st.sampled_from(CLAIMS),
    st.sampled_from(SIZES),
    of=st.sampled_from(CLASSES),
    to=st.sampled_from([None, None, *VOLUMES]),
    selected=st.sampled_from([None, None, None, "n0", "n1"]),
    access_modes=st.sampled_from([["ReadWriteOnce"], ["ReadWriteOncePod"]]),
    selector=st.sampled_from([None, None, SelectorSpec(match_labels={"disk": "ssd"})]),
    version=st.just(""),
)
some_capacities = st.builds(
    capacity,
    st.sampled_from(["k0", "k1", "k2"]),
    st.sampled_from([None, *SIZES]),
    st.sampled_from([None, {}, {"zone": "a"}, {"host": "n1"}, {"zone": "b", "host": "n1"}]),
    largest=st.sampled_from([None, None, *SIZES]),
)
some_objects: st.SearchStrategy[StorageObject] = st.one_of(
    some_volumes,
    some_volumes,
    some_claims,
    some_claims,
    some_capacities,
    st.builds(driver, tells_capacity=st.booleans()),
    st.builds(
        storage_class,
        st.just("made"),
        st.just(DRIVER),
        topologies=st.sampled_from([None, [{"zone": ["a", "b"]}], [{"zone": ["a"], "host": ["n0"]}, {"zone": ["c"]}]]),
    ),
    st.builds(csi_node, st.sampled_from(["n0", "n1", "n9"]), st.sampled_from([None, 0, 1, 2]), version=st.just("")),
    st.builds(attachment, st.sampled_from(["n0", "n1"]), st.sampled_from(VOLUMES), version=st.just("")),
)
events = st.lists(st.tuples(st.sampled_from("aaaar"), some_objects), max_size=30)
claim_sets = st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3, unique=True)
disks = st.lists(st.tuples(st.sampled_from("de"), st.booleans()), max_size=2)


def pod_with(name: str, claims: list[str], mounts: list[tuple[str, bool]], **fields: Any) -> Pod:
    inline = [Volume(gce_persistent_disk=GcePersistentDisk(pd_name=disk, read_only=ro)) for disk, ro in mounts]
    return pod(name, volumes=[*(using(*claims).spec.volumes or ()), *inline], **fields)


class Run:
    """A snapshot and the plain world beside it."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.objects: dict[tuple[type, str], Any] = {}
        self.placed: list[tuple[Pod, str]] = []
        for one in NODES:
            self.snapshot.apply_node(one)
        for item in (storage_class("local"), storage_class("made", DRIVER)):
            self.happen("a", item)
        for name in CLAIMS:
            self.happen("a", claim(name, version=""))

    def happen(self, what: str, item: StorageObject) -> None:
        """An event; classes and claims are never removed."""
        key = (type(item), key_of(item))
        if what == "a" or isinstance(item, StorageClass | PersistentVolumeClaim):
            self.snapshot.apply_storage(item)
            self.objects[key] = item
        else:
            self.snapshot.remove_storage(item)
            self.objects.pop(key, None)

    def place(self, one: Pod, where: str) -> None:
        self.snapshot.apply_pod(one)
        self.placed.append((one, where))

    def world(self) -> definition.World:
        return definition.World(
            volumes=self._named(PersistentVolume),
            claims=self._named(PersistentVolumeClaim),
            classes=self._named(StorageClass),
            drivers=self._named(CSIDriver),
            capacities=list(self._named(CSIStorageCapacity).values()),
            csi_nodes=self._named(CSINode),
            attachments=list(self._named(VolumeAttachment).values()),
            placed=self.placed,
        )

    def _named(self, kind: type[Any]) -> dict[str, Any]:
        return {item.metadata.name: item for (type_, _), item in self.objects.items() if type_ is kind}

    # ------------------------------------------------------------------------------------------------------------------

    def check(self, asking: Pod) -> None:
        """Every plugin says of every node what its definition says, asked about all rows or about some."""
        world = self.world()
        found = [definition.binding(world, asking, one) for one in NODES]
        assert self.ask(VolumeBinding(), asking) == [reasons for reasons, _ in found]
        for one, (reasons, chosen) in zip(NODES, found, strict=True):
            assert reasons or self.taken(asking, one.metadata.name) == chosen
        in_use = set() if definition.claim_is_free(world, asking) else {CLAIM_IN_USE}
        free = [definition.disk_is_free(world, asking, one) for one in NODES]
        assert self.ask(VolumeRestrictions(), asking) == [in_use if here else {DISK_IN_USE} for here in free]
        over = [definition.exceeds_limits(world, asking, one) for one in NODES]
        assert self.ask(NodeVolumeLimits(), asking) == [{TOO_MANY} if here else set() for here in over]

    def ask(self, plugin: FilterPlugin, asking: Pod) -> list[set[str]]:
        """The reasons of each row; the mask must agree, however the rows are asked for."""
        cycle, rows = Cycle(asking, self.snapshot, 0.0), self.snapshot.rows
        if plugin.pre_filter(cycle).code is Code.SKIP:
            return [set() for _ in NODES]
        reasons: list[set[str]] = [set() for _ in NODES]
        for refusal in plugin.refusals(cycle, rows.every):
            for row in np.flatnonzero(refusal.rows):
                reasons[row].add(refusal.reason)
        backwards = np.arange(len(NODES))[::-1]
        assert plugin.filter(cycle, rows.every).tolist() == [not one for one in reasons]
        assert plugin.filter(cycle, backwards).tolist() == [not one for one in reversed(reasons)]
        assert [plugin.filter(cycle, backwards[row : row + 1]).item() for row in (0, 1)] == [
            not reasons[-1],
            not reasons[-2],
        ]
        return reasons

    def taken(self, asking: Pod, where: str) -> dict[str, str | None]:
        """What Reserve takes on an accepted node; then everything is as before."""
        plugin, cycle = VolumeBinding(), Cycle(asking, self.snapshot, 0.0)
        assert plugin.reserve(cycle, where).code is Code.SUCCESS
        reserved = cycle.state.get("VolumeBinding.reserved")
        written = reserved.written if reserved else VolumeWrites((), ())
        taken: dict[str, str | None] = {one.after.metadata.name: None for one in written.provisions}
        taken |= {one.claim.metadata.name: one.after.metadata.name for one in written.takings}
        plugin.unreserve(cycle, where)
        assert not self.snapshot.storage.volumes.assumed()
        assert not self.snapshot.storage.claims.assumed()
        return taken


@settings(max_examples=300, deadline=None)
@given(
    before=events,
    there=st.lists(st.tuples(claim_sets, disks, st.sampled_from(["n0", "n1", "n2"])), max_size=5),
    after=events,
    asking=st.tuples(claim_sets, disks),
)
def test_volume_answers_are_those_of_their_definitions(before: Any, there: Any, after: Any, asking: Any) -> None:
    run, one = Run(), pod_with("p", *asking)
    for what, item in before:
        run.happen(what, item)
    for number, (claims, mounts, where) in enumerate(there):
        run.place(pod_with(f"q{number}", claims, mounts, on=where), where)
    run.check(one)
    objects, mark = dict(run.objects), run.snapshot.mark()
    for what, item in after:
        run.happen(what, item)
    run.check(one)
    run.snapshot.undo_to(mark)
    run.objects = objects
    run.check(one)
