"""VolumeRestrictions, VolumeZone and NodeVolumeLimits, each by a table."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.cluster.storage import StorageObject
from restow.model.objects import (
    AwsElasticBlockStore,
    GcePersistentDisk,
    IscsiVolume,
    Node,
    Pod,
    RbdVolume,
    Volume,
)
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Code, Cycle, FilterPlugin
from restow.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from restow.scheduling.plugins.volume_restrictions import CLAIM_IN_USE, VolumeRestrictions
from restow.scheduling.plugins.volume_zone import VolumeZone
from restow.scheduling.schedule_result import NoNodeFound
from tests.model.cluster.builders import node, pod
from tests.scheduling.plugins.volume_builders import (
    DRIVER,
    attachment,
    claim,
    cluster,
    csi_node,
    csi_volume,
    storage_class,
    using,
    volume,
)

NODES = [node("n1"), node("n2")]
EVERYWHERE = ["n1", "n2"]


def answer(
    plugin: FilterPlugin,
    one: Pod,
    *items: StorageObject,
    pods: list[Pod] | None = None,
    nodes: list[Node] | None = None,
) -> list[str] | str:
    """The nodes that a plugin accepts, or the sentence why there is none."""
    snapshot = cluster(NODES if nodes is None else nodes, *items, pods=pods)
    outcome = Engine([plugin]).find_node(Cycle(one, snapshot, 0.0))
    if isinstance(outcome, NoNodeFound):
        return outcome.message.partition(": ")[2]
    cycle = Cycle(one, snapshot, 0.0)
    if plugin.pre_filter(cycle).code is Code.SKIP:
        return snapshot.rows.names()
    mask = plugin.filter(cycle, snapshot.rows.every).tolist()
    return [name for name in snapshot.rows.names() if mask[snapshot.rows.find_row(name) or 0]]


@pytest.mark.parametrize("plugin", [VolumeRestrictions(), VolumeZone(), NodeVolumeLimits()], ids=lambda one: one.name)
def test_volume_restrictions_skip_pods_without_volumes(plugin: FilterPlugin) -> None:
    assert plugin.pre_filter(Cycle(pod("p"), cluster(NODES), 0.0)).code is Code.SKIP


# --- disks named in the spec ------------------------------------------------------------------------------------------


def gce(name: str, read_only: bool = False) -> Volume:
    return Volume(gce_persistent_disk=GcePersistentDisk(pd_name=name, read_only=read_only))


def ebs(name: str, read_only: bool = False) -> Volume:
    return Volume(aws_elastic_block_store=AwsElasticBlockStore(volume_id=name, read_only=read_only))


def iscsi(iqn: str, read_only: bool = False, portal: str = "p") -> Volume:
    return Volume(iscsi=IscsiVolume(target_portal=portal, iqn=iqn, lun=0, read_only=read_only))


def rbd(image: str, *monitors: str, read_only: bool = False, pool: str | None = None) -> Volume:
    return Volume(rbd=RbdVolume(monitors=list(monitors), image=image, pool=pool, read_only=read_only))


DISKS: dict[str, tuple[Volume, Volume, bool]] = {
    "the same GCE disk": (gce("d"), gce("d"), False),
    "the same GCE disk, both reading": (gce("d", True), gce("d", True), True),
    "the same GCE disk, one reading": (gce("d", True), gce("d"), False),
    "another GCE disk": (gce("d"), gce("e"), True),
    "the same EBS volume, even if both read": (ebs("d", True), ebs("d", True), False),
    "an EBS volume with the name of a GCE disk": (ebs("d"), gce("d"), True),
    "the same iSCSI target through another portal": (iscsi("iqn"), iscsi("iqn", portal="q"), False),
    "the same iSCSI target, both reading": (iscsi("iqn", True), iscsi("iqn", True), True),
    "the same RBD image": (rbd("i", "m1", "m2"), rbd("i", "m2", "m3"), False),
    "the same RBD image, both reading": (rbd("i", "m", read_only=True), rbd("i", "m", read_only=True), True),
    "the same RBD image of another cluster": (rbd("i", "m1"), rbd("i", "m2"), True),
    "the same RBD image of another pool": (rbd("i", "m"), rbd("i", "m", pool="other"), True),
    "the same RBD image, the usual pool by name": (rbd("i", "m"), rbd("i", "m", pool="rbd"), False),
}


@pytest.mark.parametrize(("mine", "theirs", "shared"), DISKS.values(), ids=DISKS.keys())
def test_disk_is_not_shared_on_a_node(mine: Volume, theirs: Volume, shared: bool) -> None:
    there = pod("there", on="n1", volumes=[theirs])
    assert answer(VolumeRestrictions(), pod("p", volumes=[mine]), pods=[there]) == (EVERYWHERE if shared else ["n2"])


def test_disk_in_use_on_every_node_is_resolvable() -> None:
    there = [pod(f"on-{name}", on=name, volumes=[gce("d")]) for name in EVERYWHERE]
    snapshot = cluster(NODES, pods=there)
    outcome = Engine([VolumeRestrictions()]).find_node(Cycle(pod("p", volumes=[gce("d")]), snapshot, 0.0))
    assert isinstance(outcome, NoNodeFound)
    assert outcome.message == "0/2 nodes are available: 2 node(s) had no available disk."
    assert outcome.verdict.code is Code.UNSCHEDULABLE


# --- ReadWriteOncePod -------------------------------------------------------------------------------------------------

ONE_POD = claim("c", access_modes=["ReadWriteOncePod"])
IN_USE = f"2 {CLAIM_IN_USE}."
ONCE: dict[str, tuple[list[StorageObject], list[Pod], list[str] | str]] = {
    "no pod uses it": ([ONE_POD], [], EVERYWHERE),
    "a pod on any node uses it": ([ONE_POD], [using("c", name="q", on="n2")], IN_USE),
    "a pod that is leaving uses it": ([ONE_POD], [using("c", name="q", on="n1", leaving=True)], IN_USE),
    "a pod that is over used it": ([ONE_POD], [using("c", name="q", on="n1", phase="Succeeded")], EVERYWHERE),
    "a pod of another namespace uses its own": ([ONE_POD], [using("c", name="q", on="n1", namespace="x")], EVERYWHERE),
    "a claim for many is in use": ([claim("c")], [using("c", name="q", on="n1")], EVERYWHERE),
    "the claim is missing": ([], [], 'persistentvolumeclaim "c" not found.'),
}


@pytest.mark.parametrize(("items", "pods", "expected"), ONCE.values(), ids=ONCE.keys())
def test_read_write_once_pod_claim_has_one_user(
    items: list[StorageObject], pods: list[Pod], expected: list[str] | str
) -> None:
    assert answer(VolumeRestrictions(), using("c"), *items, pods=pods) == expected


def test_undone_pod_leaves_its_claim_free() -> None:
    snapshot = cluster(NODES, ONE_POD)
    mark = snapshot.mark()
    snapshot.assume(using("c", name="q"), "n1", at=0.0)
    assert isinstance(Engine([VolumeRestrictions()]).find_node(Cycle(using("c"), snapshot, 0.0)), NoNodeFound)
    snapshot.undo_to(mark)
    assert not isinstance(Engine([VolumeRestrictions()]).find_node(Cycle(using("c"), snapshot, 0.0)), NoNodeFound)


# --- zones ------------------------------------------------------------------------------------------------------------

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONED = [
    node("in-a", labels={ZONE: "a", REGION: "r"}),
    node("in-b", labels={ZONE: "b", REGION: "r"}),
    node("old-a", labels={OLD_ZONE: "a", OLD_REGION: "r"}),
    node("nowhere"),
]
ZONES: dict[str, tuple[dict[str, str], list[str]]] = {
    "a zone": ({ZONE: "a"}, ["in-a", "nowhere"]),
    "a zone by its old name": ({OLD_ZONE: "a"}, ["in-a", "nowhere", "old-a"]),
    "a region": ({REGION: "r"}, ["in-a", "in-b", "nowhere"]),
    "several zones": ({ZONE: "a__b"}, ["in-a", "in-b", "nowhere"]),
    "several zones by the old name": ({OLD_ZONE: "a__c"}, ["in-a", "nowhere", "old-a"]),
    "a zone and another region": ({ZONE: "a", REGION: "s"}, ["nowhere"]),
    "a label that cannot be read, so it says nothing": ({ZONE: "z__"}, ["in-a", "in-b", "nowhere", "old-a"]),
    "no such labels": ({"disk": "ssd"}, ["in-a", "in-b", "nowhere", "old-a"]),
}


@pytest.mark.parametrize(("labels", "expected"), ZONES.values(), ids=ZONES.keys())
def test_volume_zone_refuses_nodes_of_other_zones(labels: dict[str, str], expected: list[str]) -> None:
    items = (claim("c", to="v"), volume("v", labels=labels))
    assert answer(VolumeZone(), using("c"), *items, nodes=ZONED) == expected


PLACELESS: dict[str, tuple[list[StorageObject], list[str] | str]] = {
    "the claim is missing": ([], 'persistentvolumeclaim "c" not found.'),
    "the volume is missing": ([claim("c", to="v")], 'persistentvolume "v" not found.'),
    "there is neither volume nor class": (
        [claim("c", of=None)],
        "PersistentVolumeClaim had no pv name and storageClass name.",
    ),
    "the class is missing": ([claim("c", of="x")], 'storageclass.storage.k8s.io "x" not found.'),
    "the class binds at once and has not": ([claim("c"), storage_class(waits=False)], "PersistentVolume had no name."),
    "the class waits for the pod": ([claim("c"), storage_class()], EVERYWHERE),
    "no node is in its zone": (
        [claim("c", to="v"), volume("v", labels={ZONE: "z"})],
        EVERYWHERE,
    ),
}


@pytest.mark.parametrize(("items", "expected"), PLACELESS.values(), ids=PLACELESS.keys())
def test_volume_zone_pre_filter_verdicts(items: list[StorageObject], expected: list[str] | str) -> None:
    assert answer(VolumeZone(), using("c"), *items) == expected


def test_volume_zone_without_nodes_is_named_as_the_reason() -> None:
    items = (claim("c", to="v"), volume("v", labels={ZONE: "z"}))
    assert answer(VolumeZone(), using("c"), *items, nodes=ZONED[:2]) == "2 node(s) had no available volume zone."


# --- how many volumes -------------------------------------------------------------------------------------------------


def bound(name: str, handle: str | None = None) -> list[StorageObject]:
    return [claim(name, to=f"pv-{name}"), volume(f"pv-{name}", claim=name, csi=csi_volume(handle or name))]


MADE = storage_class("made", DRIVER)
IN_TREE = storage_class("ebs", "kubernetes.io/aws-ebs")
THREE = [*bound("a"), *bound("b"), *bound("c")]
FULL = "2 node(s) exceed max volume count."


def limited(limit: int, driver: str = DRIVER) -> list[StorageObject]:
    return [csi_node("n1", limit, driver), csi_node("n2", 0, driver)]


LIMITS: dict[str, tuple[Pod, list[StorageObject], list[Pod], list[str] | str]] = {
    "no limits are known": (using("a"), THREE, [using("b", name="q", on="n1")], EVERYWHERE),
    "a driver without a limit": (using("a"), [*THREE, csi_node("n1", None)], [], EVERYWHERE),
    "there is room for one more": (using("a"), [*THREE, *limited(2)], [using("b", name="q", on="n1")], ["n1"]),
    "there is none": (using("a"), [*THREE, *limited(1)], [using("b", name="q", on="n1")], FULL),
    "two claims need two": (using("a", "b"), [*THREE, *limited(2)], [using("c", name="q", on="n1")], FULL),
    "one claim used twice needs one": (
        using("a"),
        [*THREE, *limited(2)],
        [using("c", name="q", on="n1"), using("c", name="r", on="n1")],
        ["n1"],
    ),
    "a volume that is in use there already costs nothing, even where it is too full": (
        using("a"),
        [*THREE, *limited(1)],
        [using("a", "b", name="q", on="n1")],
        ["n1"],
    ),
    "the same volume through another claim costs nothing": (
        using("a"),
        [*bound("a", "same"), *bound("b", "same"), *limited(1)],
        [using("b", name="q", on="n1")],
        ["n1"],
    ),
    "a volume to be made counts by its class": (using("d"), [MADE, claim("d", of="made"), *limited(1)], [], ["n1"]),
    "volumes to be made for others count, too": (
        using("d"),
        [MADE, claim("d", of="made"), claim("e", of="made"), *limited(1)],
        [using("e", name="q", on="n1")],
        FULL,
    ),
    "an attached volume that no pod uses counts": (
        using("a"),
        [*THREE, *limited(1), attachment("n1", "pv-b")],
        [],
        FULL,
    ),
    "an attached volume counts once with its user": (
        using("a"),
        [*THREE, *limited(2), attachment("n1", "pv-b")],
        [using("b", name="q", on="n1")],
        ["n1"],
    ),
    "an attachment of a volume that is gone does not count": (
        using("a"),
        [*THREE, *limited(1), attachment("n1", "gone")],
        [],
        ["n1"],
    ),
    "volumes that are no CSI volumes do not count": (
        using("v"),
        [claim("v", to="w"), volume("w"), *limited(0)],
        [],
        EVERYWHERE,
    ),
    "another driver's limit": (using("a"), [*THREE, *limited(0, "other.example.com")], [], EVERYWHERE),
    "a provisioner that was built in is its CSI driver's": (
        using("d"),
        [IN_TREE, claim("d", of="ebs"), *limited(0, "ebs.csi.aws.com")],
        [],
        FULL,
    ),
    "a volume of a driver that was built in is its CSI driver's": (
        using("d"),
        [
            claim("d", to="w"),
            volume("w", claim="d", aws_elastic_block_store=AwsElasticBlockStore(volume_id="aws://z/x")),
            *limited(0, "ebs.csi.aws.com"),
        ],
        [],
        FULL,
    ),
    "a disk named in the spec is its CSI driver's": (
        pod("p", volumes=[gce("d")]),
        limited(1, "pd.csi.storage.gke.io"),
        [pod("q", on="n1", volumes=[gce("e")])],
        FULL,
    ),
    "the claim is missing": (
        using("a"),
        [],
        [],
        '2 looking up PVC default/a: persistentvolumeclaim "a" not found.',
    ),
}


@pytest.mark.parametrize(("one", "items", "pods", "expected"), LIMITS.values(), ids=LIMITS.keys())
def test_node_volume_limits_refuse_nodes(one: Pod, items: list[StorageObject], pods: list[Pod], expected: Any) -> None:
    assert answer(NodeVolumeLimits(), one, *items, pods=pods) == expected


LATER: dict[str, tuple[list[StorageObject], list[str] | str]] = {
    "the limit grows": ([csi_node("n1", 2, version=2)], ["n1"]),
    "a CSINode comes late": ([csi_node("n3", 0)], FULL),
    "the other claim turns out to be of the same volume": (
        [claim("b", to="pv-a", version=2)],
        ["n1"],
    ),
    "the other volume turns out to be no CSI volume": ([volume("pv-b", claim="b", version=2)], ["n1"]),
}


@pytest.mark.parametrize(("events", "expected"), LATER.values(), ids=LATER.keys())
def test_attached_volume_counts_follow_events(events: list[StorageObject], expected: list[str] | str) -> None:
    snapshot = cluster(NODES, *THREE, *limited(1), pods=[using("b", name="q", on="n1")])
    plugin, cycle = NodeVolumeLimits(), Cycle(using("a"), snapshot, 0.0)
    plugin.pre_filter(cycle)
    assert plugin.filter(cycle, snapshot.rows.every).tolist() == [False, False]
    for event in events:
        snapshot.apply_storage(event)
    accepted = plugin.filter(cycle, snapshot.rows.every).tolist()
    assert accepted == [expected == ["n1"], False]


def test_volume_limits_hold_for_nodes_beyond_the_first_arrays() -> None:
    many = [node(f"n{number:03}") for number in range(200)]
    items = [*THREE, *(csi_node(f"n{number:03}", number % 2) for number in range(100))]
    snapshot = cluster(many[:50], *items)
    plugin, cycle = NodeVolumeLimits(), Cycle(using("a"), snapshot, 0.0)
    plugin.pre_filter(cycle)
    plugin.filter(cycle, snapshot.rows.every)
    for one in many[50:]:
        snapshot.apply_node(one)
    accepted = plugin.filter(cycle, snapshot.rows.every).tolist()
    assert accepted == [number % 2 == 1 or number >= 100 for number in range(200)]
