"""An eviction that was held up counts from when it was asked for, not from when it was first thought of."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Pod
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_scheduler,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import on_virtual_time, pass_time, template, workload

NODES = ("n1", "n2", "n3", "n4")
ONE_IN_FIVE_MINUTES: dict[str, Any] = {
    "objectLimiters": {"workload": {"duration": "5m", "maxMigrating": 1}},
    "defaultJobTTL": "30m",
}
ONE_IN_A_HUNDRED_SECONDS: dict[str, Any] = {"evictQPS": 0.01, "evictBurst": 1, "defaultJobTTL": "30m"}


async def begin(it: MigrationCluster) -> list[Pod]:
    slow: dict[str, Any] = {"annotations": {"sim.restow.sh/stop-seconds": "100"}, "terminationGracePeriodSeconds": 120}
    await it.create(kinds.DEPLOYMENT, workload("web", 6, pods=template("500m", app="web", **slow)))
    await pass_time(10)
    return await it.pods()


async def move(it: MigrationCluster, first: Pod, *, held_up: bool) -> None:
    """Evict a pod; maybe only after it was stopped for longer than any limit looks back."""
    others = [name for name in NODES if name != first.spec.node_name and held_up]
    for name in others:
        await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
    await it.move(first, "a")
    if held_up:
        await pass_time(5)
        await it.stop()
        for name in others:
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
        await pass_time(400)
        assert (await it.told("a"))[1] == "Stopped" and await pod_stays(it, first)
        await it.go()
    await pass_time(5)
    assert not await pod_stays(it, first)


@pytest.mark.parametrize("held_up", [False, True])
@on_virtual_time
async def test_an_eviction_window_begins_with_the_delayed_eviction(held_up: bool) -> None:
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock, **ONE_IN_FIVE_MINUTES):
        first, second, *_ = await begin(it)
        await move(it, first, held_up=held_up)
        await it.move(second, "b")
        await pass_time(30)
        assert await pod_stays(it, second), await it.told("b")


@pytest.mark.parametrize("held_up", [False, True])
@on_virtual_time
async def test_the_next_leader_keeps_the_rate_after_a_delayed_eviction(held_up: bool) -> None:
    async with cluster_with_scheduler(nodes=4) as it:
        async with running_controller(it.api, it.clock, **ONE_IN_A_HUNDRED_SECONDS):
            first, second, *_ = await begin(it)
            await move(it, first, held_up=held_up)
        async with running_controller(it.api, it.clock, **ONE_IN_A_HUNDRED_SECONDS):
            await it.move(second, "b")
            await pass_time(30)
            assert await pod_stays(it, second), await it.told("b")
