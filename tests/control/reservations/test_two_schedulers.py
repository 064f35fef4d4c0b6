"""Two schedulers, each with reservations of its own, in one cluster."""

from __future__ import annotations

import random

from restow.control.scheduler import Scheduler
from restow.model import kinds
from restow.scheduling.registry import read_profile
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason, seats_by_index
from tests.control.scheduler_cluster import (
    assert_nothing_overcommitted,
    condition_of_pod,
    nodes_by_pod,
    unscheduled_cluster,
)
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_component


def playing(it: SimulatedCluster, name: str, seed: int) -> Scheduler:
    return Scheduler(it.api, it.clock, random.Random(seed), profile=read_profile({"schedulerNames": [name]}))


@on_virtual_time
async def test_seat_is_consumed_only_by_pods_of_its_scheduler() -> None:
    async with (
        unscheduled_cluster(nodes=1, cpu="3") as it,
        running_component(playing(it, "restow", 1)),
        running_component(playing(it, "batch", 2)),
    ):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="1500m", schedulerName="batch"))
        await pass_time(3)
        await it.create(kinds.POD, pod("filler", "1500m", app="other", schedulerName="batch"))
        await pass_time(3)
        await it.create(kinds.POD, pod("ours", "1500m", schedulerName="restow"))
        await it.create(kinds.POD, pod("theirs", "1500m", schedulerName="batch"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"filler": "n1", "ours": None, "theirs": "n1"}
        assert await seats_by_index(it) == {0: ("n1", "theirs")}
        await assert_nothing_overcommitted(it)


@on_virtual_time
async def test_seat_handed_to_another_scheduler_is_not_assigned_by_us() -> None:
    async with unscheduled_cluster(nodes=1) as it, running_component(playing(it, "restow", 1)):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2"))
        await pass_time(3)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": "nobody"}})
        await pass_time(3)
        await it.create(kinds.POD, pod("a", "3", schedulerName="restow"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"a": None}
        assert await phase_and_reason(it) == ("Available", "Reserved")
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": "restow"}})
        await pass_time(15)
        assert await seats_by_index(it) == {0: ("n1", "a")}


@on_virtual_time
async def test_pod_naming_a_reservation_waits_until_it_is_for_its_scheduler() -> None:
    async with (
        unscheduled_cluster(nodes=1) as it,
        running_component(playing(it, "restow", 1)),
        running_component(playing(it, "batch", 2)),
    ):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, schedulerName="batch"))
        await pass_time(3)
        asks = {"restow.sh/use-reservation": "r"}
        await it.create(kinds.POD, pod("a", "1", schedulerName="restow", annotations=asks))
        await pass_time(3)
        told = "reservation default/r is not available: it is for pods of scheduler batch"
        assert await condition_of_pod(it, "a") == ("False", "Unschedulable", told)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": "restow"}})
        await pass_time(15)
        assert await seats_by_index(it) == {0: ("n1", "a")}
