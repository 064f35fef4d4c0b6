"""Short ways to write reservations for the pods of one workload, its pods, and its PodGroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from restow.model.objects import (
    Container,
    ContainerPort,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodTemplate,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationState,
    ReservationStatus,
    SelectorSpec,
    TaskSpec,
)
from restow.model.reservations.reservation_annotations import MIGRATING_ANNOTATION
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import Amounts, placements_of, pod, spec

OWNER = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "web"}))

WHOLE_NODE = {"cpu": "4"}

DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-web", controller=True)

OLD_REPLICA_SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1", controller=True)

NEW_REPLICA_SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-2", uid="uid-2", controller=True)

DEPLOYMENT_OWNER = ReservationOwner(controller=ObjectReference(kind="Deployment", name="web", uid="uid-web"))

FITS_POLICY: dict[str, Any] = {"match_policy": "Fits"}

TERMINATING = 1767225600.0  # the deletionTimestamp of terminating pods

CONTAINER_WITH_HOST_PORT = [Container(name="main", ports=[ContainerPort(container_port=80, host_port=80)])]


def template(requests: Amounts | None = None, *, labels: dict[str, str] | None = None, **fields: Any) -> PodTemplate:
    return PodTemplate(metadata=ObjectMeta(labels=labels), spec=spec(requests, **fields))


def web_reservation(
    name: str,
    *tasks: TaskSpec,
    at: dict[int, str] | None = None,
    consumed: dict[int, str] | None = None,
    phase: str | None = None,
    created: str = "2026-01-01T00:00:00Z",
    migrating: str | None = None,
    version: int | str = "",
    **fields: Any,
) -> Reservation:
    """A reservation, by default of one task with one seat, for pods with the label app=web; `at` places indices of its
    first task, and makes it Available unless a phase is given. The name may be "namespace/name"."""
    namespace, _, name = name.rpartition("/")
    listed = list(tasks) or [TaskSpec(name="t", replicas=1, template=template())]
    placements = [replace(one, task=listed[0].name) for one in placements_of(at or {}, consumed or {})]
    return Reservation(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace or "default",
            uid=f"uid-{name}",
            creation_timestamp=created,
            annotations={MIGRATING_ANNOTATION: migrating} if migrating else None,
            resource_version=str(version),
        ),
        spec=ReservationSpec(**{"owners": [OWNER], "tasks": listed, "scheduler_name": "restow", **fields}),
        status=ReservationStatus(
            state=ReservationState(phase=phase or ("Available" if at else None)), placements=placements or None
        ),
    )


def task(
    replicas: int = 1, requests: Amounts | None = None, *, name: str = "t", nodes: Sequence[str] = (), **more: Any
) -> TaskSpec:
    return TaskSpec(
        name=name, replicas=replicas, template=template(requests, **more), reservation_node_names=list(nodes) or None
    )


def web_pod(
    name: str,
    requests: Amounts | None = None,
    *,
    uses: str | None = None,
    group: str | None = None,
    created: str | None = None,
    **fields: Any,
) -> Pod:
    """A pod with the label app=web, in a gang or with a request for a reservation by name."""
    one = pod(name, requests, **{"labels": {"app": "web"}, "scheduler_name": "restow", **fields})
    annotations = {"restow.sh/use-reservation": uses, "scheduling.k8s.io/group-name": group}
    written = {key: value for key, value in annotations.items() if value}
    return replace(
        one,
        metadata=replace(
            one.metadata,
            annotations={**(one.metadata.annotations or {}), **written} or None,
            creation_timestamp=created,
        ),
    )


def show_deployment(snapshot: Snapshot) -> None:
    """Show the two ReplicaSets of the Deployment."""
    for one in (OLD_REPLICA_SET, NEW_REPLICA_SET):
        snapshot.apply_owner(ObjectMeta(name=one.name, uid=one.uid, owner_references=[DEPLOYMENT]))


def with_host_port(one: Pod) -> Pod:
    return replace(one, spec=replace(one.spec, containers=CONTAINER_WITH_HOST_PORT))


def pod_group(name: str, min_member: int, *, uses: str | None = None) -> PodGroup:
    annotations = {"restow.sh/use-reservation": uses} if uses else None
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
        spec=PodGroupSpec(min_member=min_member),
        status=PodGroupStatus(phase="Inqueue"),
    )
