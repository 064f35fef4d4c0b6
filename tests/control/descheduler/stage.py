"""A stage for the descheduler: a scattered cluster on virtual time, with the scheduler and migrations in it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from restow.control.descheduler import Descheduler, Metrics
from restow.model import kinds
from restow.model.objects import PodMigrationJob
from restow.planning.descheduling.policy import read_policy
from restow.planning.descheduling.registry import installed
from restow.ports import Api
from tests.control.migrations.stage import Move, arguments, controller, scheduled
from tests.sim.stage import Document, pass_time, pod, profile, running, template, workload

QUICKLY = {"objectLimiters": {"workload": {"duration": "0s"}}, "maxMigratingPerWorkload": 4}


def packing(**fields: Any) -> Document:
    """A section with one profile that defragments."""
    return {"profiles": [{"name": "pack", "plugins": {"balance": {"enabled": ["Defragmentation"]}}, **fields}]}


class Scattered(Move):
    """One node is nearly full, and a pod sits on each of the others."""

    async def scatter(self, pods: int = 4) -> None:
        await self.create(kinds.POD, pod("anchor", "2900m", nodeName="n1"))
        made = template("200m", app="web")
        await self.create(kinds.DEPLOYMENT, workload("web", pods, pods=made))
        await pass_time(5)

    async def jobs(self) -> list[PodMigrationJob]:
        found = (await self.client.list(kinds.POD_MIGRATION_JOB)).items
        return sorted(found, key=lambda job: job.metadata.name)

    async def places(self) -> dict[str, str | None]:
        return {one.metadata.name: one.spec.node_name for one in await self.pods()}

    async def used(self) -> set[str | None]:
        """The nodes that have a pod on them."""
        return set((await self.places()).values())


def descheduler(it: Move, section: Document, *, api: Api | None = None, seed: int = 1, **more: Any) -> Descheduler:
    return Descheduler(
        api or it.api,
        it.clock,
        random.Random(seed),
        policy=read_policy(section, installed()),
        scheduler=profile(),
        arguments=arguments(),
        **more,
    )


@asynccontextmanager
async def scattered(*, nodes: int = 5, pods: int = 4, migrating: bool = True) -> AsyncIterator[Scattered]:
    """The cluster, scattered, with everything but the descheduler."""
    async with scheduled(nodes=nodes) as base:
        it = Scattered(base.api, base.world, base.clock)
        await it.scatter(pods)
        if not migrating:
            yield it
            return
        async with controller(it.api, it.clock, **QUICKLY):
            yield it


@asynccontextmanager
async def stage(section: Document, *, nodes: int = 5, pods: int = 4, **more: Any) -> AsyncIterator[Scattered]:
    async with (
        scattered(nodes=nodes, pods=pods) as it,
        running(descheduler(it, section, metrics=Metrics(CollectorRegistry()), **more)),
    ):
        yield it
