"""Assumptions that no event confirms."""

from __future__ import annotations

import pytest

from restow.control.scheduler import Settings
from restow.model import kinds
from tests.control.interference import Blind
from tests.control.stage import PutBack, places, stage, world
from tests.sim.stage import pass_time, pod, scheduler, virtual


@pytest.mark.parametrize(
    ("deleted", "fits"), [pytest.param(True, True, id="it is gone"), pytest.param(False, False, id="it is there")]
)
def test_an_assumption_that_no_event_confirms_is_looked_up(deleted: bool, fits: bool) -> None:
    @virtual
    async def run() -> None:
        settings = Settings(leak_check=5.0, leak_age=10.0)
        async with stage(around=lambda api: Blind(api, "a"), nodes=1, settings=settings) as it:
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            if deleted:
                await it.delete(kinds.POD, "a", grace_seconds=0)
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(3)
            assert (await places(it))["b"] is None
            await pass_time(30)
            assert ((await places(it))["b"] == "n1") is fits

    run()


@virtual
async def test_an_assumption_that_a_clock_put_back_made_young_is_looked_up_too() -> None:
    async with world(nodes=1) as it:
        clock = PutBack(it.clock)
        async with scheduler(Blind(it.api, "a"), clock, settings=Settings(leak_check=5.0)):
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            await it.delete(kinds.POD, "a", grace_seconds=0)
            clock.by = 3600.0
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(20)
            assert await places(it) == {"b": "n1"}
