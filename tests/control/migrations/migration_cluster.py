"""A cluster for migrations: on virtual time, with the controller, and a stub of the scheduler that only knows
seats: it places reservations where their node affinity lets them, and binds pods to the seats that are open for them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from restow.client.verbs import Client
from restow.control.migrations import MigrationConfiguration, MigrationController, MigrationSettings
from restow.migration.arguments import MigrationArguments, read_migration_arguments
from restow.model import kinds
from restow.model.affinity import node_constraint
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import Document, Pod, PodMigrationJob, Reservation
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.owners import Owners
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.spec import expires_at
from restow.model.times import format_time
from restow.ports import Api, ApiError, Clock
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    pass_time,
    running_component,
    running_scheduler,
    template,
    workload,
)

SCHEDULERS = frozenset({"default-scheduler", "restow"})
SYSTEM = "restow-system"


def migration_arguments(**section: Any) -> MigrationArguments:
    """What is configured; without limits where a test does not set them."""
    free = {"maxMigratingPerNode": 0, "maxUnavailablePerWorkload": "100%", "maxMigratingPerWorkload": "100%"}
    limiters = {"objectLimiters": {"workload": {"duration": "0s"}}}
    return read_migration_arguments({**free, **limiters, "evictQPS": 1000, "evictBurst": 100, **section}, SCHEDULERS)


class StubScheduler:
    """`refusing` says why no reservation is placed; `places` where they are placed, whatever they ask;
    `looking`, whether it looks at those that were changed."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self.refusing: str | None = None
        self.places: str | None = None
        self.binding = self.looking = True
        self._client = Client(api, manager="stub-scheduler")
        self._clock = clock

    async def run(self) -> None:
        while True:
            with suppress(ApiError):
                await self._step()
            await asyncio.sleep(0.5)

    async def _step(self) -> None:
        pods = (await self._client.list(kinds.POD)).items
        for reservation in (await self._client.list(kinds.RESERVATION)).items:
            await self._place(reservation)
        waiting = [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]
        for pod in waiting if self.binding else ():
            await self._bind(pod, pods)

    async def _place(self, reservation: Reservation) -> None:
        end = expires_at(reservation)
        if is_ended(reservation):
            return
        if end is not None and end <= self._clock.now():
            await self.write(reservation, phase="Failed", reason="Expired")
        elif not reservation.status.placements:
            node = self.places or await self._fitting(reservation)
            if self.refusing or node is None:
                why = self.refusing or "0/3 nodes are available."
                if reservation.status.state.message != why:
                    await self.write(reservation, phase="Pending", message=why)
                return
            task = (reservation.spec.tasks or [])[0]
            await self.write(reservation, [{"task": task.name, "index": 0, "nodeName": node}])
        elif self.looking and reservation.status.observed_generation != reservation.metadata.generation:
            await self.write(reservation)

    async def _fitting(self, reservation: Reservation) -> str | None:
        wanted = node_constraint((reservation.spec.tasks or [])[0].template.spec)
        nodes = sorted((await self._client.list(kinds.NODE)).items, key=lambda node: node.metadata.name)
        fit = (one for one in nodes if wanted.matches(one.metadata.name, one.metadata.labels))
        return next((one.metadata.name for one in fit if not one.spec.unschedulable), None)

    async def write(
        self, reservation: Reservation, placements: list[Document] | None = None, phase: str = "Available", **state: Any
    ) -> None:
        since = format_time(self._clock.now())
        told = {"reason": None, "message": None, **state, "phase": phase, "lastTransitionTime": since}
        changes: Document = {"state": told, "observedGeneration": reservation.metadata.generation}
        if placements is not None:
            changes["placements"] = placements
        meta = reservation.metadata
        await self._client.patch(
            kinds.RESERVATION,
            meta.name,
            {"status": changes},
            meta.namespace,
            subresource="status",
            resource_version=meta.resource_version,
        )

    async def _bind(self, pod: Pod, pods: list[Pod]) -> None:
        meta = pod.metadata
        seat = await self._seat_for(pod, pods)
        if seat is None:
            count = {node.metadata.name: 0 for node in (await self._client.list(kinds.NODE)).items}
            for one in pods:
                if one.spec.node_name in count:
                    count[one.spec.node_name or ""] += 1
            node = min(sorted(count), key=lambda name: count[name])
            await self._client.bind(meta.namespace or "", meta.name, uid=meta.uid, node=node)
            return
        placement = msgspec.to_builtins((seat.status.placements or [])[0])
        name = f"{seat.metadata.namespace}/{seat.metadata.name}/{placement['task']}/0"
        await self._client.bind(
            meta.namespace or "",
            meta.name,
            uid=meta.uid,
            node=placement["nodeName"],
            annotations={"restow.sh/reservation": name},
        )
        reference = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        await self.write(seat, [placement | {"podRef": reference}], phase="Succeeded")

    async def _seat_for(self, pod: Pod, pods: list[Pod]) -> Reservation | None:
        owner_chains = OwnerChains(UndoLog())
        for owner in (await self._client.list(kinds.REPLICA_SET)).items:
            owner_chains.put(owner.metadata)
        staying = {one.metadata.uid for one in pods if one.metadata.deletion_timestamp is None}
        for one in (await self._client.list(kinds.RESERVATION)).items:
            free = one.status.state.phase == "Available" and not any(p.pod_ref for p in one.status.placements or ())
            if (
                free
                and migrating_pod(one) not in staying
                and Owners.of(one.spec.owners or ()).matches(pod, owner_chains)
            ):
                return one
        return None


class MigrationCluster(SimulatedCluster):
    """The cluster, and the jobs in it."""

    seats: StubScheduler

    async def start(self, pods: int | None = 2, kind: Any = kinds.DEPLOYMENT, **spec: Any) -> list[Pod]:
        """A workload named web with running pods."""
        made = template("500m", app="web", **spec)
        await self.create(kind, workload("web", pods, pods=made))
        await pass_time(5)
        return await self.pods()

    async def move(self, pod: Pod, name: str = "move", annotations: Document | None = None, **spec: Any) -> None:
        reference = {"namespace": "default", "name": pod.metadata.name, "uid": pod.metadata.uid}
        made = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"podRef": reference, **spec}}
        await self.create(kinds.POD_MIGRATION_JOB, made)

    async def seek(self, **spec: Any) -> Pod:
        """A pod that is to move, for which there is no seat while the stub scheduler refuses one."""
        old = (await self.start())[0]
        self.seats.refusing = "no room"
        await self.move(old, **spec)
        await pass_time(5)
        return old

    async def line_up(self) -> Pod:
        """Job a, for which there is no seat while the stub scheduler refuses one, and job b behind it; the pod of b."""
        first, second = await self.start()
        self.seats.refusing = "no room"
        await self.move(first, "a")
        await pass_time(2)
        await self.move(second, "b")
        await pass_time(2)
        return second

    async def leave(self, **spec: Any) -> None:
        """A pod has left for its seat, which its successor does not take until the stub scheduler binds."""
        old = (await self.start())[0]
        self.seats.binding = False
        await self.move(old, **spec)
        await pass_time(10)

    async def budget(self, least: int, name: str = "web") -> None:
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
        made = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await self.create(kinds.POD_DISRUPTION_BUDGET, made)
        await pass_time(2)

    async def job(self, name: str = "move") -> PodMigrationJob:
        return await self.client.get(kinds.POD_MIGRATION_JOB, name)

    async def told(self, name: str = "move") -> tuple[str | None, str | None, str | None]:
        status = (await self.job(name)).status
        return status.phase, status.reason, status.message

    async def reservations(self) -> list[Reservation]:
        return (await self.client.list(kinds.RESERVATION)).items

    async def set_status(self, name: str, **status: Any) -> None:
        await self.client.patch(kinds.POD_MIGRATION_JOB, name, {"status": status}, subresource="status")

    async def stop(self) -> None:
        """Turn evictions off."""
        data = {"paused": "true", "reason": "maintenance"}
        await self.create(kinds.CONFIG_MAP, {"metadata": {"name": "restow-stop", "namespace": SYSTEM}, "data": data})

    async def go(self) -> None:
        """Turn them on again."""
        await self.delete(kinds.CONFIG_MAP, "restow-stop", SYSTEM)


@asynccontextmanager
async def cluster_with_scheduler(
    *, nodes: int = 3, seed: int = 1, around: Callable[[SimulatedCluster], Api] = lambda it: it.api, **settings: Any
) -> AsyncIterator[MigrationCluster]:
    """Everything but the controller, with the scheduler itself."""
    async with (
        unscheduled_cluster(nodes=nodes, seed=seed, **settings) as it,
        running_scheduler(around(it), it.clock, seed=seed),
    ):
        made = MigrationCluster(it.api, it.world, it.clock)
        await made.create(kinds.NAMESPACE, {"metadata": {"name": SYSTEM}})
        yield made


@asynccontextmanager
async def cluster_with_stub_scheduler(
    *, nodes: int = 3, seed: int = 1, **settings: Any
) -> AsyncIterator[MigrationCluster]:
    """Everything but the controller, with the stub scheduler."""
    async with unscheduled_cluster(nodes=nodes, seed=seed, **settings) as it:
        made = MigrationCluster(it.api, it.world, it.clock)
        made.seats = StubScheduler(it.api, it.clock)
        await made.create(kinds.NAMESPACE, {"metadata": {"name": SYSTEM}})
        task = asyncio.create_task(made.seats.run())
        try:
            yield made
        finally:
            task.cancel()


@asynccontextmanager
async def running_controller(
    api: Api, clock: Clock, *, seed: int = 1, **section: Any
) -> AsyncIterator[MigrationController]:
    made = MigrationController(
        api,
        clock,
        random.Random(seed),
        MigrationConfiguration(migration_arguments(**section)),
        settings=MigrationSettings(garbage_collection_period=30.0),
    )
    async with running_component(made):
        yield made


@asynccontextmanager
async def cluster_with_controller(
    *, nodes: int = 3, seed: int = 1, world_settings: Document | None = None, **section: Any
) -> AsyncIterator[MigrationCluster]:
    async with (
        cluster_with_stub_scheduler(nodes=nodes, seed=seed, **(world_settings or {})) as it,
        running_controller(it.api, it.clock, seed=seed, **section),
    ):
        yield it


async def pod_stays(it: MigrationCluster, pod: Pod) -> bool:
    """Whether a pod is where it was, and not leaving."""
    found = [one for one in await it.pods() if one.metadata.uid == pod.metadata.uid]
    return bool(found) and found[0].metadata.deletion_timestamp is None
