"""Two schedulers, each with reservations of its own, in one cluster."""

from __future__ import annotations

import random

from restow.control.scheduler import Scheduler
from restow.model import kinds
from restow.scheduling.registry import read_profile
from tests.control.reservations.reservation_cluster import phase, reservation, seats
from tests.control.scheduler_cluster import check_room, condition, places, world
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_component


def playing(it: SimulatedCluster, name: str, seed: int) -> Scheduler:
    return Scheduler(it.api, it.clock, random.Random(seed), profile=read_profile({"schedulerNames": [name]}))


@on_virtual_time
async def test_a_seat_is_for_the_pods_of_the_scheduler_that_looks_after_it() -> None:
    async with (
        world(nodes=1, cpu="3") as it,
        running_component(playing(it, "restow", 1)),
        running_component(playing(it, "batch", 2)),
    ):
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="1500m", schedulerName="batch"))
        await pass_time(3)
        await it.create(kinds.POD, pod("filler", "1500m", app="other", schedulerName="batch"))
        await pass_time(3)
        await it.create(kinds.POD, pod("ours", "1500m", schedulerName="restow"))
        await it.create(kinds.POD, pod("theirs", "1500m", schedulerName="batch"))
        await pass_time(5)
        assert await places(it) == {"filler": "n1", "ours": None, "theirs": "n1"}
        assert await seats(it) == {0: ("n1", "theirs")}
        await check_room(it)


@on_virtual_time
async def test_a_seat_that_was_handed_to_another_scheduler_is_not_given_away_by_us() -> None:
    async with world(nodes=1) as it, running_component(playing(it, "restow", 1)):
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await pass_time(3)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": "nobody"}})
        await pass_time(3)
        await it.create(kinds.POD, pod("a", "3", schedulerName="restow"))
        await pass_time(5)
        assert await places(it) == {"a": None}
        assert await phase(it) == ("Available", "Reserved")
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": "restow"}})
        await pass_time(15)
        assert await seats(it) == {0: ("n1", "a")}


@on_virtual_time
async def test_who_asks_for_it_by_name_waits_until_it_is_for_it() -> None:
    async with (
        world(nodes=1) as it,
        running_component(playing(it, "restow", 1)),
        running_component(playing(it, "batch", 2)),
    ):
        await it.create(kinds.RESERVATION, reservation(replicas=1, schedulerName="batch"))
        await pass_time(3)
        asks = {"restow.sh/use-reservation": "r"}
        await it.create(kinds.POD, pod("a", "1", schedulerName="restow", annotations=asks))
        await pass_time(3)
        told = "reservation default/r is not available: it is for pods of scheduler batch"
        assert await condition(it, "a") == ("False", "Unschedulable", told)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": "restow"}})
        await pass_time(15)
        assert await seats(it) == {0: ("n1", "a")}
