"""Storage: volumes, claims, classes and what nodes can attach, as the API shows them and as the scheduler assumes them.

Goes in: storage objects, in any order, repeated or late; volumes and claims assumed changed. Comes out: the objects,
the volumes a claim could get per class, what can still be made where, and which nodes' attached volumes changed.

    volumes, claims           can be assumed                  pools        volumes without a claim, per class
    classes                   how volumes are made            held         volumes that name a claim, per claim
    csi_nodes, csi_drivers    what drivers can do             room_left    what can still be made, per class
    attachments               what is attached where          changes      rows whose attached volumes may have changed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.model import volumes
from restow.model.affinity import NodeConstraint
from restow.model.cluster.changes import Changes
from restow.model.cluster.mounts import Mounts
from restow.model.cluster.nodes import NodeTable
from restow.model.cluster.storage.capacities import Capacities, largest_volume
from restow.model.cluster.storage.pools import Offer, Pool, offer_of
from restow.model.cluster.storage.tables import AssumeTable, Table, key_of
from restow.model.cluster.undo import UndoLog
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
    def __init__(self, log: UndoLog, nodes: NodeTable, mounts: Mounts) -> None:
        self._nodes = nodes
        self._mounts = mounts
        self.changes = Changes(nodes.rows)
        self.volumes: AssumeTable[PersistentVolume] = AssumeTable(log, self._volume_changed)
        self.claims: AssumeTable[PersistentVolumeClaim] = AssumeTable(log, self._claim_changed)
        self.classes: Table[StorageClass] = Table(log, self._class_changed)
        self.csi_nodes: Table[CSINode] = Table(log, self._csi_node_changed)
        self.csi_drivers: Table[CSIDriver] = Table(log)
        self.capacities: Table[CSIStorageCapacity] = Table(log, self._capacity_changed)
        self.attachments: Table[VolumeAttachment] = Table(log, self._attachment_changed)
        self._tables: dict[type[StorageObject], Table[Any]] = {
            PersistentVolume: self.volumes,
            PersistentVolumeClaim: self.claims,
            StorageClass: self.classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.csi_drivers,
            CSIStorageCapacity: self.capacities,
            VolumeAttachment: self.attachments,
        }
        self._pools: dict[str, Pool] = {}
        self._held: dict[str, dict[str, Offer]] = {}
        self._reaches: dict[str, tuple[PersistentVolume, NodeConstraint]] = {}
        self._room_left: dict[str, Capacities] = {}
        self._claims_of: dict[str, set[str]] = {}
        self._attached_at: dict[str, dict[str, VolumeAttachment]] = {}
        self._attachments_of: dict[str, set[str]] = {}

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
        """The class of claims that name none, as the API server chooses it: the newest that says so, then by name."""
        known = [
            one for one in self.classes.every() if (one.metadata.annotations or {}).get(volumes.DEFAULT_CLASS) == "true"
        ]
        by_name = sorted(known, key=lambda one: one.metadata.name)
        return max(by_name, key=lambda one: one.metadata.creation_timestamp or "", default=None)

    def csi_node(self, name: str) -> CSINode | None:
        return self.csi_nodes.shown(f"/{name}")

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self.csi_drivers.shown(f"/{name}")

    def attached_at(self, node: str) -> Iterable[VolumeAttachment]:
        return self._attached_at.get(node, {}).values()

    def pool(self, class_name: str) -> Pool:
        """The volumes of a class that wait for a claim."""
        found = self._pools.get(class_name)
        if found is None:
            found = self._pools[class_name] = Pool(self._nodes)
        return found

    def reach(self, volume: PersistentVolume) -> NodeConstraint:
        """The nodes that can reach a volume of ours."""
        known = self._reaches.get(volume.metadata.name)
        if known is None or known[0] is not volume:
            known = self._reaches[volume.metadata.name] = (volume, volumes.reach(volume))
        return known[1]

    def held_for(self, claim: PersistentVolumeClaim) -> list[Offer]:
        """The volumes that name this claim, by name."""
        held = self._held.get(key_of(claim), {})
        return [held[name] for name in sorted(held) if volumes.is_meant_for(held[name].volume, claim)]

    def room_left(self, class_name: str) -> Capacities:
        """What a class can still make."""
        found = self._room_left.get(class_name)
        if found is None:
            found = self._room_left[class_name] = Capacities(self._nodes)
        return found

    # --- what follows from a change -----------------------------------------------------------------------------------

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            self._withdraw(old)
        if new is not None:
            self._offer(new)
        name = (new or old or PersistentVolume()).metadata.name
        self._reaches.pop(name, None)
        for claim in self._claims_of.get(name, ()):
            self._touch_users(claim)
        for node in self._attachments_of.get(name, ()):
            self._touch_node(node)

    def _offer(self, volume: PersistentVolume) -> None:
        """A volume that is going away is nobody's; one that names a claim is that claim's, whatever its phase."""
        reference = volume.spec.claim_ref
        if volume.metadata.deletion_timestamp is not None:
            return
        if reference is not None:
            key = f"{reference.namespace or ''}/{reference.name or ''}"
            self._held.setdefault(key, {})[volume.metadata.name] = offer_of(volume)
        elif volume.status.phase == "Available":
            self.pool(volumes.class_name(volume)).put(offer_of(volume))

    def _withdraw(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None:
            self.pool(volumes.class_name(volume)).drop(volume.metadata.name)
            return
        key = f"{reference.namespace or ''}/{reference.name or ''}"
        held = self._held.get(key, {})
        held.pop(volume.metadata.name, None)
        if not held:
            self._held.pop(key, None)

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
            self.room_left(old.storage_class_name).drop(key_of(old), old)
        if new is not None:
            self.room_left(new.storage_class_name).put(key_of(new), new)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            self._detach(old)
        if new is not None:
            self._attach(new)

    def _attach(self, attachment: VolumeAttachment) -> None:
        node, volume = attachment.spec.node_name, attachment.spec.source.persistent_volume_name
        self._attached_at.setdefault(node, {})[attachment.metadata.name] = attachment
        if volume:
            self._attachments_of.setdefault(volume, set()).add(node)
        self._touch_node(node)

    def _detach(self, attachment: VolumeAttachment) -> None:
        node, volume = attachment.spec.node_name, attachment.spec.source.persistent_volume_name
        here = self._attached_at[node]
        del here[attachment.metadata.name]
        if volume and not any(one.spec.source.persistent_volume_name == volume for one in here.values()):
            _discard(self._attachments_of, volume, node)
        if not here:
            del self._attached_at[node]
        self._touch_node(node)

    def _touch_users(self, claim: str) -> None:
        for row in self._mounts.users(claim):
            self.changes.touch(row)

    def _touch_node(self, name: str) -> None:
        row = self._nodes.rows.find(name)
        if row is not None:
            self.changes.touch(row)


def _check(item: StorageObject) -> None:
    """Read every quantity once, before anything changes."""
    if isinstance(item, PersistentVolume):
        volumes.capacity(item)
    elif isinstance(item, PersistentVolumeClaim):
        volumes.requested(item)
    elif isinstance(item, CSIStorageCapacity):
        largest_volume(item)


def _discard(table: dict[str, set[str]], key: str, value: str) -> None:
    table[key].discard(value)
    if not table[key]:
        del table[key]
