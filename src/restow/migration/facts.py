"""Facts: everything that deciding about one job's next step looks at, and nothing else.

Goes in: what was read from the API. Comes out: one value, and the questions that can be asked of it. Facts are `fresh`
when all of them were read from the API server for this very decision; those from caches may be old.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import msgspec
from msgspec.structs import replace

from restow.migration.conditions import find_condition, is_evicting
from restow.migration.effective_options import EffectiveOptions
from restow.migration.reservation import is_made_for_job, reservation_name
from restow.migration.successor_seats import (
    SeatKey,
    count_unreliable_seats,
    may_be_taken_first,
    seat_key,
    seats_on_current_node,
    usable_seats,
)
from restow.migration.successor_spec import possible_successors, successor_with_certain_labels
from restow.model.affinity import node_constraint
from restow.model.objects import (
    JobConditionType,
    Node,
    ObjectReference,
    OwnerReference,
    Placement,
    Pod,
    PodGroup,
    PodMigrationJob,
    PodMigrationJobStatus,
    PodTemplate,
    Reservation,
    ReservationPhase,
)
from restow.model.pods import is_terminating
from restow.model.reservations.observed import is_being_deleted
from restow.model.reservations.reservation_annotations import named_seat
from restow.model.taints import UNSCHEDULABLE, untolerated
from restow.model.times import time_of

DEFAULT_GRACE = 30.0
"""Seconds a pod is given to stop where it does not say."""
SKEW = 10.0
"""Seconds by which our clock may be ahead of the API server's, which says when a pod was made, in whole seconds."""
_KEPT = (JobConditionType.RESERVATION_SCHEDULED, JobConditionType.EVICTION)
"""What tells since when a seat was kept: the latter changes once more, when the pod is gone."""


class Permission(msgspec.Struct, frozen=True):
    """What the API server, a limit or a switch said to something that we want to do."""

    is_allowed: bool
    message: str = ""
    retry_after: float = 0.0
    """When it may be otherwise."""
    is_final: bool = False
    """Whether asking again is useless."""


class PredictedSeat(msgspec.Struct, frozen=True):
    """Where a seat would be, were it asked for now; or why nowhere."""

    node: str = ""
    reason: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    job: PodMigrationJob
    options: EffectiveOptions
    now: float
    pod: Pod | None = None
    """The pod with the job's UID, if it is known; else whoever has its name."""
    owner_chain: tuple[OwnerReference, ...] = ()
    """The controller of the pod, its controller, and so on."""
    workload_uid: str | None = None
    """The UID of the workload that the pod is a replica of."""
    successor_template: PodTemplate | None = None
    """What the pod's controller makes pods from now, as far as that is known."""
    successor_queue: str | None = None
    """The queue that whoever takes the pod's place belongs to."""
    successor_group: PodGroup | None = None
    """The PodGroup that it is of."""
    gang_problem: str | None = None
    """What keeps whoever takes the pod's place in its gang from being scheduled."""
    named_reservation: str | None = None
    """The reservation that it, or its PodGroup, asks for by name."""
    reservation: Reservation | None = None
    """The one that the job refers to, or else the one that is named after it."""
    nodes: Mapping[str, Node | None] = {}
    """Where its seats are, as far as they were read; None is gone."""
    rejected_seats: Mapping[SeatKey, str] = {}
    """The seats that the successor would be kept from, were it to come now, each with why, as far as was asked."""
    consumers: tuple[Pod, ...] = ()
    """The pods that the reservation, or the job, names as having taken a seat, as far as they exist."""
    foreign_consumers: frozenset[str] = frozenset()
    """UIDs of pods that are the successors of other jobs, or of other workloads."""
    earlier_reservation: str | None = None
    """Another reservation, of which the successor would take a seat before it takes one of the reservation given."""
    jobs_ahead: tuple[str, ...] = ()
    """Other jobs that were given the same reservation, have no successor in it yet, and come first."""
    forbidden: str | None = None
    """Why the pod may not be moved, by what it is and by what is configured."""
    missing_information: str | None = None
    """What would have to be known of the pod to say so, and is not."""
    waits_for_order: str | None = None
    """Why nobody would be made in the pod's place now: those before it in its set are not Ready."""
    workload_unavailable: str | None = None
    """Why its workload cannot spare it now: so many others of it are missing."""
    conflicting_job: str | None = None
    """Another job that moves the same pod and comes first."""
    eviction_unsent: bool = False
    """Whether the eviction that was written down was certainly not sent."""
    stop_reason: str | None = None
    """Why evictions are stopped everywhere, if they are."""
    rate_limit: Permission | None = None
    """Whether it is this job's turn to evict, by the limits on evictions; not asked yet if None."""
    predicted_seat: PredictedSeat | None = None
    """What would become of its reservation, if that is only rehearsed."""
    eviction_dry_run: Permission | None = None
    """What the API server said to an eviction that was only tried; not asked yet if None."""
    refusal: Permission | None = None
    """What the API server just said to the step decided on before."""
    is_fresh: bool = False

    def with_status(self, status: PodMigrationJobStatus) -> Self:
        """The same facts, were this the status of the job."""
        return replace(self, job=replace(self.job, status=status))

    # --- the pod ------------------------------------------------------------------------------------------------------

    @property
    def pod_uid(self) -> str:
        return self.job.spec.pod_ref.uid or ""

    @property
    def migrating_pod(self) -> Pod | None:
        """The very pod that is to move, while it exists."""
        return self.pod if self.pod is not None and self.pod.metadata.uid == self.pod_uid else None

    @property
    def is_gone(self) -> bool:
        return self.migrating_pod is None

    @property
    def has_left(self) -> bool:
        """Whether the pod is gone or on its way, by whoever's hand."""
        return self.migrating_pod is None or is_terminating(self.migrating_pod)

    @property
    def is_evicting(self) -> bool:
        return is_evicting(self.job.status)

    @property
    def grace(self) -> float:
        """The seconds that the pod may take to stop."""
        if self.options.grace_seconds is not None:
            return float(self.options.grace_seconds)
        assert self.migrating_pod is not None, "it is asked for before it leaves"
        own = self.migrating_pod.spec.termination_grace_period_seconds
        return DEFAULT_GRACE if own is None else float(own)

    # --- the reservation ----------------------------------------------------------------------------------------------

    @property
    def reservation_reference(self) -> ObjectReference | None:
        """The reservation that the job's spec names."""
        options = self.job.spec.reservation_options
        return options.reservation_ref if options else None

    @property
    def owns_reservation(self) -> bool:
        """Whether the reservation was made for this job, and not given to it."""
        return self.reservation is not None and is_made_for_job(self.reservation, self.job)

    @property
    def placements(self) -> list[Placement]:
        assert self.reservation is not None, "asked only then"
        return list(self.reservation.status.placements or ())

    @property
    def usable_seats(self) -> list[Placement]:
        """The free seats that the successor may take, not where the pod is now, whatever their nodes say."""
        assert self.reservation is not None, "asked only then"
        return usable_seats(self.reservation, self.possible_successors)

    @property
    def seats_on_fit_nodes(self) -> list[Placement]:
        """Those whose nodes are fit, as far as that is known."""
        usable, pod = self.usable_seats, self.possible_successors[-1]
        fit = {name for name in {one.node_name for one in usable} if self._unfitness(name, pod) is None}
        return [one for one in usable if one.node_name in fit]

    @property
    def seats_open_to_successor(self) -> list[Placement]:
        """Those of them that would take the successor now, as far as that is known."""
        return [one for one in self.seats_on_fit_nodes if seat_key(one) not in self.rejected_seats]

    @property
    def seat(self) -> Placement | None:
        """The seat that is kept for the successor: the first after those for jobs before this one. Of the reservation's
        seats that cannot be relied on yet it is only known how many they are."""
        assert self.reservation is not None, "asked only then"
        usable, fit, place = self.usable_seats, self.seats_open_to_successor, len(self.jobs_ahead)
        waiting = max(count_unreliable_seats(self.reservation, usable) - (len(usable) - len(fit)), 0)
        return fit[place] if len(fit) - waiting > place else None

    @property
    def seat_on_current_node(self) -> Placement | None:
        """A seat where the pod is already that its successor may come to before the one that is kept for it."""
        assert self.reservation is not None and self.seat is not None, "asked only then"
        here = (
            one
            for one in seats_on_current_node(self.reservation, self.possible_successors)
            if seat_key(one) not in self.rejected_seats
        )
        return next((one for one in here if may_be_taken_first(self.reservation, one, self.seat)), None)

    def unfitness(self, name: str) -> str | None:
        """Why a seat is of no use where it is; None if it is, or if its node was not read."""
        return self._unfitness(name, self.possible_successors[-1])

    def _unfitness(self, name: str, pod: Pod) -> str | None:
        if name not in self.nodes:
            return None
        node = self.nodes[name]
        if node is None:
            return f"node {name} is gone"
        assert self.reservation is not None, "asked only then"
        if self.owns_reservation and is_node_newer(
            node, self.reservation
        ):  # seats of others may be kept one after the other
            return f"node {name} is another one, made after the seat was kept"
        return why_node_unfit(node, pod)

    @property
    def possible_successors(self) -> tuple[Pod, ...]:
        """What the successor may be like, first of all the pod itself."""
        assert self.migrating_pod is not None, "it has not left"
        return possible_successors(self.migrating_pod, self.successor_template)

    @property
    def certain_successor(self) -> Pod:
        """The successor, by what is certain of it."""
        assert self.migrating_pod is not None, "it has not left"
        return successor_with_certain_labels(self.migrating_pod, self.successor_template)

    @property
    def holds_room(self) -> bool:
        """Whether room is held for the pod somewhere."""
        assert self.reservation is not None, "asked only then"
        phase = self.reservation.status.state.phase
        return phase in (ReservationPhase.AVAILABLE, ReservationPhase.WAITING) and bool(self.placements)

    # --- the successor ------------------------------------------------------------------------------------------------

    @property
    def successor_ref(self) -> ObjectReference | None:
        """Who took the seat in the pod's place, by name and UID."""
        if self.job.status.pod_ref is not None:
            return self.job.status.pod_ref
        return next(self._successors(), None)

    @property
    def successor(self) -> Pod | None:
        """The pod that took the seat, while it exists."""
        reference = self.successor_ref
        assert reference is not None, "asked only then"
        return next((pod for pod in self.consumers if pod.metadata.uid == reference.uid), None)

    def _successors(self) -> Iterator[ObjectReference]:
        found = {pod.metadata.uid: pod for pod in self.consumers}
        for one in self._seated():
            if one.uid == self.pod_uid or one.uid in self.foreign_consumers:
                continue
            if self._was_ours or self._came_after(found.get(one.uid or "")):
                yield one

    @property
    def _was_ours(self) -> bool:
        """Whether the reservation is ours, or was while it existed."""
        named = self.reservation_reference.name if self.reservation_reference else None
        return self.owns_reservation or (self.reservation is None and named == reservation_name(self.job))

    def _seated(self) -> Iterator[ObjectReference]:
        """Who took seats: as the reservation says; once it is gone, or somebody deletes it, as the pods themselves say,
        on whom it was written when they were bound."""
        if self.reservation is not None:
            yield from (one.pod_ref for one in self.placements if one.pod_ref is not None)
            if not is_being_deleted(self.reservation):
                return
        where = self.job.spec.pod_ref.namespace, self.reservation_reference.name if self.reservation_reference else None
        for pod in self.consumers:
            seat, meta = named_seat(pod), pod.metadata
            if seat is not None and pod.spec.node_name and (seat.namespace, seat.reservation) == where:
                yield ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)

    def _came_after(self, pod: Pod | None) -> bool:
        """Whether a pod was made after ours was evicted, or else after a seat was kept for it, as far as clocks tell:
        earlier ones took seats that were not meant for it. Whoever sat there by then is known besides (`of_others`)."""
        told = [one for type in _KEPT if (one := find_condition(self.job.status, type)) is not None]
        asked = next((time for one in told if (time := time_of(one.last_probe_time)) is not None), None)
        heard = min((time for one in told if (time := time_of(one.last_transition_time)) is not None), default=None)
        since = heard if asked is None else asked
        made = time_of(pod.metadata.creation_timestamp) if pod else None
        return since is not None and made is not None and made >= since - SKEW


def is_node_newer(node: Node, reservation: Reservation) -> bool:
    """Whether a node came into being after a seat was kept on what had its name before."""
    kept = time_of(reservation.status.state.last_transition_time)
    made = time_of(node.metadata.creation_timestamp)
    return kept is not None and made is not None and made > kept


def why_node_unfit(node: Node, pod: Pod) -> str | None:
    """Why a pod may not go to a node any more, by what the node itself says."""
    name = node.metadata.name
    if node.metadata.deletion_timestamp is not None:
        return f"node {name} is being deleted"
    if node.spec.unschedulable and untolerated([UNSCHEDULABLE], pod.spec.tolerations):
        return f"node {name} is cordoned"
    taints = untolerated(node.spec.taints, pod.spec.tolerations)
    if taints:
        told = ", ".join(f"{one.key}={one.value or ''}:{one.effect}" for one in taints)
        return f"node {name} has taints that the pod does not tolerate: {told}"
    if not node_constraint(pod.spec).matches(name, node.metadata.labels):
        return f"node {name} no longer matches the pod's node selector or required node affinity"
    return None
