"""Facts: everything that the decision about one job's next step reads, and nothing else.

Goes in: what was read from the API server or from informers. Comes out: one value. The same facts have three types, by
how far the move has come, so that a rule can only be asked where its answer exists:

    Facts                                   what was read, about any job
    ├── FactsBeforeEviction                 the migrating pod exists and is not terminating      (facts_before)
    │   └── SeatFacts                       ... and so does the reservation for its successor    (facts_before)
    └── FactsAfterEviction                  the migrating pod is terminating or gone             (facts_after)

Facts are fresh when all of them were read from the API server for this very decision; those from caches may be old.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import replace

from restow.migration.conditions import is_evicting
from restow.migration.effective_options import EffectiveOptions
from restow.migration.reservation import is_made_for_job
from restow.migration.successor_seats import SeatKey
from restow.model.objects import (
    Node,
    ObjectReference,
    OwnerReference,
    Pod,
    PodGroup,
    PodMigrationJob,
    PodMigrationJobStatus,
    PodTemplate,
    Reservation,
)
from restow.model.pods import is_terminating

N = TypeVar("N", bound="Facts")


class WriteAnswer(msgspec.Struct, frozen=True):
    """The answer of the API server, of a limit or of the stop switch to a write that we want to send."""

    is_allowed: bool
    message: str = ""
    retry_after: float = 0.0
    """Seconds after which the answer may be another one; 0 if that is not known."""
    is_final: bool = False
    """Whether the answer will be the same however often the write is sent."""


class PredictedSeat(msgspec.Struct, frozen=True):
    """The node that a seat would be on, were its reservation created now; or the reason why no node fits."""

    node: str = ""
    reason: str = ""


class Objections(msgspec.Struct, frozen=True):
    """What speaks against evicting the pod of an admitted job now, each as a sentence; None where nothing does."""

    forbidden: str | None = None
    """Why the pod may never be evicted, by what it is and by what is configured."""
    missing_information: str | None = None
    """The objects that have to be known to rule that out, and are not."""
    waits_for_order: str | None = None
    """Why the pod's StatefulSet would not create its successor now: pods of lower ordinals are not Ready."""
    workload_unavailable: str | None = None
    """Why the workload cannot spare the pod now: too many of its other replicas are unavailable."""


NO_OBJECTIONS = Objections()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about one job and its pod."""

    job: PodMigrationJob
    options: EffectiveOptions
    now: float
    pod: Pod | None = None
    """The pod with the UID that the job names, if there is one; else the pod of that name."""
    owner_chain: tuple[OwnerReference, ...] = ()
    """The controller of the pod, its controller, and so on."""
    workload_uid: str | None = None
    """The UID of the workload that the pod is a replica of."""
    reservation: Reservation | None = None
    """The reservation that the job refers to, or else the one that is named after the job."""
    consumers: tuple[Pod, ...] = ()
    """The pods that consumed a seat, by the reservation or by the job, as far as they exist."""
    foreign_consumers: frozenset[str] = frozenset()
    """UIDs of consumers that are not this job's successor: they are of other jobs or workloads, or came too early."""
    # What is expected of the successor.
    successor_template: PodTemplate | None = None
    """The template that the pod's controller creates pods from now, as far as it is known."""
    successor_queue: str | None = None
    successor_group: PodGroup | None = None
    gang_problem: str | None = None
    """Why the scheduler would not schedule the successor as a member of its gang."""
    named_reservation: str | None = None
    """The reservation that the successor or its PodGroup asks for by name."""
    # What was read about the seats of the reservation.
    nodes: Mapping[str, Node | None] = {}
    """The nodes of the seats, as far as they were read; None for a node that is gone."""
    rejected_seats: Mapping[SeatKey, str] = {}
    """The seats that the scheduler's filters would refuse to the successor now, each with the reason, as far as the
    filters were asked."""
    earlier_reservation: str | None = None
    """Another reservation that the scheduler would look at first, and of which it would give the successor a seat."""
    jobs_ahead: tuple[str, ...] = ()
    """Other jobs that use the same reservation, have no successor in it yet, and take their seats first."""
    # What speaks against the eviction.
    objections: Objections = NO_OBJECTIONS
    conflicting_job: str | None = None
    """Another job that moves the same pod and comes first."""
    stop_reason: str | None = None
    """Why evictions are stopped everywhere, if they are."""
    rate_limit: WriteAnswer | None = None
    """Whether the eviction rate limit lets this job evict now; None if it was not asked yet."""
    eviction_dry_run: WriteAnswer | None = None
    """The API server's answer to a dry run of the eviction; None if it was not asked yet."""
    predicted_seat: PredictedSeat | None = None
    """The seat that the reservation of a dry-run job would get."""
    # What has become of our own writes.
    eviction_unsent: bool = False
    """Whether the eviction that is recorded in the job's status was certainly not sent."""
    refusal: WriteAnswer | None = None
    """The API server's refusal of the write that was decided on last."""
    is_fresh: bool = False

    def with_status(self, status: PodMigrationJobStatus) -> Self:
        """The same facts, were this the status of the job."""
        return replace(self, job=replace(self.job, status=status))

    # --- the migrating pod --------------------------------------------------------------------------------------------

    @property
    def pod_uid(self) -> str:
        return self.job.spec.pod_ref.uid or ""

    @property
    def pod_name(self) -> str:
        """Namespace and name, as the job has them."""
        reference = self.job.spec.pod_ref
        return f"{reference.namespace}/{reference.name}"

    @property
    def migrating_pod(self) -> Pod | None:
        """The pod with the UID that the job names, while it exists."""
        return self.pod if self.pod is not None and self.pod.metadata.uid == self.pod_uid else None

    @property
    def has_left(self) -> bool:
        """Whether the migrating pod is terminating or gone, whether we evicted it or another client deleted it."""
        return self.migrating_pod is None or is_terminating(self.migrating_pod)

    @property
    def is_evicting(self) -> bool:
        return is_evicting(self.job.status)

    # --- the reservation ----------------------------------------------------------------------------------------------

    @property
    def reservation_reference(self) -> ObjectReference | None:
        """The reservation that the job's spec names."""
        options = self.job.spec.reservation_options
        return options.reservation_ref if options else None

    @property
    def owns_reservation(self) -> bool:
        """Whether the reservation was created for this job, and not given to it by a user."""
        return self.reservation is not None and is_made_for_job(self.reservation, self.job)


def narrow_facts(facts: Facts, narrower: type[N], **known: Any) -> N:
    """The same facts as a narrower type, of which some fields are known not to be None."""
    return narrower(**({name: getattr(facts, name) for name in facts.__struct_fields__} | known))
