"""A cluster on virtual time with the queue controller, the scheduler and the migration controller in it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from restow.control.executor import Executor, run_inline
from restow.control.queues import (
    QueueController,
    QueueControllerConfiguration,
    QueueControllerSettings,
    QueueMetrics,
)
from restow.migration.arguments import MigrationArguments
from restow.model import kinds
from restow.model.objects import Document, Pod, PodMigrationJob, Queue
from restow.model.pods import find_condition
from restow.ports import Api, Clock, Conflict, OutcomeUnknown, Request, Response
from restow.queues.arguments import read_queue_arguments
from tests.control.migrations.migration_cluster import (
    SCHEDULERS,
    MigrationCluster,
    cluster_with_scheduler,
    migration_arguments,
    running_controller,
)
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import pass_time, running_component, template, workload

QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
WITHOUT_CEILINGS = {"maxGuaranteed": 100, "maxGuaranteedPerQueue": 100}


def queue_document(name: str = "q1", **spec: Any) -> Document:
    return {"metadata": {"name": name}, "spec": spec}


def queue_annotation(queue: str) -> dict[str, str]:
    """The annotation of pods that belong to a queue."""
    return {QUEUE_ANNOTATION: queue}


class StatusConflictApi:
    """An API server that answers every write to the status of one queue with a conflict."""

    def __init__(self, api: Api, name: str) -> None:
        self.name: str | None = name
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        if request.name == self.name and request.subresource == "status":
            raise Conflict.because(409, "Conflict", "it has moved on")
        return await self._api.call(request)


class LostAnswerApi:
    """An API server that loses its answers to some writes, and leaves their results out of its watches."""

    def __init__(self, api: Api, verb: str, plural: str, mark: bytes) -> None:
        self._api = api
        self._about = verb, plural
        self._mark = mark

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if (request.verb, request.resource.plural) == self._about and self._mark in request.body:
            raise OutcomeUnknown.because(504, "Timeout", "no answer came")
        return response

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for line in self._api.watch(request):
            if request.resource.plural != self._about[1] or self._mark not in line:
                yield line


class SilentApi(LostAnswerApi):
    """One that does not say what became of them either."""

    async def call(self, request: Request) -> Response:
        if (request.verb, request.resource.plural) == ("get", self._about[1]):
            raise OutcomeUnknown.because(504, "Timeout", "no answer came")
        return await super().call(request)


class QueueCluster(MigrationCluster):
    """The cluster, and the queues in it."""

    async def create_guarantee(self, name: str = "q1", **guarantee: Any) -> None:
        """Create a queue with a guarantee, and see it locked."""
        await self.create(kinds.QUEUE, queue_document(name, guarantee=guarantee))
        await pass_time(1)

    async def change_queue(self, name: str = "q1", **spec: Any) -> None:
        await self.patch(kinds.QUEUE, name, {"spec": spec})
        await pass_time(1)

    async def read_queue(self, name: str = "q1") -> Queue:
        return await self.client.get(kinds.QUEUE, name)

    async def locked_nodes(self, name: str = "q1") -> str:
        """The nodes that are shown as locked."""
        reservation = (await self.read_queue(name)).status.reservation
        return " ".join(reservation.nodes or ()) if reservation else ""

    async def condition_of(
        self, name: str = "q1", kind: str = "GuaranteeSatisfied"
    ) -> tuple[str, str | None, str | None]:
        found = find_condition((await self.read_queue(name)).status.conditions, kind)
        return (found.status, found.reason, found.message) if found else ("", None, None)

    async def jobs(self) -> list[PodMigrationJob]:
        found = (await self.client.list(kinds.POD_MIGRATION_JOB)).items
        return sorted(found, key=lambda job: job.metadata.name)

    async def pods_on(self, *nodes: str) -> list[Pod]:
        return [one for one in await self.pods() if one.spec.node_name in nodes]

    async def create_deployment(self, replicas: int = 3, cpu: str = "500m", **spec: Any) -> None:
        """A Deployment of the default queue."""
        await self.create(kinds.DEPLOYMENT, workload("web", replicas, pods=template(cpu, app="web", **spec)))
        await pass_time(5)


def queue_controller(
    api: Api,
    clock: Clock,
    *,
    seed: int = 1,
    migration: MigrationArguments | None = None,
    settings: QueueControllerSettings | None = None,
    metrics: QueueMetrics | None = None,
    executor: Executor = run_inline,
    **section: Any,
) -> QueueController:
    """A queue controller with this section of the configuration; it does not run yet."""
    configuration = QueueControllerConfiguration(
        scheduler_names=SCHEDULERS,
        arguments=read_queue_arguments({**WITHOUT_CEILINGS, **section}),
        migration=migration or migration_arguments(),
        settings=settings or QueueControllerSettings(),
    )
    return QueueController(api, clock, random.Random(seed), configuration, metrics=metrics, executor=executor)


@asynccontextmanager
async def queue_controller_alone(*, nodes: int = 4, **section: Any) -> AsyncIterator[QueueCluster]:
    """The cluster with the queue controller alone."""
    async with unscheduled_cluster(nodes=nodes) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        async with running_component(queue_controller(it.api, it.clock, **section)):
            yield it


@asynccontextmanager
async def cluster_without_queue_controller(*, nodes: int = 4, seed: int = 1) -> AsyncIterator[QueueCluster]:
    """The cluster with the scheduler and migrations."""
    async with cluster_with_scheduler(nodes=nodes, seed=seed) as base, running_controller(base.api, base.clock):
        yield QueueCluster(base.api, base.world, base.clock)


@asynccontextmanager
async def cluster_with_queue_controller(*, nodes: int = 4, **section: Any) -> AsyncIterator[QueueCluster]:
    """Everything."""
    async with (
        cluster_without_queue_controller(nodes=nodes) as it,
        running_component(queue_controller(it.api, it.clock, **section)),
    ):
        yield it
