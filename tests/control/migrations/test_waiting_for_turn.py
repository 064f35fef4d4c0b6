"""A job that is ready to evict and waits for its turn: what it hears of in the meantime counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from restow.control.migrations import MigrationConfiguration, MigrationController
from restow.migration.conditions import is_evicting
from restow.model import kinds
from restow.model.objects import Pod
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod

PACE: dict[str, Any] = {"evictQPS": 0.25, "evictBurst": 1, "maxConcurrentReconciles": 4}
Interference = Callable[[MigrationCluster, MigrationController], Awaitable[Any]]


@asynccontextmanager
async def about_to_evict() -> AsyncIterator[tuple[MigrationCluster, MigrationController, Pod]]:
    """Another pod was evicted, and job b has written down that it evicts the next one, in half a second."""
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock, **PACE) as made:
        first, second = await it.start(2)
        await it.move(first, "a")
        while await pod_stays(it, first):
            await asyncio.sleep(0.01)
        await it.move(second, "b")
        while not is_evicting((await it.job("b")).status):
            await asyncio.sleep(0.01)
        assert await pod_stays(it, second)
        yield it, made, second


async def stop(it: MigrationCluster, made: MigrationController) -> None:
    await it.stop()


async def pause(it: MigrationCluster, made: MigrationController) -> None:
    await it.patch(kinds.POD_MIGRATION_JOB, "b", {"spec": {"paused": True}})


async def abort(it: MigrationCluster, made: MigrationController) -> None:
    await it.set_status("b", phase="Aborted")


async def delete_job(it: MigrationCluster, made: MigrationController) -> None:
    await it.delete(kinds.POD_MIGRATION_JOB, "b")


async def rehearse(it: MigrationCluster, made: MigrationController) -> None:
    made.configure(MigrationConfiguration(migration_arguments(**PACE, dryRun=True)))


async def switch_off(it: MigrationCluster, made: MigrationController) -> None:
    made.configure(MigrationConfiguration(replace(migration_arguments(**PACE), enabled=False)))


async def remove_seat(it: MigrationCluster, made: MigrationController) -> None:
    await it.delete(kinds.RESERVATION, (await seat(it))[0])


async def cordon(it: MigrationCluster, made: MigrationController) -> None:
    await it.patch(kinds.NODE, (await seat(it))[1], {"spec": {"unschedulable": True}})


async def take_room(it: MigrationCluster, made: MigrationController) -> None:
    where = (await seat(it))[1]
    await it.create(kinds.POD, pod("thief", "3800m", app="thief", nodeName=where, schedulerName="other"))


async def seat(it: MigrationCluster) -> tuple[str, str]:
    """The reservation that no pod has consumed yet, and its node."""
    [made] = [one for one in await it.reservations() if one.status.state.phase == "Available"]
    return made.metadata.name, (made.status.placements or [])[0].node_name


@pytest.mark.parametrize(
    ("interfere", "told"),
    [
        (stop, "Running Stopped: evictions are stopped"),
        (pause, "Running Paused: the job is paused"),
        (abort, "Aborted Aborted: the job was aborted by a user"),
        (delete_job, None),
        (rehearse, "Aborted DryRun: dry run, but reservation"),
        (switch_off, "Running Evicting"),  # no controller looks after it
        (remove_seat, "Failed MissingReservation"),
        (cordon, "Failed Unschedulable"),
        (take_room, "Failed RoomTaken"),
    ],
)
@on_virtual_time
async def test_a_change_while_waiting_for_the_turn_holds_the_eviction_back(
    interfere: Interference, told: str | None
) -> None:
    async with about_to_evict() as (it, made, old):
        await interfere(it, made)
        await pass_time(3)
        if told is not None:
            phase, reason, message = await it.told("b")
            assert f"{phase} {reason}: {message}".startswith(told)
            assert "may still take effect" not in (message or "")
        await pass_time(27)
        assert await pod_stays(it, old)


@on_virtual_time
async def test_a_job_stopped_until_its_timeout_says_so_and_releases_its_seat() -> None:
    async with about_to_evict() as (it, _, old):
        await it.stop()
        await pass_time(400)
        phase, reason, message = await it.told("b")
        assert (phase, reason) == ("Failed", "Timeout")
        assert "evictions are stopped" in (message or "") and "may still take effect" not in (message or "")
        assert await pod_stays(it, old)
        assert [one for one in await it.reservations() if one.status.state.phase == "Available"] == []


@on_virtual_time
async def test_a_job_evicts_when_its_turn_comes() -> None:
    async with about_to_evict() as (it, _, old):
        await pass_time(1)
        assert not await pod_stays(it, old)
        await pass_time(30)
        assert (await it.told("b"))[0] == "Succeed"


@on_virtual_time
async def test_a_job_stopped_at_its_turn_evicts_when_resumed() -> None:
    async with about_to_evict() as (it, _, old):
        await it.stop()
        await pass_time(30)
        assert await pod_stays(it, old)
        await it.go()
        await pass_time(30)
        assert (await it.told("b"))[0] == "Succeed"
