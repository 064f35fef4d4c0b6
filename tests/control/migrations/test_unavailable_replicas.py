"""Pods of a workload that are lost after a job was admitted: how many may be missing holds for every eviction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Pod
from restow.model.pods import is_available
from restow.sim.world.settings import NEVER_READY
from tests.control.migrations.limit_auditor import LimitAuditor
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_stub_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import job as batch
from tests.sim.simulated_cluster import on_virtual_time, pass_time


async def spoil(it: MigrationCluster, *pods: Pod) -> None:
    """They are not Ready any more, and will not be."""
    for pod in pods:
        await _set_ready(it, pod, False)


async def mend(it: MigrationCluster, pod: Pod) -> None:
    await _set_ready(it, pod, True)


async def _set_ready(it: MigrationCluster, pod: Pod, ready: bool) -> None:
    name = pod.metadata.name
    await it.patch(kinds.POD, name, {"metadata": {"annotations": {NEVER_READY: None if ready else "true"}}})
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    await it.client.patch(kinds.POD, name, {"status": status}, "default", subresource="status")


@asynccontextmanager
async def waiting(
    pods: int, migrating: int, **section: Any
) -> AsyncIterator[tuple[MigrationCluster, list[Pod], LimitAuditor]]:
    """Jobs a, b, … that were admitted while all pods were Ready, and wait for room; and the auditor of the limits."""
    async with cluster_with_stub_scheduler() as it:
        limits = LimitAuditor(it.api, migration_arguments(**section))
        it.seats.refusing = "no room"
        found = await it.start(pods)
        async with running_controller(it.api, it.clock, **section):
            for name, pod in zip("abc"[:migrating], found, strict=False):
                await it.move(pod, name)
            await pass_time(5)
            yield it, found, limits


SCARCE = (
    "waits for maxUnavailablePerWorkload: {} of {} pods of Deployment default/web are unavailable, at most {} may be"
)


@on_virtual_time
async def test_the_last_available_replica_stays_until_others_are_available() -> None:
    async with waiting(3, 1, maxUnavailablePerWorkload=1) as (it, pods, limits):
        await spoil(it, *pods[1:])
        await pass_time(5)
        it.seats.refusing = None
        await pass_time(30)
        assert await pod_stays(it, pods[0])
        assert await it.told("a") == ("Running", "MaxUnavailablePerWorkload", SCARCE.format(2, 3, 1))
        for pod in pods[1:]:
            await mend(it, pod)
        await pass_time(30)
        assert (await it.told("a"))[0] == "Succeed" and limits.faults == []


@on_virtual_time
async def test_a_pod_waiting_for_its_turn_stays_while_replicas_are_unavailable() -> None:
    async with waiting(4, 2, maxUnavailablePerWorkload=2, evictQPS=0.05, evictBurst=1) as (it, pods, limits):
        it.seats.refusing = None
        await pass_time(15)
        assert [await pod_stays(it, pod) for pod in pods[:2]] == [False, True]
        await spoil(it, *pods[2:])
        await pass_time(30)
        assert await pod_stays(it, pods[1]) and limits.faults == []
        assert await it.told("b") == ("Running", "MaxUnavailablePerWorkload", SCARCE.format(2, 4, 2))


@on_virtual_time
async def test_direct_evictions_wait_for_the_default_ladder() -> None:
    section = {"maxUnavailablePerWorkload": None, "evictQPS": 0.05, "evictBurst": 1}
    async with waiting(4, 0, **section) as (it, pods, limits):
        for name, pod in zip("ab", pods, strict=False):
            await it.move(pod, name, mode="EvictDirectly")
        await pass_time(10)
        await spoil(it, *pods[2:])
        await pass_time(30)
        assert await pod_stays(it, pods[1]) and limits.faults == []
        assert await it.told("b") == ("Running", "MaxUnavailablePerWorkload", SCARCE.format(2, 4, 2))


@pytest.mark.parametrize("workers", [1, 4])
@on_virtual_time
async def test_only_one_of_two_ready_jobs_evicts_after_a_replica_was_lost(workers: int) -> None:
    section = {"maxUnavailablePerWorkload": 2, "maxConcurrentReconciles": workers}
    async with waiting(4, 2, **section) as (it, pods, limits):
        await spoil(it, pods[3])
        await pass_time(5)
        it.seats.refusing = None
        for _ in range(80):
            await pass_time(0.25)
            assert sum(map(is_available, await it.pods())) >= 2
        await pass_time(20)
        assert limits.faults == [] and limits.evictions == 2
        assert [(await it.told(name))[0] for name in "ab"] == ["Succeed", "Succeed"]


@on_virtual_time
async def test_a_finished_pod_is_evicted_whatever_its_workload_lacks() -> None:
    async with (
        cluster_with_stub_scheduler() as it,
        running_controller(it.api, it.clock, maxUnavailablePerWorkload="50%"),
    ):
        await it.create(kinds.JOB, batch("once", run=5))
        await pass_time(30)
        [over] = await it.pods()
        assert over.status.phase == "Succeeded"
        await it.move(over, mode="EvictDirectly")
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"
