"""Turns the places of a plan into reservations, which keep the room that the plan gathers for the pending pods.

Goes in: the places of a plan, the pending pods, and the moves that are left. Comes out: one reservation for each
pending pod, or for a whole gang, with a seat on each node where the plan places a pod. A reservation waits for the pods
that the plan moves off its nodes (annotation restow.sh/awaits): the scheduler holds the seats as soon as the
reservation exists, and opens them when the room is free. So neither the room that is free already nor the room that the
moves free goes to other pods.

A place reservation must not take the room that a later move needs on the same node. So it is created (`is_due`) only
once no move that is left goes to one of its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final

import msgspec
from msgspec.structs import replace

from restow.model.affinity import bound_to, names_of
from restow.model.cluster.owner_chains import OwnerChains, group_name
from restow.model.kinds import POD, POD_GROUP
from restow.model.names import short_digest
from restow.model.objects import (
    MatchPolicy,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodSpec,
    PodTemplate,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    TaskSpec,
)
from restow.model.queues import queue_name
from restow.model.reservations.reservation_annotations import AWAITS_ANNOTATION
from restow.model.resources import Vector, pod_requests, template_requests
from restow.model.times import format_duration
from restow.planning.plan import Move, Place

PLACE_RESERVATION_LABEL: Final = "restow.sh/claim-of"
"""On a reservation: the name of the plan that it holds places for."""

PodName = tuple[str, str]
"""Namespace and name."""
SeatSize = frozenset[tuple[str, int]]
"""The requests of a pod: resources with amounts above 0."""


class PlaceReservation(msgspec.Struct, frozen=True):
    """The places that one reservation is to hold: that of a single pod, or those of a gang."""

    name: str
    namespace: str
    owner: ObjectReference
    queue: str
    seats: tuple[tuple[Pod, str], ...]
    """Pods and their nodes."""

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(node for _, node in self.seats)

    def is_due(self, moves: Iterable[Move]) -> bool:
        """Whether none of the moves that are left goes to one of its nodes."""
        return not any(move.target in self.nodes for move in moves)

    def has_owner_of(self, reservation: Reservation) -> bool:
        """Whether the reservation is for the same pod or gang, by UID: a new pod may have the name of the old one."""
        owners = [owner.object for owner in reservation.spec.owners or () if owner.object is not None]
        return any(self.owner.uid is None or owner.uid in (None, self.owner.uid) for owner in owners)

    def is_satisfied_by(self, reservation: Reservation) -> bool:
        """Whether the unconsumed seats of the reservation are on the same nodes, with the same sizes."""
        wanted = Counter((node, _seat_size(pod_requests(pod))) for pod, node in self.seats)
        placements = reservation.status.placements or ()
        consumed = Counter(placement.task for placement in placements if placement.pod_ref is not None)
        unconsumed = Counter[tuple[str, SeatSize]]()
        for task in reservation.spec.tasks or ():
            spec = task.template.spec
            for node in names_of(spec):
                unconsumed[node, _seat_size(template_requests(spec))] += (task.replicas or 1) - consumed[task.name]
        return self.has_owner_of(reservation) and +unconsumed == wanted


def place_reservations_of(
    plan: str, places: Iterable[Place], pending: Mapping[PodName, Pod], owner_chains: OwnerChains
) -> list[PlaceReservation]:
    """The place reservations of the plan with this name, for those of its places with pods that are still pending."""
    seats: dict[tuple[str, str, str], list[tuple[Pod, str]]] = {}
    for place in places:
        pod = pending.get((place.namespace, place.pod))
        if pod is not None:
            gang = group_name(pod)
            kind = POD_GROUP.kind if gang is not None else POD.kind
            seats.setdefault((kind, place.namespace, gang or place.pod), []).append((pod, place.node))
    return [_place_reservation(plan, owner, some, owner_chains) for owner, some in seats.items()]


def _place_reservation(
    plan: str, owner: tuple[str, str, str], seats: Sequence[tuple[Pod, str]], owner_chains: OwnerChains
) -> PlaceReservation:
    """For an owner, given as kind, namespace and name."""
    kind, namespace, name = owner
    first = seats[0][0]
    group = owner_chains.group_of(first) if kind == POD_GROUP.kind else None
    reference = ObjectReference(kind=kind, namespace=namespace, name=name)
    if group is not None:
        reference = replace(reference, api_version=POD_GROUP.api_version, uid=group.metadata.uid)
    elif kind == POD.kind:
        reference = replace(reference, api_version=POD.api_version, uid=first.metadata.uid)
    # The name follows from plan and owner, so that a second attempt finds the reservation of the first.
    reservation = f"{plan}-claim-{short_digest('/'.join(owner))}"
    return PlaceReservation(reservation, namespace, reference, queue_name(group, first), tuple(seats))


def build_reservation(
    place_reservation: PlaceReservation,
    plan: str,
    moves: Iterable[Move],
    *,
    seconds: float,
    annotations: Mapping[str, str],
) -> Reservation:
    """The Reservation object to create, with a time to live of so many seconds. It waits for the pods that `moves`, the
    moves that are left, take off its nodes."""
    nodes = place_reservation.nodes
    awaited = sorted({move.uid for move in moves if move.uid and move.source in nodes})
    return Reservation(
        metadata=ObjectMeta(
            name=place_reservation.name,
            namespace=place_reservation.namespace,
            labels={PLACE_RESERVATION_LABEL: plan},
            annotations={**annotations, **({AWAITS_ANNOTATION: ",".join(awaited)} if awaited else {})} or None,
        ),
        spec=ReservationSpec(
            scheduler_name=place_reservation.seats[0][0].spec.scheduler_name,
            min_available=len(place_reservation.seats),
            owners=[ReservationOwner(object=place_reservation.owner)],
            queue=place_reservation.queue,
            ttl=format_duration(max(ceil(seconds), 1)),
            match_policy=MatchPolicy.FITS,
            tasks=_tasks(place_reservation),
        ),
    )


def _tasks(place_reservation: PlaceReservation) -> list[TaskSpec]:
    """One task for equal pods on one node. The scheduler tries the seats in the order of their tasks' names, and with
    the match policy Fits a small pod may take the seat of a large one; so the seats of small pods come first."""
    templates: list[tuple[PodTemplate, int]] = []
    seats = sorted(place_reservation.seats, key=lambda seat: (sorted(pod_requests(seat[0]).items()), seat[1]))
    for pod, node in seats:
        spec = bound_to(_spec_of_new_pod(pod), node)
        template = PodTemplate(metadata=ObjectMeta(labels=pod.metadata.labels), spec=spec)
        if templates and templates[-1][0] == template:
            templates[-1] = (template, templates[-1][1] + 1)
        else:
            templates.append((template, 1))
    width = len(str(len(templates)))
    return [
        TaskSpec(name=f"place-{number:0{width}d}", replicas=replicas, template=template)
        for number, (template, replicas) in enumerate(templates, start=1)
    ]


def _seat_size(requests: Vector) -> SeatSize:
    return frozenset((name, amount) for name, amount in requests.items() if amount)


def _spec_of_new_pod(pod: Pod) -> PodSpec:
    return replace(pod.spec, node_name=None, scheduling_gates=None)
