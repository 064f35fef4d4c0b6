"""Volumes node by node, as the Kubernetes documentation and kube-scheduler define them: slow and plain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from restow.model import volumes
from restow.model.affinity import volume_constraint
from restow.model.disks import disks_conflict, disks_used
from restow.model.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from restow.model.quantity import Quantity
from restow.model.selectors import label_selector

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass
class World:
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    drivers: dict[str, CSIDriver] = field(default_factory=dict)
    capacities: list[CSIStorageCapacity] = field(default_factory=list)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    attachments: list[VolumeAttachment] = field(default_factory=list)
    placed: list[tuple[Pod, str]] = field(default_factory=list)

    def claims_of(self, pod: Pod) -> list[PersistentVolumeClaim]:
        return [self.claims[use.name] for use in volumes.claims_used(pod)]

    def on(self, node: Node) -> Iterator[Pod]:
        return (pod for pod, name in self.placed if name == node.metadata.name)


# --- binding ----------------------------------------------------------------------------------------------------------


def binding(world: World, pod: Pod, node: Node) -> tuple[set[str], dict[str, str | None]]:
    """Why not here; and which volume each unbound claim would get, None for one to be made."""
    reasons = set(_bound_reasons(world, pod, node))
    unbound = [claim for claim in world.claims_of(pod) if not volumes.is_bound(claim)]
    pinned = [claim for claim in unbound if volumes.selected_node(claim) is not None]
    if any(volumes.selected_node(claim) != node.metadata.name for claim in pinned):
        return reasons | {NO_VOLUME}, {}
    chosen: dict[str, str | None] = {}
    to_make = list(pinned)
    free = [claim for claim in unbound if claim not in pinned]
    for claim in sorted(free, key=lambda one: (volumes.requested_size(one), one.metadata.name)):
        found = _smallest(world, claim, node, excluded=chosen.values())
        if found is None:
            to_make.append(claim)
        else:
            chosen[claim.metadata.name] = found.metadata.name
    for claim in to_make:
        reason = _cannot_make(world, claim, node)
        if reason:
            return reasons | {reason}, {}
        chosen[claim.metadata.name] = None
    return reasons, chosen


def _bound_reasons(world: World, pod: Pod, node: Node) -> Iterator[str]:
    for claim in world.claims_of(pod):
        if volumes.is_bound(claim):
            volume = world.volumes.get(claim.spec.volume_name or "")
            if volume is None:
                yield GONE
                return
            if not reaches(volume, node):
                yield NOT_REACHED
                return


def reaches(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    return volume_constraint(affinity.required if affinity else None).matches("", node.metadata.labels)


def _smallest(
    world: World, claim: PersistentVolumeClaim, node: Node, excluded: Iterable[str | None]
) -> PersistentVolume | None:
    best: PersistentVolume | None = None
    for name in sorted(world.volumes):
        volume = world.volumes[name]
        if (
            name in excluded
            or volumes.class_name(volume) != volumes.class_name(claim)
            or (volume.spec.claim_ref is not None and not volumes.is_prebound_to(volume, claim))
            or volumes.volume_capacity(volume) < volumes.requested_size(claim)
            or (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem")
            or volume.metadata.deletion_timestamp is not None
        ):
            continue
        if volumes.is_prebound_to(volume, claim):
            return volume if reaches(volume, node) else None
        if (
            volume.status.phase == "Available"
            and (claim.spec.selector is None or label_selector(claim.spec.selector).matches(volume.metadata.labels))
            and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
            and reaches(volume, node)
            and (best is None or volumes.volume_capacity(volume) < volumes.volume_capacity(best))
        ):
            best = volume
    return best


def _cannot_make(world: World, claim: PersistentVolumeClaim, node: Node) -> str | None:
    storage_class = world.classes[volumes.class_name(claim)]
    labels = node.metadata.labels or {}
    terms = storage_class.allowed_topologies or ()
    allowed = not terms or any(
        all(labels.get(one.key) in (one.values or ()) for one in term.match_label_expressions or ())
        for term in terms
        if term.match_label_expressions
    )
    if storage_class.provisioner == volumes.NO_PROVISIONER or not allowed:
        return NO_VOLUME
    driver = world.drivers.get(storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return None
    fits = any(
        one.storage_class_name == storage_class.metadata.name
        and label_selector(one.node_topology).matches(labels)
        and _largest(one) >= volumes.requested_size(claim).value
        for one in world.capacities
    )
    return None if fits else NO_SPACE


def _largest(capacity: CSIStorageCapacity) -> int:
    largest = capacity.maximum_volume_size or capacity.capacity
    return Quantity.parse(largest).value if largest is not None else -1


# --- sharing, zones, limits -------------------------------------------------------------------------------------------


def disk_is_free(world: World, pod: Pod, node: Node) -> bool:
    return not any(
        disks_conflict(mine, theirs)
        for mine in disks_used(pod)
        for other in world.on(node)
        for theirs in disks_used(other)
    )


def claim_is_free(world: World, pod: Pod) -> bool:
    once = {
        claim.metadata.name for claim in world.claims_of(pod) if "ReadWriteOncePod" in (claim.spec.access_modes or ())
    }
    return not any(use.name in once for other, _ in world.placed for use in volumes.claims_used(other))


def exceeds_limits(world: World, pod: Pod, node: Node) -> bool:
    csi_node = world.csi_nodes.get(node.metadata.name)
    limits = {
        driver.name: driver.allocatable.count
        for driver in (csi_node.spec.drivers if csi_node else None) or ()
        if driver.allocatable and driver.allocatable.count is not None
    }
    used = {one for other in world.on(node) for one in _identities(world, other)}
    new = Counter(driver for driver, _ in set(_identities(world, pod)) - used)
    there = Counter(driver for driver, _ in used | set(_attached(world, node)))
    return any(driver in limits and there[driver] + count > limits[driver] for driver, count in new.items())


def _identities(world: World, pod: Pod) -> Iterator[tuple[str, str]]:
    for claim in world.claims_of(pod):
        volume = world.volumes.get(claim.spec.volume_name or "")
        if volume is not None:
            if volume.spec.csi is not None:
                yield volume.spec.csi.driver, volume.spec.csi.volume_handle
        elif volumes.class_name(claim) in world.classes:
            yield world.classes[volumes.class_name(claim)].provisioner, f"claim {claim.metadata.name}"


def _attached(world: World, node: Node) -> Iterator[tuple[str, str]]:
    for one in world.attachments:
        volume = world.volumes.get(one.spec.source.persistent_volume_name or "")
        if one.spec.node_name == node.metadata.name and volume is not None and volume.spec.csi is not None:
            yield one.spec.attacher, volume.spec.csi.volume_handle
