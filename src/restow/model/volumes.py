"""Volumes and claims: the words of their protocol, and what single objects say of themselves.

Goes in: a claim, a volume, a pod. Comes out: which class it is of, whether it is bound, to whom, how large it is, where
it can be reached from, which claims a pod uses. The protocol between a scheduler and the volume controllers is written
in annotations; their names are here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restow.model.affinity import NodeConstraint, volume_constraint
from restow.model.objects import (
    EphemeralVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimTemplate,
    Pod,
    StorageClass,
)
from restow.model.quantity import Quantity

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""On a claim: make its volume where this node can reach it."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""On a claim: volumeName is final."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""On a volume: its claimRef was not the user's idea, so it may be taken back."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""On a class: claims that name none are of this one."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""On a claim: who is to make its volume."""
READ_WRITE_MANY = "ReadWriteMany"
READ_WRITE_ONCE = "ReadWriteOnce"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"  # still read before spec.storageClassName
_NONE = Quantity.parse(0)


class ClaimUse(msgspec.Struct, frozen=True, gc=False):
    """A claim that a pod uses, in its own namespace."""

    name: str
    generated: bool
    """Made for this very pod, out of a template in its spec."""


def claims_used(pod: Pod) -> Iterator[ClaimUse]:
    """The claims of a pod, in the order of its volumes."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", True)


def claims_to_come(pod: Pod) -> dict[str, PersistentVolumeClaim]:
    """The claims that will be made out of the templates in a pod's spec, by name, for a pod that is still to come."""
    return {
        f"{pod.metadata.name}-{volume.name}": _claim_to_come(pod, volume.name, volume.ephemeral)
        for volume in pod.spec.volumes or ()
        if volume.ephemeral is not None
    }


def _claim_to_come(pod: Pod, volume: str, source: EphemeralVolume) -> PersistentVolumeClaim:
    template = source.volume_claim_template or PersistentVolumeClaimTemplate()
    name = f"{pod.metadata.name}-{volume}"
    metadata = msgspec.structs.replace(template.metadata, name=name, namespace=pod.metadata.namespace)
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def is_made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a generated claim is this pod's, and not a namesake's."""
    owners = claim.metadata.owner_references or ()
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in owners)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def class_name(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class it is of; "" for none."""
    annotated = (item.metadata.annotations or {}).get(CLASS_ANNOTATION)
    return item.spec.storage_class_name or "" if annotated is None else annotated


def is_made_to_order(claim: PersistentVolumeClaim) -> bool:
    """Whether its volume was made for it, and not found among those that were there."""
    annotations = claim.metadata.annotations or {}
    return PROVISIONER in annotations or SELECTED_NODE in annotations


def waits_for_pod(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class leave the choice of place to the first pod."""
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """How large the volume must be. Raises QuantityError."""
    size = (claim.spec.resources.requests or {}).get("storage")
    return _NONE if size is None else Quantity.parse(size)


def capacity(volume: PersistentVolume) -> Quantity:
    """How large the volume is. Raises QuantityError."""
    size = (volume.spec.capacity or {}).get("storage")
    return _NONE if size is None else Quantity.parse(size)


def mode(item: PersistentVolumeClaim | PersistentVolume) -> str:
    return item.spec.volume_mode or "Filesystem"


def is_meant_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names this claim; one that names no UID means whoever has the name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and (reference.namespace or "") == (claim.metadata.namespace or "")
        and (not reference.uid or reference.uid == claim.metadata.uid)
    )


def node_affinity_of(volume: PersistentVolume) -> NodeConstraint:
    """The nodes that can reach a volume, by their labels: to a volume nodes have no name, so asking for one is void."""
    affinity = volume.spec.node_affinity
    written = volume_constraint(affinity.required if affinity else None)
    if written.terms is None or not any(term.fields for term in written.terms):
        return written
    return NodeConstraint((), tuple(msgspec.structs.replace(term, fields=()) for term in written.terms))
