"""Reservations behind faults of every kind: schedulers die after any write, and the promises hold after every one."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from restow.model import kinds
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import run_virtual
from tests.control.reservations import chaos
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason, seats_by_index
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, pass_time, pod, running_scheduler

RUNS = int(os.environ.get("RESTOW_FAULT_RUNS", "4"))


@pytest.mark.parametrize("seed", range(RUNS))
def test_promises_hold_after_every_write_in_seeded_runs(seed: int) -> None:
    run_virtual(chaos.run(seed))


async def _live(plan: FaultPlan) -> FaultyApi:
    """A reservation is placed, used, and another one expires; perhaps the scheduler dies, and a successor goes on."""
    async with unscheduled_cluster(nodes=2) as it:
        auditor = WriteAuditor(it.api, it.clock)
        mortal = FaultyApi(auditor, random.Random(3), plan)

        async def first() -> None:
            async with running_scheduler(mortal, it.clock):
                await asyncio.sleep(25)

        await it.create(kinds.RESERVATION, new_reservation())
        await it.create(kinds.RESERVATION, new_reservation("brief", replicas=1, ttl="20s", owners=[]))
        users = asyncio.create_task(_use(it))
        await run_until_crash(mortal, first())
        async with running_scheduler(auditor, it.clock, seed=2):
            await users
            await pass_time(30)
            assert (await phase_and_reason(it), await phase_and_reason(it, "brief")) == (
                ("Succeeded", "Consumed"),
                ("Failed", "Expired"),
            )
            assert {name for _, name in (await seats_by_index(it)).values()} == {"a", "b"}
            assert auditor.faults == []
    return mortal


async def _use(it: SimulatedCluster) -> None:
    await pass_time(5)
    await it.create(kinds.POD, pod("a"))
    await pass_time(5)
    await it.create(kinds.POD, pod("b"))


def test_reservations_survive_a_crash_of_the_scheduler_after_any_write() -> None:
    names = run_virtual(_live(FaultPlan())).writes.names
    assert sum(name.startswith("patch Reservation/status") for name in names) == 5
    for name in names:
        assert run_virtual(_live(FaultPlan(crash_after=name))).crashed.is_set(), name
