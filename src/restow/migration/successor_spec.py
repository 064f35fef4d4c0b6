"""Successor spec: what the pod that takes a migrating pod's place may be like.

Goes in: the migrating pod, and the template that its controller creates pods from now. Comes out: the possible
successors: the pod itself, which may have been resized or be of an earlier revision, and what the template says now if
that differs; and the successor with only those labels that are certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from restow.model.objects import Container, OwnerReference, Pod, PodSpec, PodTemplate, Volume

V = TypeVar("V")

_LABELS_OF_ONE_POD = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)


def possible_successors(pod: Pod, template: PodTemplate | None) -> tuple[Pod, ...]:
    """The pod, and last what its controller would create now, if that is known to differ.

    Which of them the successor is like in size is not known before it exists: a webhook that changed the pod when it
    was created may do so again. So a seat must suit all of them. Where the successor may go, the last one says."""
    if template is None:
        return (pod,)
    meta, new = pod.metadata, template.metadata
    labels, annotations = _merged(meta.labels, new.labels), _merged(meta.annotations, new.annotations)
    meta = replace(meta, labels=labels, annotations=annotations)
    created = replace(pod, metadata=meta, spec=_spec_from_template(pod.spec, template.spec))
    if created == pod:
        return (pod,)
    # Without pod-level resources in the template, the requests of the containers may count instead of the pod's own.
    if created.spec.resources is not None and template.spec.resources is None:
        return pod, replace(created, spec=replace(created.spec, resources=None)), created
    return pod, created


def successor_keeps_name(owners: Iterable[OwnerReference]) -> bool:
    """Whether the successor has the same name: the controller, the first owner of the chain, is a StatefulSet."""
    return any(owner.kind == "StatefulSet" for owner in islice(owners, 1))


def successor_with_certain_labels(pod: Pod, template: PodTemplate | None) -> Pod:
    """The successor with only the labels that it certainly has: the template's, and those by which the controller tells
    its pods apart. Other labels may have been put on this pod alone, or be of its revision."""
    if template is None:
        return pod
    own = {key: text for key, text in (pod.metadata.labels or {}).items() if key in _LABELS_OF_ONE_POD}
    labels = {**own, **(template.metadata.labels or {})}
    return replace(pod, metadata=replace(pod.metadata, labels=labels or None))


def _spec_from_template(old: PodSpec, new: PodSpec) -> PodSpec:
    """The template's spec, with what was added to the pod at its creation: defaults of its namespace, tolerations,
    volumes, sidecar containers. What was removed from the template cannot be told from such additions, so it stays."""
    tolerated = old.tolerations or []
    return replace(
        old,
        node_selector=_merged(old.node_selector, new.node_selector),
        affinity=new.affinity or old.affinity,
        tolerations=[*tolerated, *(toleration for toleration in new.tolerations or () if toleration not in tolerated)]
        or old.tolerations,
        topology_spread_constraints=new.topology_spread_constraints or old.topology_spread_constraints,
        overhead=new.overhead or old.overhead,
        resources=new.resources or old.resources,
        resource_claims=new.resource_claims or old.resource_claims,
        host_network=new.host_network or old.host_network,
        scheduler_name=new.scheduler_name or old.scheduler_name,
        scheduling_gates=new.scheduling_gates or old.scheduling_gates,
        volumes=_updated_volumes(old.volumes, new.volumes),
        containers=_updated_containers(old.containers, new.containers),
        init_containers=_updated_containers(old.init_containers, new.init_containers),
    )


def _updated_volumes(old: list[Volume] | None, new: list[Volume] | None) -> list[Volume] | None:
    """The template's volumes, and the pod's volumes of other names. A claim is not replaced by a volume that is no
    claim: it may be from the volumeClaimTemplates of a StatefulSet."""
    in_template = {volume.name: volume for volume in new or ()}
    kept = [_keep_claim(volume, in_template.pop(volume.name, volume)) for volume in old or ()]
    return [*kept, *in_template.values()] or old


def _keep_claim(old: Volume, new: Volume) -> Volume:
    return old if old.persistent_volume_claim is not None and new.persistent_volume_claim is None else new


def _updated_containers(old: list[Container] | None, new: list[Container] | None) -> list[Container] | None:
    in_template = {container.name: container for container in new or ()}
    kept = [
        _updated_container(container, in_template.pop(container.name)) if container.name in in_template else container
        for container in old or ()
    ]
    return [*kept, *in_template.values()] or old


def _updated_container(old: Container, new: Container) -> Container:
    requests = _merged(new.resources.limits, new.resources.requests)  # a limit is the default of a request
    resources = replace(
        old.resources,
        requests=_merged(old.resources.requests, requests),
        limits=_merged(old.resources.limits, new.resources.limits),
    )
    return replace(
        old,
        image=new.image or old.image,
        ports=new.ports or old.ports,
        restart_policy=new.restart_policy or old.restart_policy,
        resources=resources,
    )


def _merged(old: dict[str, V] | None, new: dict[str, V] | None) -> dict[str, V] | None:
    return {**(old or {}), **(new or {})} or old
