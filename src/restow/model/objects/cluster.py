"""Cluster-wide objects: nodes, namespaces, events, leases, priorities, disruption budgets, metrics and definitions."""

from __future__ import annotations

from typing import Any

from msgspec import field

from restow.model.objects.base import (
    ApiStruct,
    Condition,
    IntOrString,
    Labels,
    MicroTime,
    ObjectMeta,
    ObjectReference,
    Quantities,
    SelectorSpec,
    Time,
)


class Taint(ApiStruct):
    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(ApiStruct):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    provider_id: str | None = field(name="providerID", default=None)


class ContainerImage(ApiStruct):
    names: list[str] | None = None
    size_bytes: int | None = None


class NodeAddress(ApiStruct):
    type: str = ""
    address: str = ""


class NodeSystemInfo(ApiStruct):
    kubelet_version: str | None = None
    os_image: str | None = None
    operating_system: str | None = None
    architecture: str | None = None


class NodeStatus(ApiStruct):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    images: list[ContainerImage] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeSystemInfo | None = None
    volumes_in_use: list[str] | None = None
    declared_features: list[str] | None = None


class Node(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceSpec(ApiStruct):
    finalizers: list[str] | None = None


class NamespaceStatus(ApiStruct):
    phase: str | None = None
    conditions: list[Condition] | None = None


class Namespace(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class EventSource(ApiStruct):
    component: str | None = None
    host: str | None = None


class EventSeries(ApiStruct):
    count: int | None = None
    last_observed_time: MicroTime | None = None


class Event(ApiStruct):
    """A core/v1 event: what happened to `involved_object`."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    action: str | None = None
    count: int | None = None
    series: EventSeries | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: MicroTime | None = None
    source: EventSource | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


class ConfigMap(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


class ServiceSpec(ApiStruct):
    selector: Labels | None = None
    type: str | None = None
    cluster_ip: str | None = field(name="clusterIP", default=None)


class Service(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class LeaseSpec(ApiStruct):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None


class Lease(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class PriorityClass(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None
    description: str | None = None


class PodDisruptionBudgetSpec(ApiStruct):
    selector: SelectorSpec | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, Time | None] | None = None
    observed_generation: int | None = None
    conditions: list[Condition] | None = None


class PodDisruptionBudget(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PodUnavailableBudgetSpec(ApiStruct):
    selector: SelectorSpec | None = None
    target_ref: ObjectReference | None = None


class PodUnavailableBudgetStatus(ApiStruct):
    unavailable_allowed: int = 0
    current_available: int = 0
    desired_available: int = 0
    total_replicas: int = 0
    disrupted_pods: dict[str, Time | None] | None = None
    unavailable_pods: dict[str, Time | None] | None = None
    observed_generation: int | None = None


class PodUnavailableBudget(ApiStruct):
    """OpenKruise's budget, which also counts pods that are deleted or changed in place; read where its CRD exists."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodUnavailableBudgetSpec = PodUnavailableBudgetSpec()
    status: PodUnavailableBudgetStatus = PodUnavailableBudgetStatus()


class ContainerMetrics(ApiStruct):
    name: str = ""
    usage: Quantities | None = None


class PodMetrics(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    timestamp: Time | None = None
    window: str | None = None
    containers: list[ContainerMetrics] | None = None


class NodeMetrics(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    timestamp: Time | None = None
    window: str | None = None
    usage: Quantities | None = None


class DefinitionNames(ApiStruct):
    plural: str = ""
    singular: str | None = None
    kind: str = ""
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class DefinitionVersion(ApiStruct):
    name: str = ""
    served: bool = True
    storage: bool = True
    schema: dict[str, Any] | None = None
    subresources: dict[str, Any] | None = None
    additional_printer_columns: list[dict[str, Any]] | None = None


class CustomResourceDefinitionSpec(ApiStruct):
    group: str = ""
    names: DefinitionNames = DefinitionNames()
    scope: str = ""
    versions: list[DefinitionVersion] | None = None


class CustomResourceDefinitionStatus(ApiStruct):
    conditions: list[Condition] | None = None
    accepted_names: DefinitionNames | None = None
    stored_versions: list[str] | None = None


class CustomResourceDefinition(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
