"""Shapes: everything that scheduling reads of a pod's spec, in one canonical form that equal pods share.

Goes in: a Pod. Comes out: its `Shape`, the same object for every pod with a spec that means the same to scheduling,
however it is written ("1" or "1000m" of cpu, any order of tolerations) and whatever else differs (names, host names,
token volumes, grace periods). A shape carries what is computed once for all of them: requests, host ports, the node
constraint, the selectors it reads other pods with. Labels and namespace are not part of it: see `pod_classes`.

A shape lives as long as it is held, so pods of one-off shapes (each with its own volume claim) leave no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from restow.model.affinity import NodeConstraint, node_constraint
from restow.model.cluster.resource_columns import Amounts, ResourceColumns
from restow.model.match_label_keys import keys_of
from restow.model.objects import (
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    Toleration,
    Volume,
)
from restow.model.resources import PODS, is_sidecar, pod_requests, scored_requests

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode

_RESIZING = "PodResizePending"

HostPort = tuple[str, str, int]
"""(address, protocol, port); the address 0.0.0.0 means every address."""


class SelectorScope(msgspec.Struct, frozen=True, gc=False):
    """Which label keys of which pods a selector reads: pods of the listed namespaces, of the pod's own, or of all."""

    keys: frozenset[str]
    namespaces: tuple[str, ...] = ()
    own_namespace: bool = False
    all_namespaces: bool = False


class ShapeFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The canonical form: pods with equal fields are equal to every filter and score, but for labels and namespace."""

    requests: dict[str, int]
    scored: dict[str, int]
    containers: int
    images: tuple[str, ...]
    ports: tuple[HostPort, ...]
    tolerations: tuple[Toleration, ...]
    volumes: tuple[Volume, ...]
    spec: PodSpec
    features: tuple[str, ...] = ()
    """The features that a node must declare, sorted."""
    pod_name: str | None = None


class Shape:
    """What pods that are equal to scheduling have in common. Compared by identity."""

    def __init__(self, number: int, facts: ShapeFields, resources: ResourceColumns, base: Shape | None = None) -> None:
        self.number = number
        self.fields = facts
        self._base = base
        self._resources = resources
        self._unlisted_resources = resources.unlisted_resources(facts.requests)
        for resource in self._unlisted_resources:
            resource.numbered_by.add(self)
        self.renumber()

    def renumber(self) -> None:
        """Write the requests with the numbers that resources have now."""
        self.amounts: Amounts = self._resources.amounts({**self.fields.requests, PODS: 1})
        self.scored: Amounts = self._resources.amounts(self.fields.scored)

    @property
    def base(self) -> Shape:
        """The same shape without its volumes: shared by pods that differ only in the claims that they use."""
        return self._base or self

    @property
    def spec(self) -> PodSpec:
        """The constraints as written; containers, tolerations and volumes are in `fields`."""
        return self.fields.spec

    @cached_property
    def constraint(self) -> NodeConstraint:
        return node_constraint(self.spec)

    @cached_property
    def selector_scopes(self) -> tuple[SelectorScope, ...]:
        """Everything that the selectors of the pod read of other pods."""
        return tuple(_selector_scopes(self.spec))

    @cached_property
    def is_namespace_bound(self) -> bool:
        """Whether the spec means different things in different namespaces, by naming objects or pods of its own."""
        spec = self.spec
        named = any(volume.persistent_volume_claim or volume.ephemeral for volume in self.fields.volumes)
        own = any(reading.own_namespace for reading in self.selector_scopes)
        return named or own or bool(spec.resource_claims or spec.scheduling_group)

    def __repr__(self) -> str:
        return f"Shape({self.number}, {self.fields.requests})"


class Shapes:
    """Interned shapes, behind a quick look-up by the relevant bytes of a pod as written."""

    __slots__ = ("_as_written", "_canonical", "_made", "resources")

    def __init__(self, resources: ResourceColumns) -> None:
        self.resources = resources
        self._as_written: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._canonical: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._made = 0

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod. Raises QuantityError when a request cannot be read."""
        written = _written(pod)
        shape = self._as_written.get(written)
        if shape is None:
            shape = self._as_written[written] = self._intern(self._facts_of(pod))
        return shape

    def _facts_of(self, pod: Pod) -> ShapeFields:
        """`shape_fields_of`; what pods that differ only in their claims have in common is read once."""
        volumes = _volumes(pod.spec)
        if not volumes or any(volume.image for volume in volumes):
            return shape_fields_of(pod)
        bare = self.of(replace(pod, spec=replace(pod.spec, volumes=None)))
        return replace(bare.fields, volumes=_nameless(volumes), pod_name=_name_if_read(pod, volumes))

    def _intern(self, facts: ShapeFields) -> Shape:
        key = _encode(facts)
        shape = self._canonical.get(key)
        if shape is None:
            base = self._intern(replace(facts, volumes=(), pod_name=None)) if facts.volumes else None
            shape = self._canonical[key] = Shape(self._made, facts, self.resources, base)
            self._made += 1
        return shape


def shape_fields_of(pod: Pod) -> ShapeFields:
    """Everything that scheduling reads of a pod but its labels and namespace."""
    spec = pod.spec
    volumes = _volumes(spec)
    return ShapeFields(
        requests=pod_requests(pod),
        scored=scored_requests(pod),
        containers=len(spec.containers or ()) + len(spec.init_containers or ()),
        images=tuple(sorted(_images(spec))),
        ports=tuple(sorted(set(_ports(spec)))),
        tolerations=_tolerations(spec.tolerations),
        volumes=_nameless(volumes),
        spec=replace(spec, **_UNREAD, **_IN_FACTS),
        features=tuple(sorted(_features(spec))),
        pod_name=_name_if_read(pod, volumes),
    )


_IN_FACTS: Final[dict[str, Any]] = dict.fromkeys(
    ["containers", "init_containers", "volumes", "tolerations", "overhead", "resources", "host_network", "host_users"]
)
_UNREAD: Final[dict[str, Any]] = dict.fromkeys(
    [
        "node_name",
        "hostname",
        "subdomain",
        "restart_policy",
        "termination_grace_period_seconds",
        "active_deadline_seconds",
        "priority_class_name",
        "runtime_class_name",
    ]
)


_read: Final = attrgetter(*(name for name in PodSpec.__struct_fields__ if name not in {"volumes", *_UNREAD}))


def _written(pod: Pod) -> bytes:
    """The bytes that decide the shape, cheap to make: `shape_fields_of` must not read anything that is not in them."""
    spec, status = pod.spec, pod.status
    volumes = _volumes(spec) if spec.volumes else []
    name = _name_if_read(pod, volumes) if volumes or spec.resource_claims else None
    return _encode((_read(spec), volumes, _reported(status) if _reports(status) else None, name))


def are_surely_alike(pod: Pod, other: Pod) -> bool:
    """Whether two pods certainly have one shape, as pending pods of one workload have; much faster than to work out
    the shapes. False where only the shapes would tell."""
    if _reports(pod.status) or _reports(other.status):
        return False
    mine, others = pod.spec, other.spec
    if mine.volumes or others.volumes:  # the token volume of every pod has a name of its own
        return not (_volumes(mine) or _volumes(others) or mine.resource_claims) and _read(mine) == _read(others)
    return (mine == others or _read(mine) == _read(others)) and not mine.resource_claims


def _reports(status: PodStatus) -> bool:
    """Whether the status of a pod may say anything about its resources."""
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources
        or status.allocated_resources
        or (status.conditions and any(condition.type == _RESIZING for condition in status.conditions))
    )


def _reported(status: PodStatus) -> tuple[object, ...]:
    """What the kubelet reports of resources, which counts while a pod is being resized."""
    containers = [
        (report.name, report.resources, report.allocated_resources)
        for reports in (status.container_statuses, status.init_container_statuses)
        for report in reports or ()
        if report.resources is not None
    ]
    resizing = [condition.reason for condition in status.conditions or () if condition.type == _RESIZING]
    return containers, resizing, status.resources, status.allocated_resources


def _volumes(spec: PodSpec) -> list[Volume]:
    """The volumes that constrain where a pod runs, or are images that it pulls."""
    return [volume for volume in spec.volumes or () if _constrains(volume)]


def _nameless(volumes: Iterable[Volume]) -> tuple[Volume, ...]:
    return tuple(sorted((replace(volume, name="") for volume in volumes), key=_encode))


def _constrains(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.csi is not None
        or volume.image is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def _name_if_read(pod: Pod, volumes: Iterable[Volume]) -> str | None:
    """The name of the pod where scheduling reads it: claims of ephemeral volumes and of claim templates contain it."""
    generated = bool(pod.spec.resource_claims) or any(volume.ephemeral for volume in volumes)
    return pod.metadata.name if generated else None


def _images(spec: PodSpec) -> Iterator[str]:
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.image:
            yield container.image
    for volume in spec.volumes or ():
        if volume.image and volume.image.reference:
            yield volume.image.reference


def _ports(spec: PodSpec) -> Iterator[HostPort]:
    """The host ports of containers that keep running; on the host network every container port is a host port."""
    sidecars = [container for container in spec.init_containers or () if is_sidecar(container)]
    for container in (*(spec.containers or ()), *sidecars):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else None)
            if number:
                yield port.host_ip or "0.0.0.0", port.protocol or "TCP", number


def _features(spec: PodSpec) -> Iterator[str]:
    """The kubelet features that Kubernetes 1.36 infers from a pod."""
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(
        rule.action == "RestartAllContainers"
        for container in containers
        for rule in container.restart_policy_rules or ()
    ):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"


def _tolerations(written: list[Toleration] | None) -> tuple[Toleration, ...]:
    """The tolerations sorted, without tolerationSeconds, which only matter to running pods."""
    alike = {
        (
            toleration.key or "",
            toleration.operator or "Equal",
            toleration.value or "",
            toleration.effect or "",
        ): toleration
        for toleration in written or ()
    }
    return tuple(
        Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in sorted(alike)
    )


def _selector_scopes(spec: PodSpec) -> Iterator[SelectorScope]:
    for constraint in spec.topology_spread_constraints or ():
        keys = keys_of(constraint.label_selector) | frozenset(constraint.match_label_keys or ())
        yield SelectorScope(keys, own_namespace=True)
    for term in _affinity_terms(spec):
        keys = keys_of(term.label_selector) | {*(term.match_label_keys or ()), *(term.mismatch_label_keys or ())}
        named = tuple(sorted(set(term.namespaces or ())))
        everywhere = term.namespace_selector is not None
        yield SelectorScope(keys, named, own_namespace=not named and not everywhere, all_namespaces=everywhere)


def _affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    for side in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ():
        if side is not None:
            yield from side.required or ()
            yield from (weighted.pod_affinity_term for weighted in side.preferred or ())
