"""Storage in the snapshot. Start reading at `storage`."""

from restow.model.cluster.storage.attached import Attached, VolumeId
from restow.model.cluster.storage.pools import NONE, Offer, Pool, Wish, wish_of
from restow.model.cluster.storage.storage import Storage, StorageObject
from restow.model.cluster.storage.tables import AssumeTable, OutOfSync, Table, key_of

__all__ = [
    "NONE",
    "AssumeTable",
    "Attached",
    "Offer",
    "OutOfSync",
    "Pool",
    "Storage",
    "StorageObject",
    "Table",
    "VolumeId",
    "Wish",
    "key_of",
    "wish_of",
]
