"""Assumed pods and seats that no event confirms."""

from __future__ import annotations

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Placement
from tests.control.interfering_api import BlindWatchApi
from tests.control.reservations.reservation_cluster import new_reservation
from tests.control.scheduler_cluster import SetBackClock, nodes_by_pod, scheduled_cluster, unscheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, running_scheduler


@pytest.mark.parametrize(
    ("deleted", "fits"),
    [pytest.param(True, True, id="the pod is gone"), pytest.param(False, False, id="the pod exists")],
)
def test_unconfirmed_assumed_pod_is_read_from_the_api(deleted: bool, fits: bool) -> None:
    @on_virtual_time
    async def run() -> None:
        settings = SchedulerSettings(assumed_pod_check_period=5.0, assumed_pod_max_age=10.0)
        async with scheduled_cluster(around=lambda api: BlindWatchApi(api, "a"), nodes=1, settings=settings) as it:
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            if deleted:
                await it.delete(kinds.POD, "a", grace_seconds=0)
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(3)
            assert (await nodes_by_pod(it))["b"] is None
            await pass_time(30)
            assert ((await nodes_by_pod(it))["b"] == "n1") is fits

    run()


@on_virtual_time
async def test_unconfirmed_assumed_pod_is_read_after_the_clock_was_set_back() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        clock = SetBackClock(it.clock)
        async with running_scheduler(
            BlindWatchApi(it.api, "a"), clock, settings=SchedulerSettings(assumed_pod_check_period=5.0)
        ):
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            await it.delete(kinds.POD, "a", grace_seconds=0)
            clock.set_back_by = 3600.0
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(20)
            assert await nodes_by_pod(it) == {"b": "n1"}


@pytest.mark.parametrize(
    ("by", "seconds", "left"),
    [
        pytest.param(0.0, 20.0, 1, id="young assumption is kept"),
        pytest.param(0.0, 40.0, 0, id="old assumption expires"),
        pytest.param(3600.0, 5.0, 0, id="expires after the clock was set back"),
    ],
)
@on_virtual_time
async def test_assumed_seats_without_a_status_write_expire(by: float, seconds: float, left: int) -> None:
    """No event reports seats that were assumed without a write."""
    async with unscheduled_cluster(nodes=1) as it:
        clock = SetBackClock(it.clock)
        async with running_scheduler(it.api, clock, settings=SchedulerSettings(assumed_pod_max_age=30.0)) as made:
            found = await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="9"))
            await pass_time(2)
            snapshot = made._cache.snapshot
            snapshot.assume_placements(found, [Placement(task="web", index=0, node_name="n1")], at=clock.now())
            clock.set_back_by = by
            await pass_time(seconds)
            assert len(list(snapshot.reservations.placements.assumed(clock.now()))) == left
