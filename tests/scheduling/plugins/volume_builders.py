"""Short ways to write storage objects in tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from restow.model.cluster.storage import StorageObject
from restow.model.objects import (
    ClaimVolume,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    CsiVolume,
    EphemeralVolume,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    SelectorRequirement,
    SelectorSpec,
    StorageClass,
    TopologyRequirement,
    TopologySelectorTerm,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
    VolumeResources,
)
from restow.model.snapshot import Snapshot
from restow.model.volumes import BIND_COMPLETED, SELECTED_NODE
from tests.model.cluster.builders import node, pod

DRIVER = "disk.example.com"


def on_label(key: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=[SelectorRequirement(key=key, operator="In", values=list(values))])


def volume(
    name: str,
    size: str = "10Gi",
    *,
    of: str = "local",
    at: NodeSelectorTerm | list[NodeSelectorTerm] | None = None,
    claim: str | None = None,
    claim_uid: str | None = None,
    phase: str = "Available",
    **fields: Any,
) -> PersistentVolume:
    """A volume of a storage class, claimed by name. `fields` are keywords of `_metadata` and members of its spec."""
    metadata, members = _divided(fields)
    terms = [at] if isinstance(at, NodeSelectorTerm) else at
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms is not None else None
    return PersistentVolume(
        metadata=_metadata(name, **metadata),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            storage_class_name=of,
            node_affinity=affinity,
            claim_ref=ObjectReference(namespace="default", name=claim, uid=claim_uid) if claim else None,
            **{"access_modes": ["ReadWriteOnce"], **members},
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def csi_volume(handle: str) -> CsiVolume:
    return CsiVolume(driver=DRIVER, volume_handle=handle)


def claim(
    name: str,
    size: str | None = "5Gi",
    *,
    of: str | None = "local",
    to: str | None = None,
    bound: bool = True,
    selected: str | None = None,
    phase: str | None = None,
    **fields: Any,
) -> PersistentVolumeClaim:
    """A claim; bound if it is given a volume `to` bind to, unless `bound` is false. `fields` as of `volume`."""
    metadata, members = _divided(fields)
    annotations = {SELECTED_NODE: selected} if selected else {}
    if to and bound:
        annotations[BIND_COMPLETED] = "yes"
    return PersistentVolumeClaim(
        metadata=replace(
            _metadata(name, **metadata), namespace="default", uid=f"uid-{name}", annotations=annotations or None
        ),
        spec=PersistentVolumeClaimSpec(
            storage_class_name=of,
            volume_name=to,
            resources=VolumeResources(requests={"storage": size} if size else None),
            **{"access_modes": ["ReadWriteOnce"], **members},
        ),
        status=PersistentVolumeClaimStatus(phase=phase),
    )


def _metadata(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    leaving: bool = False,
    made_for: Pod | None = None,
    version: int | str = 1,
) -> ObjectMeta:
    owner = OwnerReference(kind="Pod", uid=made_for.metadata.uid, controller=True) if made_for else None
    return ObjectMeta(
        name=name,
        labels=labels,
        resource_version=str(version),
        deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
        owner_references=[owner] if owner else None,
    )


def _divided(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keywords of `_metadata` among these, and the others."""
    of_metadata = {key for key in fields if key in ("labels", "leaving", "made_for", "version")}
    return {key: fields[key] for key in of_metadata}, {key: fields[key] for key in fields.keys() - of_metadata}


def storage_class(
    name: str = "local",
    provisioner: str = "kubernetes.io/no-provisioner",
    *,
    waits: bool = True,
    topologies: list[dict[str, list[str]]] | None = None,
) -> StorageClass:
    terms = [
        TopologySelectorTerm(match_label_expressions=[TopologyRequirement(key=k, values=v) for k, v in term.items()])
        for term in topologies or ()
    ]
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode="WaitForFirstConsumer" if waits else "Immediate",
        allowed_topologies=terms or None,
    )


def driver(name: str = DRIVER, *, tells_capacity: bool = True) -> CSIDriver:
    return CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(storage_capacity=tells_capacity))


def capacity(
    name: str, size: str | None, topology: dict[str, str] | None, *, of: str = "made", largest: str | None = None
) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="kube-system"),
        storage_class_name=of,
        capacity=size,
        maximum_volume_size=largest,
        node_topology=SelectorSpec(match_labels=topology) if topology is not None else None,
    )


def csi_node(name: str, limit: int | None, driver: str = DRIVER, version: int | str = 1) -> CSINode:
    allocatable = VolumeNodeResources(count=limit) if limit is not None else None
    return CSINode(
        metadata=ObjectMeta(name=name, resource_version=str(version)),
        spec=CSINodeSpec(drivers=[CSINodeDriver(name=driver, node_id=name, allocatable=allocatable)]),
    )


def attachment(node: str, volume: str, version: int | str = 1) -> VolumeAttachment:
    return VolumeAttachment(
        metadata=ObjectMeta(name=f"{node}-{volume}", resource_version=str(version)),
        spec=VolumeAttachmentSpec(
            attacher=DRIVER, node_name=node, source=VolumeAttachmentSource(persistent_volume_name=volume)
        ),
    )


def using(*claims: str, name: str = "p", ephemeral: tuple[str, ...] = (), **fields: Any) -> Pod:
    """A pod that uses claims by name, and ephemeral volumes."""
    used = [Volume(name=f"v-{one}", persistent_volume_claim=ClaimVolume(claim_name=one)) for one in claims]
    used += [Volume(name=one, ephemeral=EphemeralVolume()) for one in ephemeral]
    return pod(name, volumes=used, **fields)


def cluster(nodes: list[Node], *items: StorageObject, pods: list[Pod] | None = None) -> Snapshot:
    snapshot = Snapshot()
    for one in nodes:
        snapshot.apply_node(one)
    for item in items:
        snapshot.apply_storage(item)
    for each in pods or ():
        snapshot.apply_pod(each)
    return snapshot


N1, N2, N3 = (node(f"n{i}", labels={"zone": zone, "host": f"n{i}"}) for i, zone in ((1, "a"), (2, "a"), (3, "b")))
NODES = [N1, N2, N3]
LOCAL = storage_class("local")
MADE = storage_class("made", DRIVER)
ON_N1, ON_N2, IN_B = on_label("host", "n1"), on_label("host", "n2"), on_label("zone", "b")
