"""The descheduler behind faults of every kind, and dying after any of its writes: no pod ever gets two jobs."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import run_virtual
from tests.control.descheduler.descheduler_fixture import (
    DESCHEDULER_FAULTS,
    defragmentation_section,
    descheduler,
    scattered_cluster,
)
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.sim.simulated_cluster import pass_time, running_component

RUNS = int(os.environ.get("RESTOW_FAULT_RUNS", "4"))


async def _pack(plan: FaultPlan, seed: int) -> FaultyApi:
    """The first descheduler works behind faults, perhaps until it dies; then another one takes over."""
    async with scattered_cluster() as it:
        mortal = FaultyApi(it.api, random.Random(seed), plan)

        async def first() -> None:
            async with running_component(
                descheduler(it, defragmentation_section(interval="30s"), api=mortal, seed=seed)
            ):
                await asyncio.sleep(200)

        await run_until_crash(mortal, first())
        async with running_component(descheduler(it, defragmentation_section(interval="30s"), seed=seed + 1)):
            await pass_time(400)
            assert await it.occupied_nodes() == {"n1"}
        moved = [job.spec.pod_ref.uid for job in await it.jobs()]
        assert len(moved) == len(set(moved)) == 4, [(job.metadata.name, job.status.message) for job in await it.jobs()]
        await assert_nothing_overcommitted(it)
    return mortal


@pytest.mark.parametrize("seed", range(RUNS))
def test_every_pod_gets_one_job_under_faults(seed: int) -> None:
    run_virtual(_pack(DESCHEDULER_FAULTS, seed))


def test_descheduler_may_die_after_any_of_its_writes() -> None:
    names = run_virtual(_pack(FaultPlan(), 1)).writes.names
    jobs = [index for index, name in enumerate(names) if name.startswith("create PodMigrationJob")]
    assert len(jobs) == 4, names
    for name in names[: jobs[-1] + 2]:  # after which turns begin and end in which nothing is left to do
        assert run_virtual(_pack(FaultPlan(crash_after=name), 1)).crashed.is_set(), name
