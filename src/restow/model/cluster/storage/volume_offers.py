"""The volumes that a claim could be bound to: those that wait for any claim, and those that name one.

Goes in: volumes as they change. Comes out: a pool of available volumes per storage class, the pre-bound volumes of a
claim, and which nodes can reach a volume.
"""

from __future__ import annotations

from restow.model import volumes
from restow.model.affinity import NodeConstraint
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.storage.object_tables import key_of
from restow.model.cluster.storage.volume_pool import OfferedVolume, VolumePool, offered_volume
from restow.model.objects import PersistentVolume, PersistentVolumeClaim


class VolumeOffers:
    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._pools: dict[str, VolumePool] = {}
        self._prebound: dict[str, dict[str, OfferedVolume]] = {}
        """Volumes that name a claim, by the key of the claim and their name."""
        self._node_affinities: dict[str, tuple[PersistentVolume, NodeConstraint]] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def pool(self, class_name: str) -> VolumePool:
        """The volumes of a class that wait for a claim."""
        pool = self._pools.get(class_name)
        if pool is None:
            pool = self._pools[class_name] = VolumePool(self._nodes)
        return pool

    def prebound_to(self, claim: PersistentVolumeClaim) -> list[OfferedVolume]:
        """The volumes that name this claim, by name."""
        offers = self._prebound.get(key_of(claim), {})
        return [offers[name] for name in sorted(offers) if volumes.is_prebound_to(offers[name].volume, claim)]

    def node_affinity(self, volume: PersistentVolume) -> NodeConstraint:
        """Which nodes can reach a volume; parsed once per version of it."""
        known = self._node_affinities.get(volume.metadata.name)
        if known is None or known[0] is not volume:
            known = self._node_affinities[volume.metadata.name] = (volume, volumes.node_affinity_of(volume))
        return known[1]

    # --- changing -----------------------------------------------------------------------------------------------------

    def volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """A volume was added, changed or deleted."""
        if old is not None:
            self._withdraw(old)
            self._node_affinities.pop(old.metadata.name, None)
        if new is not None:
            self._offer(new)
            self._node_affinities.pop(new.metadata.name, None)

    def _offer(self, volume: PersistentVolume) -> None:
        """A volume that is being deleted is offered to no claim; one that names a claim only to it, in any phase."""
        reference = volume.spec.claim_ref
        if volume.metadata.deletion_timestamp is not None:
            return
        if reference is not None:
            key = f"{reference.namespace or ''}/{reference.name or ''}"
            self._prebound.setdefault(key, {})[volume.metadata.name] = offered_volume(volume)
        elif volume.status.phase == "Available":
            self.pool(volumes.class_name(volume)).put(offered_volume(volume))

    def _withdraw(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None:
            self.pool(volumes.class_name(volume)).drop(volume.metadata.name)
            return
        key = f"{reference.namespace or ''}/{reference.name or ''}"
        offers = self._prebound.get(key, {})
        offers.pop(volume.metadata.name, None)
        if not offers:
            self._prebound.pop(key, None)
