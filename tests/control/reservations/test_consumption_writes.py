"""When consumption writes get their turn: few at once, and as many as may be for as long as it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from restow.control.scheduler.consumption_writes import ConsumptionWrites
from restow.control.scheduler.settings import SchedulerSettings
from restow.model.object_key import Key
from tests.sim.simulated_cluster import on_virtual_time, pass_time

R = ("default", "r")
OTHERS = [("default", name) for name in "abc"]


@asynccontextmanager
async def running_writes(writers: int) -> AsyncIterator[tuple[ConsumptionWrites, list[Key]]]:
    """Consumption writes, and the reservations that have had their turn so far."""
    writes, turns = ConsumptionWrites(SchedulerSettings(consumption_writers=writers), asyncio.Semaphore()), list[Key]()
    running = asyncio.create_task(writes.run(turns.append))
    yield writes, turns
    running.cancel()


async def request_writes(writes: ConsumptionWrites, *keys: Key) -> None:
    for key in keys:
        writes.request(key, 0.25)
    await pass_time(1)


@on_virtual_time
async def test_a_seat_that_is_consumed_during_a_write_of_its_reservation_is_written_after_it() -> None:
    async with running_writes(writers=2) as (writes, turns):
        await request_writes(writes, R)
        writes.write_begins(R)
        await request_writes(writes, R)
        assert turns == [R]
        writes.write_ended(R)
        await pass_time(1)
        assert turns == [R, R]


@on_virtual_time
async def test_a_seat_that_is_consumed_before_a_write_begins_causes_no_second_write() -> None:
    async with running_writes(writers=2) as (writes, turns):
        await request_writes(writes, R)
        await request_writes(writes, R)
        writes.write_begins(R)
        writes.write_ended(R)
        await pass_time(1)
        assert turns == [R]


@on_virtual_time
async def test_repeated_requests_for_one_reservation_use_up_no_slots() -> None:
    async with running_writes(writers=2) as (writes, turns):
        await request_writes(writes, R)
        writes.write_begins(R)
        for _ in range(3):
            await request_writes(writes, R)
        writes.write_ended(R)
        await pass_time(1)
        writes.write_begins(R)
        writes.write_ended(R)
        await request_writes(writes, *OTHERS)
        assert len(set(turns) - {R}) == 2
