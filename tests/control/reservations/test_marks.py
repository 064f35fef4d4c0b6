"""When marks get their turn: few at once, and as many as may be for as long as it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from restow.control.scheduler.consumption_writes import ConsumptionWrites
from restow.control.scheduler.settings import SchedulerSettings
from restow.model.cluster.names import Key
from tests.sim.stage import pass_time, virtual

R = ("default", "r")
OTHERS = [("default", name) for name in "abc"]


@asynccontextmanager
async def marking(writers: int) -> AsyncIterator[tuple[ConsumptionWrites, list[Key]]]:
    """Marks, and those whose turn has come so far."""
    marks, turns = ConsumptionWrites(SchedulerSettings(mark_writers=writers)), list[Key]()
    running = asyncio.create_task(marks.run(turns.append))
    yield marks, turns
    running.cancel()


async def take_seats(marks: ConsumptionWrites, *keys: Key) -> None:
    for key in keys:
        marks.ask(key, 0.25)
    await pass_time(1)


@virtual
async def test_who_takes_a_seat_while_others_are_being_marked_has_its_turn_afterwards() -> None:
    async with marking(writers=2) as (marks, turns):
        await take_seats(marks, R)
        marks.begun(R)
        await take_seats(marks, R)
        assert turns == [R]
        marks.ended(R)
        await pass_time(1)
        assert turns == [R, R]


@virtual
async def test_who_is_marked_with_the_others_after_all_has_no_turn_of_its_own() -> None:
    async with marking(writers=2) as (marks, turns):
        await take_seats(marks, R)
        await take_seats(marks, R)
        marks.begun(R)
        marks.ended(R)
        await pass_time(1)
        assert turns == [R]


@virtual
async def test_as_many_are_written_at_once_as_before_however_many_pods_came_meanwhile() -> None:
    async with marking(writers=2) as (marks, turns):
        await take_seats(marks, R)
        marks.begun(R)
        for _ in range(3):
            await take_seats(marks, R)
        marks.ended(R)
        await pass_time(1)
        marks.begun(R)
        marks.ended(R)
        await take_seats(marks, *OTHERS)
        assert len(set(turns) - {R}) == 2
