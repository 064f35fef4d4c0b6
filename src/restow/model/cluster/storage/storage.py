"""Storage: volumes, claims, classes and what nodes can attach, as the API shows them and as the scheduler assumes them.

Goes in: storage objects, in any order, repeated or late; volumes and claims assumed changed. Comes out: the objects,
the volumes that a claim could be bound to, what can still be provisioned where, and the rows with attached volumes that
may have changed.

    volumes, claims           can be assumed            offers             volumes that a claim could be bound to
    classes                   storage classes           provisionable      sizes that can be provisioned, per class
    csi_nodes, csi_drivers    what drivers can do       attachment_index   what is attached where
    capacities, attachments   as shown                  changes            rows with other attached volumes
"""

from __future__ import annotations

from typing import Any

from restow.model import volumes
from restow.model.cluster.mounted_volumes import MountedVolumes
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.row_changes import RowChanges
from restow.model.cluster.storage.attachment_index import AttachmentIndex
from restow.model.cluster.storage.object_tables import AssumableTable, ObjectTable, key_of
from restow.model.cluster.storage.provisionable_sizes import ProvisionableSizes, largest_volume
from restow.model.cluster.storage.volume_offers import VolumeOffers
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)


class Storage:
    def __init__(self, log: UndoLog, nodes: NodeTable, mounts: MountedVolumes) -> None:
        self._nodes = nodes
        self._mounts = mounts
        self.changes = RowChanges(nodes.rows)
        self.volumes: AssumableTable[PersistentVolume] = AssumableTable(log, self._volume_changed)
        self.claims: AssumableTable[PersistentVolumeClaim] = AssumableTable(log, self._claim_changed)
        self.classes: ObjectTable[StorageClass] = ObjectTable(log, self._class_changed)
        self.csi_nodes: ObjectTable[CSINode] = ObjectTable(log, self._csi_node_changed)
        self.csi_drivers: ObjectTable[CSIDriver] = ObjectTable(log)
        self.capacities: ObjectTable[CSIStorageCapacity] = ObjectTable(log, self._capacity_changed)
        self.attachments: ObjectTable[VolumeAttachment] = ObjectTable(log, self._attachment_changed)
        self._tables: dict[type[StorageObject], ObjectTable[Any]] = {
            PersistentVolume: self.volumes,
            PersistentVolumeClaim: self.claims,
            StorageClass: self.classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.csi_drivers,
            CSIStorageCapacity: self.capacities,
            VolumeAttachment: self.attachments,
        }
        self.offers = VolumeOffers(nodes)
        self.attachment_index = AttachmentIndex()
        self._provisionable: dict[str, ProvisionableSizes] = {}
        self._claims_of: dict[str, set[str]] = {}
        """The keys of the claims bound to a volume, by its name."""

    def apply(self, item: StorageObject) -> None:
        """An event shows an object. Raises QuantityError if it cannot be read, and nothing changes."""
        _check(item)
        self._tables[type(item)].apply(item)

    def remove(self, item: StorageObject) -> None:
        """An event says an object was deleted."""
        self._tables[type(item)].remove(item)

    # --- reading ------------------------------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(f"/{name}")

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.shown(f"/{name}")

    def default_class(self) -> StorageClass | None:
        """The class of claims that name none, as the API server chooses it: the newest default class, then by name."""
        known = [
            storage_class
            for storage_class in self.classes.every()
            if (storage_class.metadata.annotations or {}).get(volumes.DEFAULT_CLASS) == "true"
        ]
        by_name = sorted(known, key=lambda storage_class: storage_class.metadata.name)
        return max(by_name, key=lambda storage_class: storage_class.metadata.creation_timestamp or "", default=None)

    def csi_node(self, name: str) -> CSINode | None:
        return self.csi_nodes.shown(f"/{name}")

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self.csi_drivers.shown(f"/{name}")

    def provisionable(self, class_name: str) -> ProvisionableSizes:
        """The sizes of volumes that a class can still provision."""
        sizes = self._provisionable.get(class_name)
        if sizes is None:
            sizes = self._provisionable[class_name] = ProvisionableSizes(self._nodes)
        return sizes

    # --- what follows from a change -----------------------------------------------------------------------------------

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self.offers.volume_changed(old, new)
        name = (new or old or PersistentVolume()).metadata.name
        for claim in self._claims_of.get(name, ()):
            self._touch_users(claim)
        for node in self.attachment_index.nodes_of(name):
            self._touch_node(node)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and old.spec.volume_name:
            _discard(self._claims_of, old.spec.volume_name, key_of(old))
        if new is not None and new.spec.volume_name:
            self._claims_of.setdefault(new.spec.volume_name, set()).add(key_of(new))
        self._touch_users(key_of(new or old or PersistentVolumeClaim()))

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if (old.provisioner if old else None) != (new.provisioner if new else None):
            for row in self._mounts.rows():
                self.changes.touch(row)

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        self._touch_node((new or old or CSINode()).metadata.name)

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self.provisionable(old.storage_class_name).drop(key_of(old), old)
        if new is not None:
            self.provisionable(new.storage_class_name).put(key_of(new), new)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            self.attachment_index.remove(old)
            self._touch_node(old.spec.node_name)
        if new is not None:
            self.attachment_index.add(new)
            self._touch_node(new.spec.node_name)

    def _touch_users(self, claim: str) -> None:
        for row in self._mounts.users(claim):
            self.changes.touch(row)

    def _touch_node(self, name: str) -> None:
        row = self._nodes.rows.find_row(name)
        if row is not None:
            self.changes.touch(row)


def _check(item: StorageObject) -> None:
    """Read every quantity once, before anything changes."""
    if isinstance(item, PersistentVolume):
        volumes.volume_capacity(item)
    elif isinstance(item, PersistentVolumeClaim):
        volumes.requested_size(item)
    elif isinstance(item, CSIStorageCapacity):
        largest_volume(item)


def _discard(table: dict[str, set[str]], key: str, value: str) -> None:
    table[key].discard(value)
    if not table[key]:
        del table[key]
