"""Claims: the room that a plan gathers, kept for the pods it is gathered for.

Goes in: the places of a plan, the pods that wait, and the moves that are left. Comes out: one reservation for each
waiting pod, or for a whole gang, with a seat on every node where the plan places one of them. It awaits the pods that
are to leave those nodes: the scheduler holds the seats as soon as the claim is there, and they open when the room is
free. What the nodes have free already, and whatever becomes free on the way, is nobody else's.

A claim must not take room that the plan still needs for pods on their way, so it is due once no move that is left goes
to one of its nodes.
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
from restow.model.names import digest
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
from restow.model.reservations.reservation_annotations import AWAITS_ANNOTATION
from restow.model.resources import Vector, pod_requests, template_requests
from restow.model.queues import queue_name
from restow.model.times import format_duration
from restow.planning.plan import Move, Place

PLACE_RESERVATION_LABEL: Final = "restow.sh/claim-of"
"""On a reservation: the plan whose places it claims."""

Name = tuple[str, str]
Size = frozenset[tuple[str, int]]


class PlaceReservation(msgspec.Struct, frozen=True):
    """What one reservation is to hold: places of a pod of its own, or of a gang."""

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
        """Whether those who wait may take the seats of a reservation: under the same name others may wait by now."""
        owners = [one.object for one in reservation.spec.owners or () if one.object is not None]
        return any(self.owner.uid is None or one.uid in (None, self.owner.uid) for one in owners)

    def is_satisfied_by(self, reservation: Reservation) -> bool:
        """Whether the seats of a reservation that nobody took are those that are to be held."""
        wanted = Counter((node, _size(pod_requests(pod))) for pod, node in self.seats)
        taken = Counter(one.task for one in reservation.status.placements or () if one.pod_ref is not None)
        held = Counter[tuple[str, Size]]()
        for task in reservation.spec.tasks or ():
            spec = task.template.spec
            for node in names_of(spec):
                held[node, _size(template_requests(spec))] += (task.replicas or 1) - taken[task.name]
        return self.has_owner_of(reservation) and +held == wanted


def place_reservations_of(plan: str, places: Iterable[Place], pending: Mapping[Name, Pod], kinship: OwnerChains) -> list[PlaceReservation]:
    """The claims of a plan that has this name, for those of its places whose pods still wait."""
    seats: dict[tuple[str, str, str], list[tuple[Pod, str]]] = {}
    for place in places:
        pod = pending.get((place.namespace, place.pod))
        if pod is not None:
            gang = group_name(pod)
            kind = POD_GROUP.kind if gang is not None else POD.kind
            seats.setdefault((kind, place.namespace, gang or place.pod), []).append((pod, place.node))
    return [_claim(plan, key, found, kinship) for key, found in seats.items()]


def _claim(plan: str, key: tuple[str, str, str], seats: Sequence[tuple[Pod, str]], kinship: OwnerChains) -> PlaceReservation:
    kind, namespace, name = key
    first = seats[0][0]
    group = kinship.group_of(first) if kind == POD_GROUP.kind else None
    owner = ObjectReference(kind=kind, namespace=namespace, name=name)
    if group is not None:
        owner = replace(owner, api_version=POD_GROUP.api_version, uid=group.metadata.uid)
    elif kind == POD.kind:
        owner = replace(owner, api_version=POD.api_version, uid=first.metadata.uid)
    return PlaceReservation(f"{plan}-claim-{digest('/'.join(key))}", namespace, owner, queue_name(group, first), tuple(seats))


def build_reservation(
    claim: PlaceReservation, plan: str, moves: Iterable[Move], *, seconds: float, annotations: Mapping[str, str]
) -> Reservation:
    """The reservation to create, for so many seconds, annotated. `moves` are those that are left; it awaits whom they
    take off its nodes."""
    awaited = sorted({move.uid for move in moves if move.uid and move.source in claim.nodes})
    return Reservation(
        metadata=ObjectMeta(
            name=claim.name,
            namespace=claim.namespace,
            labels={PLACE_RESERVATION_LABEL: plan},
            annotations={**annotations, **({AWAITS_ANNOTATION: ",".join(awaited)} if awaited else {})} or None,
        ),
        spec=ReservationSpec(
            scheduler_name=claim.seats[0][0].spec.scheduler_name,
            min_available=len(claim.seats),
            owners=[ReservationOwner(object=claim.owner)],
            queue=claim.queue,
            ttl=format_duration(max(ceil(seconds), 1)),
            match_policy=MatchPolicy.FITS,
            tasks=_tasks(claim),
        ),
    )


def _tasks(claim: PlaceReservation) -> list[TaskSpec]:
    """Equal pods on one node are one task. Seats are tried in the order of their tasks' names, so those for small pods
    come first: a small pod is not to sit down in the seat of a large one."""
    alike: list[tuple[PodTemplate, int]] = []
    for pod, node in sorted(claim.seats, key=lambda seat: (sorted(pod_requests(seat[0]).items()), seat[1])):
        template = PodTemplate(metadata=ObjectMeta(labels=pod.metadata.labels), spec=bound_to(_loose(pod), node))
        if alike and alike[-1][0] == template:
            alike[-1] = (template, alike[-1][1] + 1)
        else:
            alike.append((template, 1))
    width = len(str(len(alike)))
    return [
        TaskSpec(name=f"place-{number:0{width}d}", replicas=replicas, template=template)
        for number, (template, replicas) in enumerate(alike, start=1)
    ]


def _size(request: Vector) -> Size:
    return frozenset((name, amount) for name, amount in request.items() if amount)


def _loose(pod: Pod) -> PodSpec:
    return replace(pod.spec, node_name=None, scheduling_gates=None)
