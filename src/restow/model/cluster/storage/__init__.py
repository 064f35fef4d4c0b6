"""Storage in the snapshot. Start reading at `storage`."""

from restow.model.cluster.storage.attached_volumes import AttachedVolumes, VolumeId
from restow.model.cluster.storage.object_tables import AssumableTable, ObjectTable, OutOfSync, key_of
from restow.model.cluster.storage.storage import Storage, StorageObject
from restow.model.cluster.storage.volume_pool import (
    NONE,
    ClaimRequirements,
    OfferedVolume,
    VolumePool,
    claim_requirements,
)

__all__ = [
    "NONE",
    "AssumableTable",
    "AttachedVolumes",
    "ClaimRequirements",
    "ObjectTable",
    "OfferedVolume",
    "OutOfSync",
    "Storage",
    "StorageObject",
    "VolumeId",
    "VolumePool",
    "claim_requirements",
    "key_of",
]
