"""Pods: everything scheduling, migration and the kubelets' reports say about them."""

from __future__ import annotations

from typing import Any

from msgspec import field

from restow.model.objects.base import (
    ApiStruct,
    Condition,
    Labels,
    ObjectMeta,
    Quantities,
    QuantityText,
    SelectorRequirement,
    SelectorSpec,
    Time,
)


class ResourceClaimName(ApiStruct):
    """The name of a resource claim of the pod that a container uses."""

    name: str = ""


class ResourceRequirements(ApiStruct):
    requests: Quantities | None = None
    limits: Quantities | None = None
    claims: list[ResourceClaimName] | None = None


class ContainerPort(ApiStruct):
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = field(name="hostIP", default=None)
    name: str | None = None


class ContainerRestartRule(ApiStruct):
    """What happens when a container ends in some way."""

    action: str = ""


class Container(ApiStruct):
    """A container or init container; an init container with restartPolicy Always is a sidecar."""

    name: str = ""
    image: str | None = None
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None


class NodeSelectorTerm(ApiStruct):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(ApiStruct):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(ApiStruct):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct):
    required: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[PreferredSchedulingTerm] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(ApiStruct):
    """Which pods, in which namespaces, within which domain of nodes."""

    topology_key: str = ""
    label_selector: SelectorSpec | None = None
    namespaces: list[str] | None = None
    namespace_selector: SelectorSpec | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(ApiStruct):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct):
    """Attraction to, or as podAntiAffinity repulsion from, other pods."""

    required: list[PodAffinityTerm] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[WeightedPodAffinityTerm] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(ApiStruct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiStruct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiStruct):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: SelectorSpec | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ClaimVolume(ApiStruct):
    claim_name: str = ""
    read_only: bool | None = None


class VolumeResources(ApiStruct):
    requests: Quantities | None = None
    limits: Quantities | None = None


class PersistentVolumeClaimSpec(ApiStruct):
    access_modes: list[str] | None = None
    selector: SelectorSpec | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(ApiStruct):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class HostPathVolume(ApiStruct):
    path: str = ""
    type: str | None = None


class EmptyDirVolume(ApiStruct):
    medium: str | None = None
    size_limit: QuantityText | None = None


class GcePersistentDisk(ApiStruct):
    pd_name: str = ""
    read_only: bool | None = None


class AwsElasticBlockStore(ApiStruct):
    volume_id: str = field(name="volumeID", default="")
    read_only: bool | None = None


class RbdVolume(ApiStruct):
    monitors: list[str] | None = None
    image: str = ""
    pool: str | None = None
    read_only: bool | None = None


class IscsiVolume(ApiStruct):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool | None = None


class CsiInlineVolume(ApiStruct):
    driver: str = ""


class ImageVolume(ApiStruct):
    reference: str | None = None


class Volume(ApiStruct):
    """A volume of a pod; only the sources that constrain where it may run, or whether it may move, are read."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    host_path: HostPathVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    rbd: RbdVolume | None = None
    iscsi: IscsiVolume | None = None
    csi: CsiInlineVolume | None = None
    image: ImageVolume | None = None


class PodResourceClaim(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGate(ApiStruct):
    name: str = ""


class SchedulingGroup(ApiStruct):
    """Membership in a native scheduling.k8s.io pod group."""

    pod_group_name: str | None = None


class PodOS(ApiStruct):
    name: str = ""


class EphemeralContainer(ApiStruct):
    """A container added to a running pod to look into it; it never asks for resources."""

    name: str = ""
    image: str | None = None


class PodSpec(ApiStruct):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[EphemeralContainer] | None = None
    volumes: list[Volume] | None = None
    node_name: str | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    os: PodOS | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    hostname: str | None = None
    subdomain: str | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class ContainerStateWaiting(ApiStruct):
    reason: str | None = None


class ContainerStateTerminated(ApiStruct):
    reason: str | None = None
    exit_code: int | None = None


class ContainerState(ApiStruct):
    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(ApiStruct):
    name: str = ""
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class PodStatus(ApiStruct):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[Condition] | None = None
    nominated_node_name: str | None = None
    start_time: Time | None = None
    qos_class: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None
    observed_generation: int | None = None


class Pod(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplate(ApiStruct):
    """What the pods of a workload look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class BindingTarget(ApiStruct):
    api_version: str = "v1"
    kind: str = "Node"
    name: str = ""


class Binding(ApiStruct, omit_defaults=False):
    """What is posted to pods/binding; its annotations land on the pod in the same write."""

    metadata: dict[str, Any]
    target: BindingTarget
    api_version: str = "v1"
    kind: str = "Binding"
