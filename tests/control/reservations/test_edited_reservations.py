"""Reservations that are edited or deleted: which of their seats they keep, give back or still need."""

from __future__ import annotations

from typing import Any

from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    pass_time_and_check_room,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod, template


async def change(it: SimulatedCluster, **task: Any) -> None:
    document = new_reservation()
    await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [{**document["spec"]["tasks"][0], **task}]}})
    await pass_time_and_check_room(it)


@on_virtual_time
async def test_fewer_replicas_free_the_room_of_the_removed_seats() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await change(it, replicas=1)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await pass_time_and_check_room(it)
        assert (len(await seats_by_index(it)), await nodes_by_pod(it)) == (1, {"big": "n1"})


@on_virtual_time
async def test_added_replicas_are_placed() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time_and_check_room(it)
        await change(it, replicas=2)
        assert (await phase_and_reason(it), len(await seats_by_index(it))) == (("Available", "Reserved"), 2)
        await change(it, replicas=3)
        assert (await phase_and_reason(it), len(await seats_by_index(it))) == (("Pending", "Unschedulable"), 2)
        await it.create(kinds.NODE, node("n2"))
        await pass_time(12)
        assert (await phase_and_reason(it), len(await seats_by_index(it))) == (("Available", "Reserved"), 3)


@on_virtual_time
async def test_refusal_message_is_about_the_edited_spec() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="5"))
        await pass_time_and_check_room(it)
        await change(it, replicas=1, template=template("6"))
        found = (await read_reservation(it)).status
        assert (found.observed_generation, found.state.reason) == (2, "Unschedulable")
        said = [text for _, text in await events_with_reason(it, "SeatsMissing")]
        assert said == ["the required seat is not held"]


@on_virtual_time
async def test_larger_template_costs_only_its_own_reservation_a_seat() -> None:
    async with scheduled_cluster(nodes=1, cpu="8") as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(2)
        await it.create(kinds.RESERVATION, new_reservation("newer", replicas=1))
        await pass_time_and_check_room(it)
        await change(it, replicas=1, template=template("8"))
        assert await phase_and_reason(it) == ("Failed", "RoomTaken")
        assert await phase_and_reason(it, "newer") == ("Available", "Reserved")


@on_virtual_time
async def test_edited_template_that_fits_keeps_its_seat() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time_and_check_room(it)
        await change(it, replicas=1, template=template("2"))
        found = await read_reservation(it)
        assert (found.status.state.phase, found.status.allocatable) == ("Available", {"cpu": "2", "memory": "64Mi"})


@on_virtual_time
async def test_reservation_made_invalid_fails_and_its_pods_keep_running() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("a"))
        await pass_time_and_check_room(it)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "-5s"}})
        await pass_time_and_check_room(it)
        assert await phase_and_reason(it) == ("Failed", "Invalid")
        assert await nodes_by_pod(it) == {"a": "n1"}


@on_virtual_time
async def test_deleted_reservation_holds_nothing_and_its_namesake_starts_anew() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("a", "1"))
        await pass_time_and_check_room(it)
        await it.delete(kinds.RESERVATION, "r")
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2"))
        await pass_time_and_check_room(it)
        assert await seats_by_index(it) == {0: ("n1", None)}
        assert await phase_and_reason(it) == ("Available", "Reserved")
