"""The pace of evictions: so many per second, and within a time."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from restow.control.migrations import MigrationConfiguration
from restow.ports import (
    Api,
    OutcomeUnknown,
    Request,
    Response,
)
from restow.sim.faults import FaultyApi
from tests.control.migrations.limit_auditor import LimitAuditor
from tests.control.migrations.migration_cluster import (
    cluster_with_scheduler,
    cluster_with_stub_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_api_refusals import evicts
from tests.control.scheduler_cluster import FixedErrorApi
from tests.sim.simulated_cluster import on_virtual_time, pass_time

SLOWLY: dict[str, Any] = {"evictQPS": 0.05, "evictBurst": 1}


def evictions(api: FaultyApi) -> int:
    return sum(name.startswith("evict Pod") for name in api.writes.names)


@on_virtual_time
async def test_evictions_keep_the_configured_rate() -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        seen = FaultyApi(it.api, random.Random(1))
        async with running_controller(seen, it.clock, evictQPS=0.1, evictBurst=1, maxConcurrentReconciles=4):
            pods = await it.start(4)
            for pod in pods:
                await it.move(pod, pod.metadata.name)
            for count in range(1, 5):
                await pass_time(9.0 if count > 1 else 5.0)
                assert evictions(seen) <= count
            await pass_time(60)
            assert {(await it.told(pod.metadata.name))[0] for pod in pods} == {"Succeed"}


@pytest.mark.parametrize("burst", [1, 3])
@on_virtual_time
async def test_as_many_pods_as_the_burst_are_evicted_at_once(burst: int) -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        seen = FaultyApi(it.api, random.Random(1))
        async with running_controller(seen, it.clock, evictQPS=0.01, evictBurst=burst, maxConcurrentReconciles=4):
            for pod in await it.start(4):
                await it.move(pod, pod.metadata.name)
            await pass_time(30)
            assert evictions(seen) == burst


@on_virtual_time
async def test_stopped_jobs_do_not_all_evict_at_once_when_resumed() -> None:
    """Each had its turn, and could not use it."""
    async with cluster_with_stub_scheduler(nodes=4) as it:
        pods = await it.start(4)
        section: dict[str, Any] = {"evictQPS": 0.1, "evictBurst": 1, "maxConcurrentReconciles": 4}
        limits = LimitAuditor(it.api, migration_arguments(**section))
        async with running_controller(it.api, it.clock, **section):
            for pod in pods:
                await it.move(pod, pod.metadata.name)
            await pass_time(5)
            await it.stop()
            await pass_time(60)
            await it.go()
            await pass_time(60)
            assert {(await it.told(pod.metadata.name))[0] for pod in pods} == {"Succeed"}
        assert (limits.evictions, limits.faults) == (4, [])


@on_virtual_time
async def test_an_eviction_refused_for_long_counts_from_its_acceptance() -> None:
    """The API server is broken for three minutes in which one pod should be evicted. It leaves; another of its workload
    has to wait for as long as is configured."""
    section: dict[str, Any] = {
        "objectLimiters": {"workload": {"duration": "2m", "maxMigrating": 1}},
        "defaultJobTTL": "10m",
    }
    async with cluster_with_stub_scheduler(nodes=4) as it:
        first, second, *_ = await it.start(4)
        limits = LimitAuditor(it.api, migration_arguments(**section))
        broken = OutcomeUnknown.because(500, "InternalError", "no idea")
        api = FixedErrorApi(it.api, lambda request: evicts(request) and "dryRun" not in request.query, broken)
        async with running_controller(api, it.clock, **section):
            await it.move(first, "first")
            await pass_time(10)
            await it.move(second, "second")
            await pass_time(180)
            assert await pod_stays(it, first) and (await it.told("second"))[0] == "Pending"
            api.error = None
            await pass_time(60)
            assert ((await it.told("first"))[0], (await it.told("second"))[0]) == ("Succeed", "Pending")
            await pass_time(120)
            assert (await it.told("second"))[0] == "Succeed"
        assert (limits.evictions, limits.faults) == (2, [])


@on_virtual_time
async def test_evictions_keep_the_rate_across_leaders_and_report_their_turn() -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        seen = FaultyApi(it.api, random.Random(1))
        first, second = await it.start(2)
        async with running_controller(seen, it.clock, **SLOWLY):
            await it.move(first, "a")
            await pass_time(8)
        async with running_controller(seen, it.clock, seed=2, **SLOWLY):
            await it.move(second, "b")
            await pass_time(8)
            phase, reason, message = await it.told("b")
            assert (evictions(seen), phase, reason) == (1, "Running", "EvictQPS")
            assert (message or "").startswith("waits for evictQPS: 0.05 evictions per second, its turn comes at 20")
            await pass_time(30)
            assert (evictions(seen), (await it.told("b"))[0]) == (2, "Succeed")


@on_virtual_time
async def test_a_new_rate_applies_at_once() -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it, running_controller(it.api, it.clock, **SLOWLY) as made:
        first, second = await it.start(2)
        await it.move(first, "a")
        await pass_time(8)
        made.configure(MigrationConfiguration(migration_arguments(evictQPS=100)))
        await it.move(second, "b")
        await pass_time(8)
        assert (await it.told("b"))[0] == "Succeed"


class Unhurried:
    """An Api that takes its time over every call; it notes when evictions come."""

    def __init__(self, api: Api, seconds: float) -> None:
        self.watch = api.watch
        self.evicted: list[float] = []
        self._api = api
        self._seconds = seconds

    async def call(self, request: Request) -> Response:
        if evicts(request) and "dryRun" not in request.query:
            self.evicted.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._seconds)
        return await self._api.call(request)


@pytest.mark.parametrize(("workers", "seconds"), [(8, 0.05), (1, 0.005)])
@on_virtual_time
async def test_no_turn_is_lost_while_jobs_get_ready(workers: int, seconds: float) -> None:
    section: dict[str, Any] = {"maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
    section |= {"evictQPS": 10, "evictBurst": 1, "maxConcurrentReconciles": workers}
    async with cluster_with_scheduler(nodes=4) as it:
        pods = await it.start(12)
        api = Unhurried(it.api, seconds)
        async with running_controller(api, it.clock, **section):
            for pod in pods:
                await it.move(pod, pod.metadata.name)
            await pass_time(30)
    gaps = [after - before for before, after in pairwise(api.evicted)]
    assert len(gaps) == 11
    assert min(gaps) >= 0.1 - 1e-6 and sum(gaps) < 1.5


@on_virtual_time
async def test_a_new_rate_applies_to_waiting_jobs() -> None:
    async with (
        cluster_with_stub_scheduler(nodes=4) as it,
        running_controller(it.api, it.clock, evictQPS=0.01, evictBurst=1) as made,
    ):
        pods = await it.start(4)
        for pod in pods:
            await it.move(pod, pod.metadata.name)
        await pass_time(20)
        assert [(await it.told(pod.metadata.name))[1] for pod in pods] == [None, "EvictQPS", "EvictQPS", "EvictQPS"]
        made.configure(MigrationConfiguration(migration_arguments(evictQPS=1, evictBurst=1)))
        await pass_time(30)
        assert {(await it.told(pod.metadata.name))[0] for pod in pods} == {"Succeed"}
