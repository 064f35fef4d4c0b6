"""Place reservations of plans that are carried out while the API server fails, or by a process that dies."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from restow.ports import ApiError
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import run_virtual
from tests.control.descheduler.descheduler_fixture import DESCHEDULER_FAULTS, ScatteredCluster, plan_runner
from tests.control.descheduler.place_reservation_fixture import (
    create_competing_pods,
    crowded_cluster,
    place_reservations,
    plan_with_places,
)
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.sim.simulated_cluster import pass_time

RUNS = int(os.environ.get("RESTOW_FAULT_RUNS", "1"))
BEHIND = (16, 51)
"""Seeds with which the view is behind: before a wave, and at the end."""


async def _dying(faults: FaultPlan) -> FaultyApi:
    """One process applies the plan and dies; competing pods come; another process continues."""
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        mortal = FaultyApi(it.api, Random(1), faults)

        async def first() -> None:
            await plan_runner(it, api=mortal).apply(plan)

        await run_until_crash(mortal, first())
        is_reserved = await place_reservations(it) != []
        if is_reserved:
            await pass_time(1)
        done = await plan_runner(it).apply(plan)
        assert (done.succeeded, done.filled_places) == (2, 2)
        await pass_time(5)
        assert {one.status.state.phase for one in await place_reservations(it)} <= {"Succeeded"}
        await assert_nothing_overcommitted(it)
    return mortal


def test_apply_may_die_after_any_write() -> None:
    names = run_virtual(_dying(FaultPlan())).writes.names
    written = [kind for name in names if (kind := name.split()[1]) != "Lease"]
    assert written == ["Reservation", "PodMigrationJob", "PodMigrationJob"]
    for name in names:
        assert run_virtual(_dying(FaultPlan(crash_after=name))).crashed.is_set(), name


async def _troubled(seed: int) -> None:
    """A process applies the plan under faults of every kind, again and again until it is done, with competing pods."""
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        competitors = asyncio.create_task(_steal_reserved_room(it))
        for attempt in range(40):
            shaky = FaultyApi(it.api, Random(seed * 100 + attempt), DESCHEDULER_FAULTS)
            try:
                done = await plan_runner(it, api=shaky).apply(plan)
                break
            except ApiError:
                await pass_time(1)
        assert (done.succeeded, done.filled_places) == (2, 2)
        await competitors
        await pass_time(30)
        assert {one.status.state.phase for one in await place_reservations(it)} <= {"Succeeded"}
        assert len(await it.jobs()) == 2
        await assert_nothing_overcommitted(it)


async def _steal_reserved_room(it: ScatteredCluster) -> None:
    """As soon as a place reservation holds seats."""
    while not any(one.status.placements for one in await place_reservations(it)):
        await pass_time(0.2)
    await create_competing_pods(it, 0.0)


@pytest.mark.parametrize("seed", [*range(RUNS), *(seed for seed in BEHIND if seed >= RUNS)])
def test_plan_and_its_place_reservations_survive_faults(seed: int) -> None:
    run_virtual(_troubled(seed))
