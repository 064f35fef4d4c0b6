"""Volumes: claims find a volume that fits or get one made; volumes without their claim are released and reclaimed.

    claim Pending ──match or provision──> claimRef on the volume, volumeName on the claim ──> both Bound

A class with WaitForFirstConsumer waits until a scheduler has written the selected node onto the claim; the volume then
belongs to that node's zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from restow.client.cache import Change
from restow.model.affinity import volume_constraint
from restow.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Document, Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from restow.model.quantity import Quantity
from restow.model.selectors import label_selector
from restow.model.times import parse_time
from restow.model.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    PROVISIONER,
    SELECTED_NODE,
    is_bound,
)
from restow.sim.world.rule import Rule
from restow.sim.world.settings import Settings
from restow.sim.world.step import NOTHING, Create, Delete, Patch, Step, Write
from restow.sim.world.view import View

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
ZONE = "topology.kubernetes.io/zone"


def waits_for_pod(claim: PersistentVolumeClaim, view: View) -> bool:
    """Whether the volume is bound only when the first pod has a node (WaitForFirstConsumer)."""
    storage_class = view.get(STORAGE_CLASS, ("", claim.spec.storage_class_name or ""))
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


class Claims(Rule):
    kind = PERSISTENT_VOLUME_CLAIM
    also = (PERSISTENT_VOLUME, STORAGE_CLASS)

    def __init__(self, settings: Settings) -> None:
        self._provision = settings.provision

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        if kind == PERSISTENT_VOLUME:
            reference = change.object.spec.claim_ref
            if reference is not None:
                return ((reference.namespace or "", reference.name or ""),)
        return [key_of(claim) for claim in view.all(PERSISTENT_VOLUME_CLAIM) if claim.status.phase != "Bound"]

    def decide(self, key: Key, view: View) -> Step:
        claim = view.get(PERSISTENT_VOLUME_CLAIM, key)
        if claim is None or view.is_leaving(claim):
            return NOTHING
        if claim.spec.volume_name:
            return _complete_binding(claim, view)
        node = view.node((claim.metadata.annotations or {}).get(SELECTED_NODE))
        held = _held_for(claim, view)
        if held is None and waits_for_pod(claim, view) and node is None:
            return NOTHING
        volume = held or _smallest_fit(claim, node, view)
        if volume is not None:
            return Step(tuple(_bind(claim, volume)))
        return self._make(claim, node, view)

    def _make(self, claim: PersistentVolumeClaim, node: Node | None, view: View) -> Step:
        storage_class = view.get(STORAGE_CLASS, ("", claim.spec.storage_class_name or ""))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return NOTHING
        created = parse_time(claim.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
        wait = created + self._provision - view.now
        if wait > 0:
            return Step(again=wait)
        return Step(
            (
                *_provision_volume(claim, storage_class),
                Create(PERSISTENT_VOLUME, _new_volume(claim, storage_class, node)),
            )
        )


class Volumes(Rule):
    kind = PERSISTENT_VOLUME
    also = (PERSISTENT_VOLUME_CLAIM,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        name = change.object.spec.volume_name
        return (("", name),) if name else ()

    def decide(self, key: Key, view: View) -> Step:
        volume = view.get(PERSISTENT_VOLUME, key)
        if volume is None or view.is_leaving(volume):
            return NOTHING
        reference = volume.spec.claim_ref
        if reference is None:
            return _phase(volume, "Available")
        claim = view.get(PERSISTENT_VOLUME_CLAIM, (reference.namespace or "", reference.name or ""))
        if claim is not None and reference.uid in (None, "", claim.metadata.uid):
            return _phase(volume, "Bound" if claim.spec.volume_name == volume.metadata.name else "Available")
        if volume.status.phase != "Released":
            # Two looks, a second apart: the claim may be news that has not arrived.
            return Step(_phase(volume, "Released").writes, 1.0) if reference.uid else NOTHING
        if volume.spec.persistent_volume_reclaim_policy != "Delete":
            return NOTHING
        return Step((Delete.of(PERSISTENT_VOLUME, volume),))


# ---- binding


def _complete_binding(claim: PersistentVolumeClaim, view: View) -> Step:
    """A claim that names its volume: complete the binding, or say that the volume is lost."""
    volume = view.get(PERSISTENT_VOLUME, ("", claim.spec.volume_name or ""))
    if volume is None:
        return _claim_status(claim, {"phase": "Lost"}) if is_bound(claim) else NOTHING
    reference = volume.spec.claim_ref
    if reference is not None and reference.uid not in (None, "", claim.metadata.uid):
        return NOTHING
    if not is_bound(claim) or reference is None or not reference.uid:
        return Step(tuple(_bind(claim, volume)))
    if claim.status.phase == "Bound":
        return NOTHING
    return _claim_status(claim, _bound_status(volume))


def _held_for(claim: PersistentVolumeClaim, view: View) -> PersistentVolume | None:
    """A volume that already names this claim: made for it, or chosen by a scheduler."""
    made = view.get(PERSISTENT_VOLUME, ("", _volume_name(claim)))
    if made is not None:
        return made
    meta = claim.metadata
    for volume in sorted(view.all(PERSISTENT_VOLUME), key=key_of):
        reference = volume.spec.claim_ref
        if reference is None or reference.uid not in (None, "", meta.uid):
            continue
        if (reference.namespace, reference.name) == (meta.namespace, meta.name):
            return volume
    return None


def _smallest_fit(claim: PersistentVolumeClaim, node: Node | None, view: View) -> PersistentVolume | None:
    fitting = [
        volume for volume in view.all(PERSISTENT_VOLUME) if _fits(volume, claim, node) and not view.is_leaving(volume)
    ]
    return min(fitting, key=lambda volume: (_capacity(volume), volume.metadata.name), default=None)


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim, node: Node | None) -> bool:
    spec, wanted = volume.spec, claim.spec
    if spec.claim_ref is not None or (spec.storage_class_name or "") != (wanted.storage_class_name or ""):
        return False
    if (spec.volume_mode or "Filesystem") != (wanted.volume_mode or "Filesystem"):
        return False
    if not set(wanted.access_modes or ()) <= set(spec.access_modes or ()) or _capacity(volume) < _asked(claim):
        return False
    if wanted.selector is not None and not label_selector(wanted.selector).matches(volume.metadata.labels):
        return False
    required = spec.node_affinity.required if spec.node_affinity else None
    return node is None or volume_constraint(required).matches(node.metadata.name, node.metadata.labels)


def _capacity(volume: PersistentVolume) -> Quantity:
    return Quantity.parse((volume.spec.capacity or {}).get("storage", 0))


def _asked(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.parse((claim.spec.resources.requests or {}).get("storage", 0))


def _bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> list[Write]:
    """Both sides point at each other, the volume's first: it is the side that two claims could race for."""
    writes: list[Write] = []
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        writes.append(
            Patch(
                kind=PERSISTENT_VOLUME,
                namespace=None,
                name=volume.metadata.name,
                changes={
                    "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
                    "spec": {"claimRef": _reference(claim)},
                },
                version=volume.metadata.resource_version,
            )
        )
    meta = claim.metadata
    if not is_bound(claim):
        annotations = {BIND_COMPLETED: "yes"} | ({} if claim.spec.volume_name else {BOUND_BY_CONTROLLER: "yes"})
        changes = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.metadata.name}}
        writes.append(
            Patch(
                kind=PERSISTENT_VOLUME_CLAIM,
                namespace=meta.namespace,
                name=meta.name,
                changes=changes,
                version=meta.resource_version,
            )
        )
    return [*writes, *_claim_status(claim, _bound_status(volume)).writes]


def _bound_status(volume: PersistentVolume) -> Document:
    capacity = {name: str(text) for name, text in (volume.spec.capacity or {}).items()}
    return {"phase": "Bound", "accessModes": list(volume.spec.access_modes or ()), "capacity": capacity}


# ---- writing


def _provision_volume(claim: PersistentVolumeClaim, storage_class: StorageClass) -> Iterator[Write]:
    """The writes for a new volume: first the annotation of its provisioner on the claim, then the volume."""
    meta = claim.metadata
    if PROVISIONER not in (meta.annotations or {}):
        changes = {"metadata": {"annotations": {PROVISIONER: storage_class.provisioner}}}
        yield Patch(kind=PERSISTENT_VOLUME_CLAIM, namespace=meta.namespace, name=meta.name, changes=changes)


def _new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None) -> Document:
    name = _volume_name(claim)
    spec: Document = {
        "capacity": {"storage": str(_asked(claim))},
        "accessModes": list(claim.spec.access_modes or ("ReadWriteOnce",)),
        "storageClassName": storage_class.metadata.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "csi": {"driver": storage_class.provisioner, "volumeHandle": name},
        "claimRef": _reference(claim),
    }
    zone = (node.metadata.labels or {}).get(ZONE) if node else None
    if zone:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"metadata": {"name": name, "annotations": {PROVISIONED_BY: storage_class.provisioner}}, "spec": spec}


def _volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def _reference(claim: PersistentVolumeClaim) -> Document:
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


def _claim_status(claim: PersistentVolumeClaim, status: Document) -> Step:
    if claim.status.phase == status["phase"]:
        return NOTHING
    meta = claim.metadata
    patch = Patch(
        kind=PERSISTENT_VOLUME_CLAIM,
        namespace=meta.namespace,
        name=meta.name,
        changes={"status": status},
        subresource="status",
    )
    return Step((patch,))


def _phase(volume: PersistentVolume, phase: str) -> Step:
    if volume.status.phase == phase:
        return NOTHING
    changes = {"status": {"phase": phase}}
    name = volume.metadata.name
    return Step((Patch(kind=PERSISTENT_VOLUME, namespace=None, name=name, changes=changes, subresource="status"),))
