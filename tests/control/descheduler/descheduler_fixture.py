"""A cluster with pods scattered over its nodes, on virtual time, with scheduler and migration controller; and
deschedulers and plan runners for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.descheduler import (
    ApplyConfiguration,
    Descheduler,
    DeschedulerConfiguration,
    DeschedulerMetrics,
    DeschedulerSettings,
    PlanRunner,
)
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.model import kinds
from restow.model.objects import Document, Pod, PodMigrationJob
from restow.model.times import format_time
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.registry import descheduler_plugins
from restow.planning.plan import Plan
from restow.ports import Api, OutcomeUnknown, Request, Response
from restow.sim.faults import FaultPlan
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_scheduler,
    migration_arguments,
    running_controller,
)
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    default_profile,
    pass_time,
    pod,
    running_component,
    template,
    workload,
)

DESCHEDULER_FAULTS = FaultPlan(
    dropped=0.02, repeated=0.05, late=0.05, stale=0.1, conflict=0.1, busy=0.1, refused=0.1, unknown=0.15, slow=0.1
)

QUICKLY: dict[str, Any] = {"objectLimiters": {"workload": {"duration": "0s"}}, "maxMigratingPerWorkload": 4}


def defragmentation_section(**fields: Any) -> Document:
    """A section with one profile that defragments."""
    return {"profiles": [{"name": "pack", "plugins": {"balance": {"enabled": ["Defragmentation"]}}, **fields}]}


class ScatteredCluster(MigrationCluster):
    """One node is nearly full, and a pod sits on each of the others."""

    async def create_scattered_pods(self, pods: int = 4) -> None:
        await self.create(kinds.POD, pod("anchor", "2900m", nodeName="n1"))
        pods_template = template("200m", app="web")
        await self.create(kinds.DEPLOYMENT, workload("web", pods, pods=pods_template))
        await pass_time(5)

    async def jobs(self) -> list[PodMigrationJob]:
        found = (await self.client.list(kinds.POD_MIGRATION_JOB)).items
        return sorted(found, key=lambda job: job.metadata.name)

    async def nodes_of_pods(self) -> dict[str, str | None]:
        return {one.metadata.name: one.spec.node_name for one in await self.pods()}

    async def occupied_nodes(self) -> set[str | None]:
        """The nodes that have a pod on them."""
        return set((await self.nodes_of_pods()).values())


@asynccontextmanager
async def running_event_handlers(it: SimulatedCluster) -> AsyncIterator[DeschedulerEventHandlers]:
    """What planning goes by, kept up with the API until this ends."""
    handlers = DeschedulerEventHandlers(SharedInformers(Client(it.api), random.Random(1)), it.clock, "restow-system")
    task = asyncio.create_task(handlers.run())
    try:
        await handlers.synced()
        yield handlers
    finally:
        task.cancel()
        await asyncio.wait((task,))


class MeteringApi:
    """An Api with metrics.k8s.io: pods use as many cores as is set for their app, nodes what their pods
    use."""

    def __init__(self, it: ScatteredCluster, cores: float = 2.0, *, api: Api | None = None, **by_app: float) -> None:
        self._api = api or it.api
        self.watch = self._api.watch
        self.age = 0.0
        """Of what is measured, in seconds."""
        self.silent = False
        """Nobody answers."""
        self.by_app = by_app
        self._it = it
        self._cores = cores

    async def call(self, request: Request) -> Response:
        if request.resource.group != "metrics.k8s.io":
            return await self._api.call(request)
        if self.silent:
            raise OutcomeUnknown.because(503, "ServiceUnavailable", "the server is currently unable to answer")
        pods = [one for one in await self._it.pods() if one.spec.node_name]
        if request.resource.plural == "pods":
            usage: dict[str, dict[str, Any]] = {
                one.metadata.name: {"containers": [{"name": "main", "usage": self._cpu([one])}]} for one in pods
            }
        else:
            nodes = [one.metadata.name for one in (await self._it.client.list(kinds.NODE)).items]
            usage = {
                name: {"usage": self._cpu(one for one in pods if one.spec.node_name == name), "window": "30s"}
                for name in nodes
            }
        at = format_time(self._it.clock.now() - self.age)
        items = [
            {"metadata": {"name": name, "namespace": "default"}, "timestamp": at, **used}
            for name, used in usage.items()
        ]
        return Response(body=msgspec.json.encode({"metadata": {}, "items": items}))

    def _cpu(self, pods: Iterable[Pod]) -> dict[str, str]:
        apps = ((one.metadata.labels or {}).get("app", "") for one in pods)
        return {"cpu": f"{sum(self.by_app.get(app, self._cores) for app in apps):g}"}


def descheduler(
    it: MigrationCluster,
    section: Document,
    *,
    api: Api | None = None,
    seed: int = 1,
    settings: DeschedulerSettings | None = None,
    **more: Any,
) -> Descheduler:
    """A descheduler with this section of the configuration; it does not run yet."""
    configuration = DeschedulerConfiguration(
        policy=read_policy(section, descheduler_plugins()),
        scheduler=default_profile(),
        migration=migration_arguments(),
        settings=settings or DeschedulerSettings(),
    )
    return Descheduler(api or it.api, it.clock, random.Random(seed), configuration, **more)


@asynccontextmanager
async def scattered_cluster(
    *, nodes: int = 5, pods: int = 4, migrating: bool = True
) -> AsyncIterator[ScatteredCluster]:
    """The cluster, scattered, with everything but the descheduler."""
    async with cluster_with_scheduler(nodes=nodes) as base:
        it = ScatteredCluster(base.api, base.world, base.clock)
        await it.create_scattered_pods(pods)
        if not migrating:
            yield it
            return
        async with running_controller(it.api, it.clock, **QUICKLY):
            yield it


@asynccontextmanager
async def cluster_with_descheduler(
    section: Document, *, nodes: int = 5, pods: int = 4, **more: Any
) -> AsyncIterator[ScatteredCluster]:
    async with (
        scattered_cluster(nodes=nodes, pods=pods) as it,
        running_component(descheduler(it, section, metrics=DeschedulerMetrics(CollectorRegistry()), **more)),
    ):
        yield it


def plan_runner(
    it: ScatteredCluster,
    *,
    api: Api | None = None,
    settings: DeschedulerSettings | None = None,
    strict: bool = False,
    **more: Any,
) -> PlanRunner:
    """What `restow apply` runs; it does not run yet."""
    configuration = ApplyConfiguration(
        scheduler=default_profile(),
        migration=migration_arguments(),
        settings=settings or DeschedulerSettings(),
        strict=strict,
    )
    return PlanRunner(api or it.api, it.clock, random.Random(5), configuration, **more)


async def plan_in_two_waves(it: ScatteredCluster) -> Plan:
    """What the descheduler would do, in waves of two."""
    async with running_component(descheduler(it, defragmentation_section())) as controller:
        plan = (await controller.trigger(dry_run=True)).outcome.plan
    moves = tuple(replace(move, wave=1 + (move.order > 2)) for move in plan.moves)
    assert len(moves) == 4
    return replace(plan, moves=moves)
