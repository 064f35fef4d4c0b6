"""StatefulSets that create their pods in order: no pod is evicted that its set would not recreate now."""

from __future__ import annotations

import pytest

from restow.model import kinds
from tests.control.migrations.migration_cluster import (
    cluster_with_controller,
    cluster_with_stub_scheduler,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_unavailable_replicas import mend, spoil
from tests.sim.simulated_cluster import on_virtual_time, pass_time, template, workload

FIRST = "waits for its order: StatefulSet default/web would not recreate it while web-0 is not Ready"


@pytest.mark.parametrize("mode", ["ReservationFirst", "EvictDirectly"])
@on_virtual_time
async def test_a_job_waits_for_admission_until_lower_ordinals_are_ready(mode: str) -> None:
    async with cluster_with_controller() as it:
        pods = sorted(await it.start(3, kinds.STATEFUL_SET), key=lambda pod: pod.metadata.name)
        await spoil(it, pods[0])
        await it.move(pods[2], mode=mode)
        await pass_time(60)
        assert await pod_stays(it, pods[2]) and await it.told() == ("Pending", "Order", FIRST)
        await mend(it, pods[0])
        await pass_time(60)
        assert (await it.told())[0] == "Succeed" and len(await it.pods()) == 3


@on_virtual_time
async def test_an_admitted_job_waits_for_lower_ordinals_and_says_so() -> None:
    async with cluster_with_controller() as it:
        pods = sorted(await it.start(3, kinds.STATEFUL_SET), key=lambda pod: pod.metadata.name)
        it.seats.refusing = "no room"
        await it.move(pods[2])
        await pass_time(5)
        await spoil(it, pods[0])
        it.seats.refusing = None
        await pass_time(60)
        assert await pod_stays(it, pods[2]) and await it.told() == ("Running", "Order", FIRST)
        await mend(it, pods[0])
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_direct_eviction_waits_for_lower_ordinals_at_its_turn() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock, evictQPS=0.05, evictBurst=1):
        pods = sorted(await it.start(3, kinds.STATEFUL_SET), key=lambda pod: pod.metadata.name)
        await it.create(kinds.REPLICA_SET, workload("one", 1, pods=template("500m", app="one")))
        await pass_time(5)
        [other] = [pod for pod in await it.pods() if pod.metadata.name.startswith("one")]
        await it.move(other, "before", mode="EvictDirectly")
        await pass_time(5)
        await it.move(pods[2], mode="EvictDirectly")
        await pass_time(5)
        await spoil(it, pods[0])
        await pass_time(60)
        assert await pod_stays(it, pods[2]) and await it.told() == ("Running", "Order", FIRST)


@on_virtual_time
async def test_a_parallel_stateful_set_does_not_hold_evictions_back() -> None:
    async with cluster_with_controller() as it:
        spec = {"podManagementPolicy": "Parallel"}
        await it.create(kinds.STATEFUL_SET, workload("web", 3, pods=template("500m", app="web"), **spec))
        await pass_time(5)
        pods = sorted(await it.pods(), key=lambda pod: pod.metadata.name)
        await spoil(it, pods[0])
        await it.move(pods[2])
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"
