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


class Answer(msgspec.Struct, frozen=True):
    """What the API server, a limit or a switch said to something that we want to do."""

    allowed: bool
    message: str = ""
    seconds: float = 0.0
    """When it may be otherwise."""
    final: bool = False
    """Whether asking again is useless."""


class Outlook(msgspec.Struct, frozen=True):
    """Where a seat would be, were it asked for now; or why nowhere."""

    node: str = ""
    why: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    job: PodMigrationJob
    terms: EffectiveOptions
    now: float
    pod: Pod | None = None
    """The pod with the job's UID, if it is known; else whoever has its name."""
    owners: tuple[OwnerReference, ...] = ()
    """The controller of the pod, its controller, and so on."""
    workload: str | None = None
    """The UID of the workload that the pod is a replica of."""
    anew: PodTemplate | None = None
    """What the pod's controller makes pods from now, as far as that is known."""
    queue: str | None = None
    """The queue that whoever takes the pod's place belongs to."""
    group: PodGroup | None = None
    """The PodGroup that it is of."""
    gang: str | None = None
    """What keeps whoever takes the pod's place in its gang from being scheduled."""
    insists_on: str | None = None
    """The reservation that it, or its PodGroup, asks for by name."""
    reservation: Reservation | None = None
    """The one that the job refers to, or else the one that is named after it."""
    nodes: Mapping[str, Node | None] = {}
    """Where its seats are, as far as they were read; None is gone."""
    shut_out: Mapping[SeatKey, str] = {}
    """The seats that the successor would be kept from, were it to come now, each with why, as far as was asked."""
    takers: tuple[Pod, ...] = ()
    """The pods that the reservation, or the job, names as having taken a seat, as far as they exist."""
    of_others: frozenset[str] = frozenset()
    """UIDs of pods that are the successors of other jobs, or of other workloads."""
    sooner: str | None = None
    """Another reservation, of which the successor would take a seat before it takes one of the reservation given."""
    ahead: tuple[str, ...] = ()
    """Other jobs that were given the same reservation, have no successor in it yet, and come first."""
    forbidden: str | None = None
    """Why the pod may not be moved, by what it is and by what is configured."""
    unheard: str | None = None
    """What would have to be known of the pod to say so, and is not."""
    out_of_order: str | None = None
    """Why nobody would be made in the pod's place now: those before it in its set are not Ready."""
    scarce: str | None = None
    """Why its workload cannot spare it now: so many others of it are missing."""
    rival: str | None = None
    """Another job that moves the same pod and comes first."""
    unsent: bool = False
    """Whether the eviction that was written down was certainly not sent."""
    stopped: str | None = None
    """Why evictions are stopped everywhere, if they are."""
    turn: Answer | None = None
    """Whether it is this job's turn to evict, by the limits on evictions; not asked yet if None."""
    outlook: Outlook | None = None
    """What would become of its reservation, if that is only rehearsed."""
    trial: Answer | None = None
    """What the API server said to an eviction that was only tried; not asked yet if None."""
    outcome: Answer | None = None
    """What the API server just said to the step decided on before."""
    fresh: bool = False

    def saying(self, status: PodMigrationJobStatus) -> Self:
        """The same facts, were this the status of the job."""
        return replace(self, job=replace(self.job, status=status))

    # --- the pod ------------------------------------------------------------------------------------------------------

    @property
    def uid(self) -> str:
        return self.job.spec.pod_ref.uid or ""

    @property
    def mover(self) -> Pod | None:
        """The very pod that is to move, while it exists."""
        return self.pod if self.pod is not None and self.pod.metadata.uid == self.uid else None

    @property
    def is_gone(self) -> bool:
        return self.mover is None

    @property
    def has_left(self) -> bool:
        """Whether the pod is gone or on its way, by whoever's hand."""
        return self.mover is None or is_terminating(self.mover)

    @property
    def is_evicting(self) -> bool:
        return is_evicting(self.job.status)

    @property
    def grace(self) -> float:
        """The seconds that the pod may take to stop."""
        if self.terms.grace_seconds is not None:
            return float(self.terms.grace_seconds)
        assert self.mover is not None, "it is asked for before it leaves"
        own = self.mover.spec.termination_grace_period_seconds
        return DEFAULT_GRACE if own is None else float(own)

    # --- the reservation ----------------------------------------------------------------------------------------------

    @property
    def reference(self) -> ObjectReference | None:
        """The reservation that the job's spec names."""
        options = self.job.spec.reservation_options
        return options.reservation_ref if options else None

    @property
    def is_ours(self) -> bool:
        """Whether the reservation was made for this job, and not given to it."""
        return self.reservation is not None and is_made_for_job(self.reservation, self.job)

    @property
    def placements(self) -> list[Placement]:
        assert self.reservation is not None, "asked only then"
        return list(self.reservation.status.placements or ())

    @property
    def usable(self) -> list[Placement]:
        """The free seats that the successor may take, not where the pod is now, whatever their nodes say."""
        assert self.reservation is not None, "asked only then"
        return usable_seats(self.reservation, self.likely)

    @property
    def suited(self) -> list[Placement]:
        """Those whose nodes are fit, as far as that is known."""
        usable, pod = self.usable, self.likely[-1]
        fit = {name for name in {one.node_name for one in usable} if self._unfitness(name, pod) is None}
        return [one for one in usable if one.node_name in fit]

    @property
    def fit(self) -> list[Placement]:
        """Those of them that would take the successor now, as far as that is known."""
        return [one for one in self.suited if seat_key(one) not in self.shut_out]

    @property
    def seat(self) -> Placement | None:
        """The seat that is kept for the successor: the first after those for jobs before this one. Of the reservation's
        seats that cannot be relied on yet it is only known how many they are."""
        assert self.reservation is not None, "asked only then"
        usable, fit, place = self.usable, self.fit, len(self.ahead)
        waiting = max(count_unreliable_seats(self.reservation, usable) - (len(usable) - len(fit)), 0)
        return fit[place] if len(fit) - waiting > place else None

    @property
    def way_back(self) -> Placement | None:
        """A seat where the pod is already that its successor may come to before the one that is kept for it."""
        assert self.reservation is not None and self.seat is not None, "asked only then"
        here = (
            one for one in seats_on_current_node(self.reservation, self.likely) if seat_key(one) not in self.shut_out
        )
        return next((one for one in here if may_be_taken_first(self.reservation, one, self.seat)), None)

    def unfitness(self, name: str) -> str | None:
        """Why a seat is of no use where it is; None if it is, or if its node was not read."""
        return self._unfitness(name, self.likely[-1])

    def _unfitness(self, name: str, pod: Pod) -> str | None:
        if name not in self.nodes:
            return None
        node = self.nodes[name]
        if node is None:
            return f"node {name} is gone"
        assert self.reservation is not None, "asked only then"
        if self.is_ours and is_made_anew(node, self.reservation):  # seats of others may be kept one after the other
            return f"node {name} is another one, made after the seat was kept"
        return unfit(node, pod)

    @property
    def likely(self) -> tuple[Pod, ...]:
        """What the successor may be like, first of all the pod itself."""
        assert self.mover is not None, "it has not left"
        return possible_successors(self.mover, self.anew)

    @property
    def newcomer(self) -> Pod:
        """The successor, by what is certain of it."""
        assert self.mover is not None, "it has not left"
        return successor_with_certain_labels(self.mover, self.anew)

    @property
    def is_placed(self) -> bool:
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
        return next((pod for pod in self.takers if pod.metadata.uid == reference.uid), None)

    def _successors(self) -> Iterator[ObjectReference]:
        found = {pod.metadata.uid: pod for pod in self.takers}
        for one in self._seated():
            if one.uid == self.uid or one.uid in self.of_others:
                continue
            if self._was_ours or self._came_after(found.get(one.uid or "")):
                yield one

    @property
    def _was_ours(self) -> bool:
        """Whether the reservation is ours, or was while it existed."""
        named = self.reference.name if self.reference else None
        return self.is_ours or (self.reservation is None and named == reservation_name(self.job))

    def _seated(self) -> Iterator[ObjectReference]:
        """Who took seats: as the reservation says; once it is gone, or somebody deletes it, as the pods themselves say,
        on whom it was written when they were bound."""
        if self.reservation is not None:
            yield from (one.pod_ref for one in self.placements if one.pod_ref is not None)
            if not is_being_deleted(self.reservation):
                return
        where = self.job.spec.pod_ref.namespace, self.reference.name if self.reference else None
        for pod in self.takers:
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


def is_made_anew(node: Node, reservation: Reservation) -> bool:
    """Whether a node came into being after a seat was kept on what had its name before."""
    kept = time_of(reservation.status.state.last_transition_time)
    made = time_of(node.metadata.creation_timestamp)
    return kept is not None and made is not None and made > kept


def unfit(node: Node, pod: Pod) -> str | None:
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
