"""Volumes and claims: the annotations of the binding protocol, and facts about single objects.

In: a claim, a volume or a pod. Out: its storage class, whether it is bound and to which object, its size, the nodes
that can reach it, the claims that a pod uses. A scheduler and the volume controllers communicate through annotations;
their names are here.
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
"""On a claim: provision the volume where this node can reach it."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""On a claim: volumeName is final."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""On a volume: a controller set its claimRef, not the user, so it may be removed again."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""On a class: it is the class of claims that name none."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""On a claim: the provisioner of its volume."""
READ_WRITE_MANY = "ReadWriteMany"
READ_WRITE_ONCE = "ReadWriteOnce"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"  # still read before spec.storageClassName
_NONE = Quantity.parse(0)


class ClaimUse(msgspec.Struct, frozen=True, gc=False):
    """A claim that a pod uses, in its own namespace."""

    name: str
    generated: bool
    """Generated for this pod, from a template in its spec."""


def claims_used(pod: Pod) -> Iterator[ClaimUse]:
    """The claims of a pod, in the order of its volumes."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", True)


def generated_claims(pod: Pod) -> dict[str, PersistentVolumeClaim]:
    """The claims that will be generated from the templates in the spec of a future pod, by name."""
    return {
        f"{pod.metadata.name}-{volume.name}": _generated_claim(pod, volume.name, volume.ephemeral)
        for volume in pod.spec.volumes or ()
        if volume.ephemeral is not None
    }


def _generated_claim(pod: Pod, volume: str, source: EphemeralVolume) -> PersistentVolumeClaim:
    template = source.volume_claim_template or PersistentVolumeClaimTemplate()
    name = f"{pod.metadata.name}-{volume}"
    metadata = msgspec.structs.replace(template.metadata, name=name, namespace=pod.metadata.namespace)
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def is_generated_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a generated claim belongs to this pod, and not to an earlier pod of the same name."""
    owners = claim.metadata.owner_references or ()
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in owners)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def class_name(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """The name of its storage class; "" for none."""
    annotated = (item.metadata.annotations or {}).get(CLASS_ANNOTATION)
    return item.spec.storage_class_name or "" if annotated is None else annotated


def is_dynamically_provisioned(claim: PersistentVolumeClaim) -> bool:
    """Whether its volume is provisioned for it, and not one of the existing volumes."""
    annotations = claim.metadata.annotations or {}
    return PROVISIONER in annotations or SELECTED_NODE in annotations


def waits_for_pod(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class are bound only when their first pod has a node (WaitForFirstConsumer)."""
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    """The size that the claim requests. Raises QuantityError."""
    size = (claim.spec.resources.requests or {}).get("storage")
    return _NONE if size is None else Quantity.parse(size)


def volume_capacity(volume: PersistentVolume) -> Quantity:
    """The size of the volume. Raises QuantityError."""
    size = (volume.spec.capacity or {}).get("storage")
    return _NONE if size is None else Quantity.parse(size)


def volume_mode(item: PersistentVolumeClaim | PersistentVolume) -> str:
    return item.spec.volume_mode or "Filesystem"


def is_prebound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the claimRef of the volume names this claim; without a UID it means any claim of that name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and (reference.namespace or "") == (claim.metadata.namespace or "")
        and (not reference.uid or reference.uid == claim.metadata.uid)
    )


def node_affinity_of(volume: PersistentVolume) -> NodeConstraint:
    """The nodes that can reach a volume, by their labels: volumes do not see node names, so a term on a name
    is ignored."""
    affinity = volume.spec.node_affinity
    written = volume_constraint(affinity.required if affinity else None)
    if written.terms is None or not any(term.fields for term in written.terms):
        return written
    return NodeConstraint((), tuple(msgspec.structs.replace(term, fields=()) for term in written.terms))
