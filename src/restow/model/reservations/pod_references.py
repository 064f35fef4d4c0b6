"""How the status of a reservation refers to the pod that consumed a seat, and to the workload of that pod."""

from __future__ import annotations

from restow.model.cluster.owner_chains import group_name
from restow.model.kinds import POD_GROUP
from restow.model.objects import ObjectReference, Pod


def consumer_reference(pod: Pod) -> ObjectReference:
    """The podRef of a placement; its kind is always Pod and not written."""
    return ObjectReference(namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid)


def workload_reference(pod: Pod) -> ObjectReference:
    """The workload of a pod, for currentOwner: its PodGroup, else its controller, else the pod itself."""
    meta, gang = pod.metadata, group_name(pod)
    if gang is not None:
        return ObjectReference(
            api_version=POD_GROUP.api_version, kind=POD_GROUP.kind, namespace=meta.namespace, name=gang
        )
    for owner in meta.owner_references or ():
        if owner.controller:
            return ObjectReference(
                api_version=owner.api_version, kind=owner.kind, namespace=meta.namespace, name=owner.name, uid=owner.uid
            )
    return ObjectReference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
