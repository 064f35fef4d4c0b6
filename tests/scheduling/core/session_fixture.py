"""A cluster with gangs and queues, and sessions over pods that wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from restow.model.objects import (
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
)
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.backfill import backfill
from restow.scheduling.actions.enqueue import enqueue
from restow.scheduling.decisions import Assign, Nominate, RefusePod, SetPodGroupStatus
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Plugin
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.session import Action, PendingWork, Session
from tests.model.cluster.builders import Amounts, pod
from tests.scheduling.core.sample_plugins import NodeEligible, RoomFit, cluster

ALL = (enqueue, allocate, backfill)


def task(
    name: str,
    group: str | None = None,
    requests: Amounts | None = None,
    *,
    role: str | None = None,
    queue: str | None = None,
    created: str = "",
    **fields: Any,
) -> Pod:
    one = pod(name, requests, **fields)
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/task-spec": role,
        "scheduling.volcano.sh/queue-name": queue,
    }
    metadata = replace(
        one.metadata,
        annotations={key: value for key, value in annotations.items() if value},
        creation_timestamp=created or None,
    )
    return replace(one, metadata=metadata)


def gang(name: str, least: int | None, phase: str = "Inqueue", **spec: Any) -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(min_member=least, **spec),
        status=PodGroupStatus(phase=phase),
    )


def queue(name: str, state: str | None = None, **spec: Any) -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(**spec), status=QueueStatus(state=state))


class SessionFixture:
    """A cluster with gangs and queues; `run` opens a session for pending pods."""

    def __init__(
        self,
        *there: Node,
        running: Iterable[Pod] = (),
        groups: Iterable[PodGroup] = (),
        queues: Iterable[Queue] = (),
        plugins: Iterable[Plugin] = (),
    ) -> None:
        self.snapshot = cluster(*there, pods=running)
        self.pod_groups = PodGroupCache()
        for one in running:
            self.pod_groups.apply_pod(one)
        for group in groups:
            self.pod_groups.apply_group(group)
        for each in queues:
            self.pod_groups.queues.apply(each)
        self.engine = Engine([NodeEligible(), RoomFit(), *plugins])

    def run(
        self,
        *pods: Pod,
        actions: Sequence[Action] = ALL,
        nominated: Sequence[Pod] = (),
        truncated_queues: Sequence[str] = (),
    ) -> SessionFixture:
        for one in pods:
            self.pod_groups.apply_pod(one)
        session = Session(
            self.snapshot,
            self.engine,
            self.pod_groups,
            PendingWork(pods, nominated=nominated, truncated_queues=truncated_queues),
            now=0.0,
        )
        self.decisions = session.run(actions)
        self.postponed = [one.metadata.name for one in session.postponed]
        return self

    @property
    def placed(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.node for one in self.decisions if isinstance(one, Assign)}

    @property
    def refused(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.message for one in self.decisions if isinstance(one, RefusePod)}

    @property
    def nominated(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.node for one in self.decisions if isinstance(one, Nominate)}

    @property
    def statuses(self) -> dict[str, PodGroupStatus]:
        return {one.group.metadata.name: one.status for one in self.decisions if isinstance(one, SetPodGroupStatus)}
