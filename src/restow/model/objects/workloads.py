"""Workloads: the objects whose controllers create pods again after an eviction."""

from __future__ import annotations

from restow.model.objects.base import ApiStruct, Condition, IntOrString, Labels, ObjectMeta, SelectorSpec, Time
from restow.model.objects.pod import PersistentVolumeClaimTemplate, PodTemplate


class ReplicaSetSpec(ApiStruct):
    replicas: int | None = None
    selector: SelectorSpec | None = None
    template: PodTemplate = PodTemplate()
    min_ready_seconds: int | None = None


class ReplicaSetStatus(ApiStruct):
    replicas: int = 0
    fully_labeled_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    observed_generation: int | None = None
    conditions: list[Condition] | None = None


class ReplicaSet(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(ApiStruct):
    replicas: int | None = None
    selector: Labels | None = None
    template: PodTemplate | None = None


class ReplicationController(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdate(ApiStruct):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: int | None = None


class UpdateStrategy(ApiStruct):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(ApiStruct):
    replicas: int | None = None
    selector: SelectorSpec | None = None
    template: PodTemplate = PodTemplate()
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    paused: bool | None = None


class DeploymentStatus(ApiStruct):
    replicas: int | None = None
    updated_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    unavailable_replicas: int | None = None
    observed_generation: int | None = None
    conditions: list[Condition] | None = None


class Deployment(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetOrdinals(ApiStruct):
    start: int = 0


class StatefulSetSpec(ApiStruct):
    replicas: int | None = None
    selector: SelectorSpec | None = None
    template: PodTemplate = PodTemplate()
    service_name: str | None = None
    pod_management_policy: str | None = None
    update_strategy: UpdateStrategy = UpdateStrategy()
    volume_claim_templates: list[PersistentVolumeClaimTemplate] | None = None
    min_ready_seconds: int | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(ApiStruct):
    replicas: int = 0
    ready_replicas: int | None = None
    current_replicas: int | None = None
    updated_replicas: int | None = None
    available_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    observed_generation: int | None = None
    conditions: list[Condition] | None = None


class StatefulSet(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(ApiStruct):
    selector: SelectorSpec | None = None
    template: PodTemplate = PodTemplate()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int | None = None


class DaemonSetStatus(ApiStruct):
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int | None = None
    number_unavailable: int | None = None
    updated_number_scheduled: int | None = None
    observed_generation: int | None = None
    conditions: list[Condition] | None = None


class DaemonSet(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class PodConditionPattern(ApiStruct):
    type: str = ""
    status: str = "True"


class ExitCodes(ApiStruct):
    container_name: str | None = None
    operator: str = ""
    values: list[int] | None = None


class PodFailureRule(ApiStruct):
    """The action for a Job when a pod fails in this way; the first matching rule decides."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: list[PodConditionPattern] | None = None


class PodFailurePolicy(ApiStruct):
    rules: list[PodFailureRule] | None = None


class JobSpec(ApiStruct):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool | None = None
    selector: SelectorSpec | None = None
    template: PodTemplate = PodTemplate()


class UncountedTerminatedPods(ApiStruct):
    """UIDs of pods that are over, noted to be counted: each goes from here into the number exactly once."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class JobStatus(ApiStruct):
    active: int | None = None
    ready: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    conditions: list[Condition] | None = None


class Job(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
