"""Our four custom kinds: Reservation, Queue, PodGroup and PodMigrationJob.

Groups, names and fields are those of Volcano's and Koordinator's design documents, with optional additions.
Enumerations are checked by the CRD schema, not when decoding, because an upstream CRD of the same name may already be
installed and allow more.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, field

from restow.model.objects.base import (
    ApiStruct,
    Condition,
    Count,
    Duration,
    ObjectMeta,
    ObjectReference,
    Quantities,
    SelectorSpec,
    Time,
)
from restow.model.objects.pod import PodTemplate


class ReservationPhase(StrEnum):
    """Pending -> Waiting -> Available -> Succeeded; Failed from any of the first three.

    Pending is not placed; Waiting is placed onto room that terminating pods are still leaving; Available holds at
    least minAvailable tasks; Succeeded means every task was consumed.
    """

    PENDING = "Pending"
    WAITING = "Waiting"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class MatchPolicy(StrEnum):
    """Which pods match a reserved task: those with the same spec, or all that fit in place of the seat."""

    TEMPLATE = "Template"
    FITS = "Fits"


class JobMode(StrEnum):
    RESERVATION_FIRST = "ReservationFirst"
    EVICT_DIRECTLY = "EvictDirectly"


class JobPhase(StrEnum):
    """Pending -> Running -> Succeed | Failed; Aborted when a user writes it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    ABORTED = "Aborted"


class JobConditionType(StrEnum):
    """The steps of a move. The times of the first two say since when a job is admitted, and how long it was paused.

    A job's `lastProbeTime` of Paused lies as far before its `lastTransitionTime` as the job had been paused until then;
    that of Eviction is when the pod was evicted, or about to be, the last time it was tried.
    """

    ADMITTED = "Admitted"
    PAUSED = "Paused"
    RESERVATION_CREATED = "ReservationCreated"
    RESERVATION_SCHEDULED = "ReservationScheduled"
    PREEMPTION = "Preemption"
    EVICTION = "Eviction"
    POD_SCHEDULED = "PodScheduled"
    POD_BOUND_RESERVATION = "PodBoundReservation"
    RESERVATION_BOUND = "ReservationBound"
    BOUND_POD_READY = "BoundPodReady"
    COMPLETE = "Complete"


ENDED = frozenset({JobPhase.SUCCEED, JobPhase.FAILED, JobPhase.ABORTED})
"""The phases in which a job stays."""


class JobReason(StrEnum):
    TIMEOUT = "Timeout"
    FAILED_CREATE_RESERVATION = "FailedCreateReservation"
    UNSCHEDULABLE = "Unschedulable"
    MISSING_POD = "MissingPod"
    MISSING_RESERVATION = "MissingReservation"
    PREEMPTING = "Preempting"
    PREEMPT_COMPLETE = "PreemptComplete"
    EVICTING = "Evicting"
    FAILED_EVICT = "FailedEvict"
    EVICT_COMPLETE = "EvictComplete"
    WAIT_FOR_POD_BIND_RESERVATION = "WaitForPodBindReservation"
    FORBIDDEN_MIGRATE_POD = "ForbiddenMigratePod"
    RESERVATION_EXPIRED = "ReservationExpired"
    WAIT_FOR_BOUND_POD_READY = "WaitForBoundPodReady"
    INVALID_POD_REF = "InvalidPodRef"
    INVALID_SPEC = "InvalidSpec"
    ROOM_TAKEN = "RoomTaken"
    ABORTED = "Aborted"
    DRY_RUN = "DryRun"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    IN_DOUBT = "InDoubt"
    LOCK_RELEASED = "LockReleased"
    EVICT_QPS = "EvictQPS"
    WITHDRAWN = "Withdrawn"
    NEWS = "News"
    GANG = "Gang"
    ORDER = "Order"
    MAX_UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"


class QueueState(StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class GuaranteePolicy(StrEnum):
    BEST_EFFORT = "Best-Effort"
    GUARANTEED = "Guaranteed"


class PodGroupPhase(StrEnum):
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


def _one_of(values: type[StrEnum]) -> Any:
    return Meta(extra_json_schema={"enum": [str(value) for value in values]})


# --- Reservation ------------------------------------------------------------------------------------------------------


class ReservationOwner(ApiStruct):
    """The pods that may consume a reservation; the fields of one entry are ORed, and so are the entries."""

    object: ObjectReference | None = None
    label_selector: SelectorSpec | None = None
    controller: ObjectReference | None = None


class TaskSpec(ApiStruct):
    """A number of equal seats: `replicas` pods of `template`, preferably on `reservationNodeNames`, in that order."""

    name: str = ""
    replicas: Count | None = None
    template: PodTemplate = PodTemplate()
    reservation_node_names: list[str] | None = None


class ReservationSpec(ApiStruct):
    scheduler_name: str | None = None
    min_available: Count | None = None
    tasks: list[TaskSpec] | None = None
    queue: str | None = None
    owners: list[ReservationOwner] | None = None
    ttl: Duration | None = None
    expires: Time | None = None
    match_policy: Annotated[str, _one_of(MatchPolicy)] | None = None


class ReservationState(ApiStruct):
    phase: Annotated[str, _one_of(ReservationPhase)] | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class ReservationCondition(ApiStruct):
    """When a phase was last entered and why; `status` names the phase, and there is one entry per phase."""

    status: Annotated[str, _one_of(ReservationPhase)]
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class TaskState(ApiStruct):
    """How many seats of one task are in each phase."""

    phase: dict[str, Count] | None = None


class Placement(ApiStruct):
    """The node of seat `index` of `task`, and the pod that consumed it."""

    task: str
    index: Count
    node_name: str
    pod_ref: ObjectReference | None = None


class ReservationStatus(ApiStruct):
    state: ReservationState = ReservationState()
    min_available: Count | None = None
    task_status_count: dict[str, TaskState] | None = None
    pending: Count | None = None
    available: Count | None = None
    succeeded: Count | None = None
    failed: Count | None = None
    conditions: Annotated[list[ReservationCondition], Meta(extra={"list_map_keys": ["status"]})] | None = None
    current_owner: ObjectReference | None = None
    current_owners: list[ObjectReference] | None = None
    allocatable: Quantities | None = None
    allocated: Quantities | None = None
    placements: list[Placement] | None = None
    """At most one per seat."""
    observed_generation: int | None = None
    observed_owners: list[ReservationOwner] | None = None
    """Owners whose pods may have taken a seat before that was recorded: annotations of their pods are trusted, also
    after the owners in the spec have changed."""
    observed_requests: dict[str, Quantities] | None = None
    """The requests that a seat of each task was admitted with: an increase in the spec is measured against them."""
    observed_queue: str | None = None
    """The queue that the seats are charged to; the default queue if the reservation names none."""


class Reservation(ApiStruct):
    """Seats on nodes that are held for pods that do not exist yet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReservationSpec = ReservationSpec()
    status: Annotated[ReservationStatus, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})] = (
        ReservationStatus()
    )
    """Written as a whole, by a single writer: an API server need not track the managers of its fields."""


class ReservationTemplate(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReservationSpec = ReservationSpec()


# --- Queue ------------------------------------------------------------------------------------------------------------


class GuaranteePercentage(ApiStruct):
    """A share of the cluster's nodes, compared in `dimensions`."""

    dimensions: list[str] | None = None
    value: Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})] | None = None


class Guarantee(ApiStruct):
    """The resources that are kept for a queue: a share of the nodes, an amount, or the larger of both."""

    policy: Annotated[str, _one_of(GuaranteePolicy)] | None = None
    percentage: GuaranteePercentage | None = None
    resource: Quantities | None = None


class QueueSpec(ApiStruct):
    weight: (
        Annotated[int, Meta(extra={"format": "int32"}, extra_json_schema={"minimum": 1, "maximum": 65535})] | None
    ) = None
    capability: Quantities | None = None
    reclaimable: bool | None = None
    guarantee: Guarantee | None = None
    deserved: Quantities | None = None
    priority: Count | None = None
    parent: str | None = None


class QueueReservation(ApiStruct):
    """The nodes that are locked for a queue's guarantee, and the idle resources on them."""

    nodes: list[str] | None = None
    resource: Quantities | None = None


class QueueStatus(ApiStruct):
    state: Annotated[str, _one_of(QueueState)] | None = None
    unknown: Count | None = None
    pending: Count | None = None
    running: Count | None = None
    inqueue: Count | None = None
    completed: Count | None = None
    reservation: QueueReservation | None = None
    accepted_guarantee: Guarantee | None = None
    """The guarantee as it was last accepted."""
    allocated: Quantities | None = None
    conditions: Annotated[list[Condition], Meta(extra={"list_map_keys": ["type"]})] | None = None


class Queue(ApiStruct):
    """A share of the cluster that jobs and reservations are charged to."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


# --- PodGroup ---------------------------------------------------------------------------------------------------------


class PodGroupSpec(ApiStruct):
    min_member: Count | None = None
    min_task_member: dict[str, Count] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: Quantities | None = None


class PodGroupCondition(ApiStruct):
    type: str | None = None
    status: str | None = None
    transition_id: str | None = field(name="transitionID", default=None)
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class PodGroupStatus(ApiStruct):
    phase: Annotated[str, _one_of(PodGroupPhase)] | None = None
    conditions: list[PodGroupCondition] | None = None
    running: Count | None = None
    succeeded: Count | None = None
    failed: Count | None = None


class PodGroup(ApiStruct):
    """A gang: pods that are bound together or not at all."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# --- PodMigrationJob --------------------------------------------------------------------------------------------------


class PreemptionOptions(ApiStruct):
    """Reserved by the design; always empty."""


class ReservationOptions(ApiStruct):
    reservation_ref: ObjectReference | None = None
    template: ReservationTemplate | None = None
    preemption_options: PreemptionOptions | None = None


class Preconditions(ApiStruct):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(ApiStruct):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None
    orphan_dependents: bool | None = None
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class PodMigrationJobSpec(ApiStruct):
    pod_ref: Annotated[ObjectReference, Meta(extra_json_schema={"required": ["name", "namespace"]})]
    paused: bool | None = None
    ttl: Duration | None = None
    mode: Annotated[str, _one_of(JobMode)] | None = None
    reservation_options: ReservationOptions | None = None
    delete_options: DeleteOptions | None = None


class PodMigrationJobCondition(ApiStruct):
    """One step of the move; JobConditionType names those of the design, and there is at most one entry per type."""

    type: str
    status: Annotated[str, _one_of(ConditionStatus)]
    reason: str | None = None
    message: str | None = None
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None


class PreemptedReservation(ApiStruct):
    namespace: str | None = None
    name: str | None = None
    node_name: str | None = None
    phase: str | None = None
    preempted_pod_ref: ObjectReference | None = None
    pods_ref: list[ObjectReference] | None = None


class PodMigrationJobStatus(ApiStruct):
    """The progress of the move; `nodeName` is the target, `status` the condition updated last, or Complete."""

    phase: Annotated[str, _one_of(JobPhase)] | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: Annotated[list[PodMigrationJobCondition], Meta(extra={"list_map_keys": ["type"]})] | None = None
    node_name: str | None = None
    pod_ref: ObjectReference | None = None
    preempted_pods_ref: list[ObjectReference] | None = None
    preempted_pods_reservation: list[PreemptedReservation] | None = None


class PodMigrationJob(ApiStruct):
    """The move of one pod: reserve a seat, evict the pod, wait until its successor is Ready."""

    spec: PodMigrationJobSpec
    metadata: ObjectMeta = ObjectMeta()
    status: PodMigrationJobStatus = PodMigrationJobStatus()
