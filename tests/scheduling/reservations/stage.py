"""A small cluster with a session at hand, and short ways to write reservations and those who use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from restow.model.objects import (
    Container,
    ContainerPort,
    Node,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Placement,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodTemplate,
    Queue,
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
from restow.scheduling.decisions import Assign, Decision, HoldSeats, RecordEvent, RefusePod, RefuseReservation
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import Profile, read_profile
from restow.scheduling.session import Session
from tests.model.cluster.builders import Amounts, node, placements_of, pod, spec

OWNER = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "web"}))
PROFILE = read_profile({})
ALL = {"cpu": "4"}
DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-web", controller=True)
FIRST = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1", controller=True)
SECOND = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-2", uid="uid-2", controller=True)
WORKLOAD = ReservationOwner(controller=ObjectReference(kind="Deployment", name="web", uid="uid-web"))
FITS: dict[str, Any] = {"match_policy": "Fits"}
TERMINATING = 1767225600.0  # when pods that are leaving began to
PORT = [Container(name="main", ports=[ContainerPort(container_port=80, host_port=80)])]


def template(requests: Amounts | None = None, *, labels: dict[str, str] | None = None, **fields: Any) -> PodTemplate:
    return PodTemplate(metadata=ObjectMeta(labels=labels), spec=spec(requests, **fields))


def booking(
    name: str,
    *tasks: TaskSpec,
    at: dict[int, str] | None = None,
    taken: dict[int, str] | None = None,
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
    placements = [replace(one, task=listed[0].name) for one in placements_of(at or {}, taken or {})]
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


def user(
    name: str,
    requests: Amounts | None = None,
    *,
    uses: str | None = None,
    group: str | None = None,
    created: str | None = None,
    **fields: Any,
) -> Pod:
    """A pod of the owner."""
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


def workload(snapshot: Snapshot) -> None:
    """The Deployment whose ReplicaSets the pods are of."""
    for one in (FIRST, SECOND):
        snapshot.apply_owner(ObjectMeta(name=one.name, uid=one.uid, owner_references=[DEPLOYMENT]))


def at_port(one: Pod) -> Pod:
    return replace(one, spec=replace(one.spec, containers=PORT))


def gang(name: str, least: int, *, uses: str | None = None) -> PodGroup:
    annotations = {"restow.sh/use-reservation": uses} if uses else None
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
        spec=PodGroupSpec(min_member=least),
        status=PodGroupStatus(phase="Inqueue"),
    )


class Stage:
    """A cluster; sessions change it, as they do."""

    def __init__(self, *things: Node | Pod | Reservation | PodGroup | Queue, profile: Profile = PROFILE) -> None:
        self.snapshot = Snapshot()
        self.roster = PodGroupCache()
        self.profile = profile
        self.now = 0.0
        for thing in things:
            self.show(thing)

    def show(self, thing: Node | Pod | Reservation | PodGroup | Queue) -> None:
        if isinstance(thing, Node):
            self.snapshot.apply_node(thing)
        elif isinstance(thing, Reservation):
            self.snapshot.apply_reservation(thing)
        elif isinstance(thing, Queue):
            self.snapshot.apply_queue(thing)
            self.roster.queues.apply(thing)
        elif isinstance(thing, PodGroup):
            self.snapshot.apply_group(thing)
            self.roster.apply_group(thing)
        else:
            self.snapshot.apply_pod(thing)
            self.roster.apply_pod(thing)

    def session(self, *items: Pod | Reservation, **options: Any) -> Outcome:
        """Decide about these; what is new among them is shown first."""
        for item in items:
            self.show(item)
        pods = [item for item in items if isinstance(item, Pod)]
        reservations = [item for item in items if isinstance(item, Reservation)]
        session = Session(
            self.snapshot,
            self.profile.engine,
            self.roster,
            now=self.now,
            pods=pods,
            reservations=reservations,
            **{"namespace_share": 1000, **options},
        )
        return Outcome(session.run(self.profile.actions))


class Outcome:
    def __init__(self, decisions: Iterable[Decision]) -> None:
        self.decisions = list(decisions)

    @property
    def held(self) -> dict[str, list[str]]:
        """The nodes that each reservation got, in the order of its seats."""
        return {
            one.reservation.metadata.name: [seat.node_name for seat in _sorted(one.placements)]
            for one in self.decisions
            if isinstance(one, HoldSeats)
        }

    @property
    def waiting(self) -> list[str]:
        return [one.reservation.metadata.name for one in self.decisions if isinstance(one, HoldSeats) and one.waiting]

    @property
    def declined(self) -> dict[str, str]:
        return {
            one.reservation.metadata.name: one.message for one in self.decisions if isinstance(one, RefuseReservation)
        }

    @property
    def seats(self) -> dict[str, str]:
        """The seat that each pod took."""
        return {
            one.pod.metadata.name: str(one.seat).removeprefix("default/")
            for one in self.decisions
            if isinstance(one, Assign) and one.seat is not None
        }

    @property
    def nodes(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.node for one in self.decisions if isinstance(one, Assign)}

    @property
    def refused(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.message for one in self.decisions if isinstance(one, RefusePod)}

    @property
    def told(self) -> dict[str, tuple[str, str]]:
        return {
            one.pod.metadata.name: (one.reason, one.message) for one in self.decisions if isinstance(one, RecordEvent)
        }


def _sorted(placements: Iterable[Placement]) -> list[Placement]:
    return sorted(placements, key=lambda one: (one.task, one.index))


def rooms(*names: str, **fields: Any) -> list[Node]:
    return [node(name, **fields) for name in names]
