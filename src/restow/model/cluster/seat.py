"""Seats: the single places that a reservation holds, and the pods that stand in for them.

Goes in: a Reservation. Comes out: one `Seat` per placement in its status, with a stand-in pod made from the task's
template, which counts in every filter as the pod the seat is kept for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Self

import msgspec
from msgspec.structs import replace

from restow.model.cluster.names import Key, key_of
from restow.model.cluster.owners import GROUP_NAME_ANNOTATIONS, Owners
from restow.model.cluster.shapes import keys_of
from restow.model.cluster.versions import version_number
from restow.model.objects import (
    ObjectMeta,
    Placement,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Quantities,
    Reservation,
    ReservationPhase,
    SelectorRequirement,
    SelectorSpec,
    TaskSpec,
)
from restow.model.quantity import QuantityError
from restow.model.resources import amounts, fits, template_requests
from restow.model.tenancy import DEFAULT_QUEUE, QUEUE_ANNOTATION
from restow.model.times import format_duration, parse_duration, parse_time, time_of

RESERVATION_ANNOTATION = "restow.sh/reservation"
"""On a pod: the seat it took. Written by the Binding that binds it."""
RESERVATION_UID_ANNOTATION = "restow.sh/reservation-uid"
"""On a pod: which reservation of that name it was. A later one of the same name does not have its seat taken."""
MOVED_FROM_ANNOTATION = "restow.sh/moved-from"
"""On a job, on the reservation made for it and on the pod that took its seat: the node the pod's predecessor ran on."""
MOVED_AT_ANNOTATION = "restow.sh/moved-at"
"""On a pod that took the seat of a migration: when."""
MIGRATING_ANNOTATION = "restow.sh/migrating"
"""On a reservation made for a migration: the UID of the pod that moves. The seat opens once it is leaving, or gone."""
AWAITS_ANNOTATION = "restow.sh/awaits"
"""On a reservation: the UIDs of pods that a plan moves away, with commas between them. For this reservation their room
counts as being left even before they are terminating."""
USE_RESERVATION_ANNOTATION = "restow.sh/use-reservation"
"""On a pod or a PodGroup: the name of the reservation that it insists on."""
UNKNOWN_VERSION = 2**63  # newer than any: never taken for seen


class SeatName(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Which seat: `index` of `task` of a reservation. Written namespace/name/task/index."""

    namespace: str
    reservation: str
    task: str
    index: int

    @classmethod
    def of(cls, key: Key, placement: Placement) -> Self:
        """The seat of a reservation that a placement is about."""
        return cls(*key, placement.task, placement.index)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the written form; None if it is not one."""
        parts = text.split("/")
        if len(parts) != 4 or not (parts[3].isascii() and parts[3].isdigit()) or len(parts[3]) > 9:
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.reservation}/{self.task}/{self.index}"


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    name: SeatName
    life: str
    """The UID of its reservation."""
    node: str
    stand_in: Pod
    open: bool
    """Whether it is held for a consumer to come: nobody took it and the reservation has not ended."""
    consumer: str | None
    """The UID (lacking that, the name) of the pod that took it, according to the reservation's status."""
    version: int
    """The version of the reservation that first named this consumer."""
    owners: Owners
    """Who may take it."""
    takers: Owners
    """Who may have taken it."""
    queue: str
    """The queue it is charged to, as written."""


def is_ended(reservation: Reservation) -> bool:
    """Whether it succeeded or failed: nobody will take a seat of it any more."""
    return reservation.status.state.phase in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)


def is_being_deleted(reservation: Reservation) -> bool:
    """Whether somebody is deleting it: it holds nothing any more, whoever's finalizer keeps the object."""
    return reservation.metadata.deletion_timestamp is not None


def is_available(reservation: Reservation) -> bool:
    """Whether it says that its seats can be relied on."""
    return reservation.status.state.phase == ReservationPhase.AVAILABLE


def replicas(task: TaskSpec) -> int:
    """How many seats a task has; one where it does not say."""
    return 1 if task.replicas is None else max(task.replicas, 0)


def wanted(reservation: Reservation) -> dict[str, int]:
    """How many seats each task has."""
    return {task.name: replicas(task) for task in reservation.spec.tasks or ()}


def ttl_until(reservation: Reservation, time: float) -> str:
    """The ttl with which a reservation lasts until then: a second at least, because none at all is for ever."""
    created = time_of(reservation.metadata.creation_timestamp)
    return format_duration(max(time - created, 1.0) if created is not None else 1.0)


def expires_at(reservation: Reservation) -> float | None:
    """When a reservation expires if it has not ended by then; None for never. Raises TimeError.

    A ttl of 0 is never, whatever `expires` says; otherwise the earlier of both counts.
    """
    spec, created = reservation.spec, reservation.metadata.creation_timestamp
    ttl = parse_duration(spec.ttl) if spec.ttl else None
    if ttl == 0:
        return None
    ends = [parse_time(spec.expires)] if spec.expires else []
    if ttl is not None and created:
        ends.append(parse_time(created) + ttl)
    return min(ends, default=None)


def is_expired(reservation: Reservation, now: float) -> bool:
    """Whether its time is over. Raises TimeError."""
    end = expires_at(reservation)
    return end is not None and now >= end


def migrating_pod(reservation: Reservation) -> str | None:
    """The UID of the pod that a reservation was made to move."""
    return (reservation.metadata.annotations or {}).get(MIGRATING_ANNOTATION) or None


def awaited_pods(reservation: Reservation) -> tuple[str, ...]:
    """The UIDs of pods that are about to leave the room that a reservation is after, in order."""
    written = (reservation.metadata.annotations or {}).get(AWAITS_ANNOTATION)
    return tuple(sorted({uid.strip() for uid in written.split(",")} - {""})) if written else ()


def named_seat(pod: Pod) -> SeatName | None:
    """The seat a pod says it takes."""
    written = (pod.metadata.annotations or {}).get(RESERVATION_ANNOTATION)
    return SeatName.parse(written) if written else None


def named_life(pod: Pod) -> str | None:
    """The UID of the reservation whose seat a pod says it takes; it need not say."""
    return (pod.metadata.annotations or {}).get(RESERVATION_UID_ANNOTATION)


def takers_of(reservation: Reservation) -> Owners:
    """Who may have taken a seat of a reservation: its owners, and those that it had when that was last written down."""
    owners, before = reservation.spec.owners or (), reservation.status.observed_owners or ()
    return Owners.of([*owners, *(one for one in before if one not in owners)])


def is_for_whom_it_says(reservation: Reservation) -> bool:
    """Whether its status names all of its owners (or never named any): no others are given a seat, or whoever comes
    next could not tell them from forgers."""
    named = reservation.status.observed_owners
    return named is None or all(one in named for one in reservation.spec.owners or ())


def is_changed(reservation: Reservation) -> bool:
    """Whether somebody changed its spec after it was last decided about."""
    observed = reservation.status.observed_generation
    return observed is not None and observed != reservation.metadata.generation


def given_away(reservation: Reservation) -> dict[str, int]:
    """How many seats of each task may be given away: those that the spec (still) has. Of one that was changed, as long
    as nothing was decided about that, none that asks for more than it was given, or another queue for it: it may be
    refused, and a pod in it could not be."""
    wants, status = wanted(reservation), reservation.status
    if not is_changed(reservation):
        return wants
    if (reservation.spec.queue or DEFAULT_QUEUE) != (status.observed_queue or DEFAULT_QUEUE):
        return {}
    given = status.observed_requests or {}
    tasks = reservation.spec.tasks or ()
    return {task.name: wants[task.name] for task in tasks if _asks_no_more(task, given.get(task.name))}


def _asks_no_more(task: TaskSpec, given: Quantities | None) -> bool:
    try:
        return fits(template_requests(task.template.spec), amounts(given))
    except QuantityError:  # whatever that is, nobody gave it
        return False


def insists_on(*metadata: ObjectMeta | None) -> str | None:
    """The reservation that a pod asks for by name, or else its PodGroup does: it takes no other seat."""
    named = ((one.annotations or {}).get(USE_RESERVATION_ANNOTATION) for one in metadata if one is not None)
    return next((name for name in named if name), None)


def seats_of(
    reservation: Reservation, placements: Iterable[Placement], known: Mapping[SeatName, Seat] | None = None
) -> Iterator[Seat]:
    """The seats of a reservation; a placement of a task that the spec does not have holds nothing. What `known` seats
    of the same spec say is not read again."""
    key, metadata, spec = key_of(reservation), reservation.metadata, reservation.spec
    tasks = {task.name: task for task in spec.tasks or ()}
    ended, owners, takers = is_ended(reservation), Owners.of(spec.owners or ()), takers_of(reservation)
    for placement in placements:
        task = tasks.get(placement.task)
        if task is None:
            continue
        name = SeatName.of(key, placement)
        consumer = (placement.pod_ref.uid or placement.pod_ref.name or "") if placement.pod_ref else None
        old = known.get(name) if known else None
        yield Seat(
            name=name,
            life=metadata.uid,
            node=placement.node_name,
            stand_in=old.stand_in if old is not None else stand_in(name, task, spec.scheduler_name, spec.queue),
            open=not ended and consumer is None,
            consumer=consumer,
            version=version_number(metadata.resource_version) or UNKNOWN_VERSION,
            owners=old.owners if old is not None else owners,
            takers=old.takers if old is not None else takers,
            queue=spec.queue or "",
        )


def stand_in(name: SeatName, task: TaskSpec, scheduler: str | None, queue: str | None = None) -> Pod:
    """The pod a seat is kept for, as it will be once created; it belongs to its reservation's queue and to no gang."""
    template = task.template
    told = {
        key: value for key, value in (template.metadata.annotations or {}).items() if key not in GROUP_NAME_ANNOTATIONS
    }
    spec = replace(template.spec, node_name=None, scheduler_name=template.spec.scheduler_name or scheduler)
    return Pod(
        metadata=ObjectMeta(
            name=f"{name.reservation}-{name.task}-{name.index}",
            namespace=name.namespace,
            uid=str(name),
            labels=template.metadata.labels,
            annotations={**told, QUEUE_ANNOTATION: queue or DEFAULT_QUEUE},
        ),
        spec=fold_label_keys(spec, template.metadata.labels or {}),
    )


def is_stand_in(pod: Pod) -> bool:
    """Whether a pod stands for one that does not exist yet."""
    return "/" in pod.metadata.uid and SeatName.parse(pod.metadata.uid) is not None


def fold_label_keys(spec: PodSpec, labels: dict[str, str]) -> PodSpec:
    """Write matchLabelKeys and mismatchLabelKeys into the selectors, as the API server does when a pod is created.

    A selector of an affinity term that already speaks of such a key was written to then: the labels may have changed
    since, and do not matter. In spread constraints the present labels are demanded as well, as kube-scheduler does.
    """
    constraints = spec.topology_spread_constraints
    if constraints:
        constraints = [
            replace(one, label_selector=_narrowed(one.label_selector, labels, one.match_label_keys, ()))
            for one in constraints
        ]
    affinity = spec.affinity
    if affinity:
        affinity = replace(
            affinity,
            pod_affinity=_folded(affinity.pod_affinity, labels),
            pod_anti_affinity=_folded(affinity.pod_anti_affinity, labels),
        )
    return replace(spec, topology_spread_constraints=constraints, affinity=affinity)


def _folded(side: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    if side is None:
        return None

    def fold(term: PodAffinityTerm) -> PodAffinityTerm:
        said = keys_of(term.label_selector)
        keys = [key for key in term.match_label_keys or () if key not in said]
        other = [key for key in term.mismatch_label_keys or () if key not in said]
        return replace(term, label_selector=_narrowed(term.label_selector, labels, keys, other))

    return replace(
        side,
        required=[fold(term) for term in side.required or ()] or None,
        preferred=[replace(one, pod_affinity_term=fold(one.pod_affinity_term)) for one in side.preferred or ()] or None,
    )


def _narrowed(
    selector: SelectorSpec | None, labels: dict[str, str], equal: Iterable[str] | None, different: Iterable[str]
) -> SelectorSpec | None:
    """The selector with the pod's own values of some keys demanded or excluded; absent keys are passed over."""
    more = [SelectorRequirement(key=key, operator="In", values=[labels[key]]) for key in equal or () if key in labels]
    more += [SelectorRequirement(key=key, operator="NotIn", values=[labels[key]]) for key in different if key in labels]
    if selector is None or not more:
        return selector
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])
