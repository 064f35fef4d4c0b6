"""Likeness: what whoever takes a pod's place may be like.

Goes in: the pod that is to move, and the template that its controller makes pods from now. Comes out: the pod itself,
which may have been resized, or be of an earlier revision, and where it differs what would be made now; and whoever
comes, by what is certain of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from restow.model.objects import Container, OwnerReference, Pod, PodSpec, PodTemplate, Volume

V = TypeVar("V")

_TOLD_APART_BY = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)


def possible_successors(pod: Pod, anew: PodTemplate | None) -> tuple[Pod, ...]:
    """The pod, and last what is made `anew`, if that is known to differ. Nobody knows before it comes which of them it
    is like in size (whoever changed the pod when it was made may do so again), so a seat must be for both; where it may
    go, the last one says."""
    if anew is None:
        return (pod,)
    meta, new = pod.metadata, anew.metadata
    labels, annotations = _merged(meta.labels, new.labels), _merged(meta.annotations, new.annotations)
    meta = replace(meta, labels=labels, annotations=annotations)
    made = replace(pod, metadata=meta, spec=_made(pod.spec, anew.spec))
    if made == pod:
        return (pod,)
    if made.spec.resources is not None and anew.spec.resources is None:  # what its containers ask for may count now
        return pod, replace(made, spec=replace(made.spec, resources=None)), made
    return pod, made


def successor_keeps_name(owners: Iterable[OwnerReference]) -> bool:
    """Whether whoever takes a pod's place has its name: the controller, which comes first, gives names."""
    return any(owner.kind == "StatefulSet" for owner in islice(owners, 1))


def successor_with_certain_labels(pod: Pod, anew: PodTemplate | None) -> Pod:
    """Whoever takes a pod's place, by the labels that it certainly has: those of the template, and those by which its
    controller tells its pods apart. Others may have been put on this very pod, or be of its revision."""
    if anew is None:
        return pod
    own = {key: text for key, text in (pod.metadata.labels or {}).items() if key in _TOLD_APART_BY}
    labels = {**own, **(anew.metadata.labels or {})}
    return replace(pod, metadata=replace(pod.metadata, labels=labels or None))


def _made(old: PodSpec, new: PodSpec) -> PodSpec:
    """As the template says, with what was added to the pod when it was made: defaults of its namespace, tolerations,
    volumes, or containers beside its own. What the template does not have any more is not told from that."""
    tolerated = old.tolerations or []
    return replace(
        old,
        node_selector=_merged(old.node_selector, new.node_selector),
        affinity=new.affinity or old.affinity,
        tolerations=[*tolerated, *(one for one in new.tolerations or () if one not in tolerated)] or old.tolerations,
        topology_spread_constraints=new.topology_spread_constraints or old.topology_spread_constraints,
        overhead=new.overhead or old.overhead,
        resources=new.resources or old.resources,
        resource_claims=new.resource_claims or old.resource_claims,
        host_network=new.host_network or old.host_network,
        scheduler_name=new.scheduler_name or old.scheduler_name,
        scheduling_gates=new.scheduling_gates or old.scheduling_gates,
        volumes=_volumes(old.volumes, new.volumes),
        containers=_renewed(old.containers, new.containers),
        init_containers=_renewed(old.init_containers, new.init_containers),
    )


def _volumes(old: list[Volume] | None, new: list[Volume] | None) -> list[Volume] | None:
    """Those of the template, and those that it does not name. A claim is not given up for what is no claim: it may be
    the pod's own, from its StatefulSet."""
    anew = {one.name: one for one in new or ()}
    stay = [_claimed(one, anew.pop(one.name, one)) for one in old or ()]
    return [*stay, *anew.values()] or old


def _claimed(old: Volume, new: Volume) -> Volume:
    return old if old.persistent_volume_claim is not None and new.persistent_volume_claim is None else new


def _renewed(old: list[Container] | None, new: list[Container] | None) -> list[Container] | None:
    anew = {one.name: one for one in new or ()}
    stay = [_updated(one, anew.pop(one.name)) if one.name in anew else one for one in old or ()]
    return [*stay, *anew.values()] or old


def _updated(old: Container, new: Container) -> Container:
    asked = _merged(new.resources.limits, new.resources.requests)  # a limit is a request, where there is none
    resources = replace(
        old.resources,
        requests=_merged(old.resources.requests, asked),
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
