"""Assumptions that no event confirms."""

from __future__ import annotations

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Placement
from tests.control.interfering_api import Blind
from tests.control.reservations.reservation_cluster import reservation
from tests.control.scheduler_cluster import PutBack, places, stage, world
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, running_scheduler


@pytest.mark.parametrize(
    ("deleted", "fits"), [pytest.param(True, True, id="it is gone"), pytest.param(False, False, id="it is there")]
)
def test_an_assumption_that_no_event_confirms_is_looked_up(deleted: bool, fits: bool) -> None:
    @on_virtual_time
    async def run() -> None:
        settings = SchedulerSettings(assumed_pod_check_period=5.0, assumed_pod_max_age=10.0)
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


@on_virtual_time
async def test_an_assumption_that_a_clock_put_back_made_young_is_looked_up_too() -> None:
    async with world(nodes=1) as it:
        clock = PutBack(it.clock)
        async with running_scheduler(
            Blind(it.api, "a"), clock, settings=SchedulerSettings(assumed_pod_check_period=5.0)
        ):
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            await it.delete(kinds.POD, "a", grace_seconds=0)
            clock.by = 3600.0
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(20)
            assert await places(it) == {"b": "n1"}


@pytest.mark.parametrize(
    ("by", "seconds", "left"),
    [
        pytest.param(0.0, 20.0, 1, id="not while it is young"),
        pytest.param(0.0, 40.0, 0, id="it is old"),
        pytest.param(3600.0, 5.0, 0, id="a clock put back made it young"),
    ],
)
@on_virtual_time
async def test_seats_that_nobody_writes_down_are_looked_at(by: float, seconds: float, left: int) -> None:
    """Because nobody was told of them."""
    async with world(nodes=1) as it:
        clock = PutBack(it.clock)
        async with running_scheduler(it.api, clock, settings=SchedulerSettings(assumed_pod_max_age=30.0)) as made:
            found = await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="9"))
            await pass_time(2)
            snapshot = made._cache.snapshot
            snapshot.assume_placements(found, [Placement(task="web", index=0, node_name="n1")], at=clock.now())
            clock.by = by
            await pass_time(seconds)
            assert len(list(snapshot.reservations.placements.assumed(clock.now()))) == left
