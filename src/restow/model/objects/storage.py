"""Storage objects: volumes, claims, classes and what nodes can attach."""

from __future__ import annotations

from msgspec import field

from restow.model.objects.base import (
    ApiStruct,
    Condition,
    ObjectMeta,
    ObjectReference,
    Quantities,
    QuantityText,
    SelectorSpec,
)
from restow.model.objects.pod import (
    AwsElasticBlockStore,
    GcePersistentDisk,
    NodeSelector,
    PersistentVolumeClaimSpec,
)


class VolumeNodeAffinity(ApiStruct):
    required: NodeSelector | None = None


class CsiVolume(ApiStruct):
    driver: str = ""
    volume_handle: str = ""


class LocalVolume(ApiStruct):
    path: str = ""


class AzureDisk(ApiStruct):
    disk_uri: str = field(name="diskURI", default="")


class StorageVolume(ApiStruct):
    """A Cinder or Portworx volume."""

    volume_id: str = field(name="volumeID", default="")


class PersistentVolumeSpec(ApiStruct):
    capacity: Quantities | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    persistent_volume_reclaim_policy: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolume | None = None
    local: LocalVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: StorageVolume | None = None
    portworx_volume: StorageVolume | None = None


class PersistentVolumeStatus(ApiStruct):
    phase: str | None = None


class PersistentVolume(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(ApiStruct):
    phase: str | None = None
    access_modes: list[str] | None = None
    capacity: Quantities | None = None
    conditions: list[Condition] | None = None


class PersistentVolumeClaim(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologyRequirement(ApiStruct):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(ApiStruct):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None
    reclaim_policy: str | None = None
    allow_volume_expansion: bool | None = None


class VolumeNodeResources(ApiStruct):
    count: int | None = None


class CSINodeDriver(ApiStruct):
    name: str = ""
    node_id: str = field(name="nodeID", default="")
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct):
    drivers: list[CSINodeDriver] | None = None


class CSINode(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct):
    attach_required: bool | None = None
    storage_capacity: bool | None = None


class CSIDriver(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: SelectorSpec | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class VolumeAttachmentSource(ApiStruct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(ApiStruct):
    attached: bool | None = None


class VolumeAttachment(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
