"""Short ways to write nodes, pods and reservations in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Placement,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplate,
    Quantities,
    QuantityText,
    Queue,
    QueueReservation,
    QueueSpec,
    QueueStatus,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationState,
    ReservationStatus,
    ResourceRequirements,
    SelectorSpec,
    Taint,
    TaskSpec,
)
from restow.model.queues import QUEUE_ANNOTATION
from restow.model.reservations.reservation_annotations import MIGRATING_ANNOTATION

Amounts = Mapping[str, QuantityText]
ROOM: Quantities = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def node(
    name: str,
    allocatable: Amounts | None = None,
    *,
    labels: dict[str, str] | None = None,
    taints: list[Taint] | None = None,
    unschedulable: bool | None = None,
    version: int | str = "",
) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, uid=f"node-{name}", labels=labels, resource_version=str(version)),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(allocatable=dict(ROOM if allocatable is None else allocatable)),
    )


def spec(requests: Amounts | None = None, **fields: Any) -> PodSpec:
    requirements = ResourceRequirements(requests={"cpu": "1"} if requests is None else dict(requests))
    return PodSpec(containers=[Container(name="main", resources=requirements)], **fields)


def pod(
    name: str,
    requests: Amounts | None = None,
    *,
    on: str | None = None,
    labels: dict[str, str] | None = None,
    seat: str | None = None,
    reservation_uid: str | None = None,
    **fields: Any,
) -> Pod:
    """A pod with one container; `fields` are `phase`, keywords of `_pod_metadata` and members of its spec."""
    metadata = _pod_metadata(name, **{key: fields.pop(key) for key in _METADATA if key in fields})
    return Pod(
        metadata=replace(
            metadata, labels=labels, annotations=seat_annotations(seat, reservation_uid) if seat else None
        ),
        status=PodStatus(phase=fields.pop("phase", None)),
        spec=spec(requests, node_name=on, **fields),
    )


_METADATA = ("namespace", "uid", "owner", "leaving", "version")


def _pod_metadata(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    owner: OwnerReference | None = None,
    leaving: bool = False,
    version: int | str = "",
) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        owner_references=[owner] if owner else None,
        deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
        resource_version=str(version),
    )


def seat_annotations(seat: str, reservation_uid: str | None = None) -> dict[str, str]:
    """What a Binding writes about a seat: of the reservation made here, unless it says of which one; "" does not."""
    _, of, *_ = [*seat.split("/"), ""]
    uid = f"uid-{of}" if reservation_uid is None else reservation_uid
    return {"restow.sh/reservation": seat, **({"restow.sh/reservation-uid": uid} if uid else {})}


def queue(name: str, *locked: str, version: int | str = "", state: str | None = None, **fields: Any) -> Queue:
    """A queue, and the nodes locked for it."""
    shown = QueueReservation(nodes=list(locked)) if locked else None
    return Queue(
        metadata=ObjectMeta(name=name, uid=f"queue-{name}", resource_version=str(version)),
        spec=QueueSpec(**fields),
        status=QueueStatus(state=state, reservation=shown),
    )


def of_queue(pod: Pod, name: str | None) -> Pod:
    """The same pod in a queue."""
    annotations = {**(pod.metadata.annotations or {}), QUEUE_ANNOTATION: name} if name else pod.metadata.annotations
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def affinity(**sides: Any) -> Affinity:
    return Affinity(**sides)


WEB = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "web"}))


def reservation(
    name: str,
    placements: dict[int, str] | None = None,
    *,
    consumed: dict[int, str] | None = None,
    phase: str = "Available",
    owners: list[ReservationOwner] | None = None,
    migrating: str | None = None,
    version: int | str = "",
    **fields: Any,
) -> Reservation:
    """A reservation with one task "t"; `placements` gives the node of each index, `consumed` the UID of its consumer.
    `fields` are the keywords of `spec`: of the pods that it is for."""
    return Reservation(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            resource_version=str(version),
            annotations={MIGRATING_ANNOTATION: migrating} if migrating else None,
        ),
        spec=ReservationSpec(
            owners=[WEB] if owners is None else owners,
            tasks=[TaskSpec(name="t", replicas=3, template=PodTemplate(spec=spec(**fields)))],
        ),
        status=ReservationStatus(
            state=ReservationState(phase=phase), placements=placements_of(placements or {}, consumed or {})
        ),
    )


def placements_of(placements: dict[int, str], consumed: dict[int, str] | None = None) -> list[Placement]:
    return [
        Placement(
            task="t",
            index=index,
            node_name=where,
            pod_ref=ObjectReference(uid=consumed[index]) if consumed and index in consumed else None,
        )
        for index, where in placements.items()
    ]
