"""Reservations that are changed or deleted: what of their seats they keep, give back or still need."""

from __future__ import annotations

from typing import Any

from restow.model import kinds
from tests.control.reservations.reservation_cluster import phase, read, reservation, seats, settled
from tests.control.scheduler_cluster import events, places, stage
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod, template


async def change(it: SimulatedCluster, **task: Any) -> None:
    document = reservation()
    await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [{**document["spec"]["tasks"][0], **task}]}})
    await settled(it)


@on_virtual_time
async def test_fewer_replicas_give_room_back() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await change(it, replicas=1)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await settled(it)
        assert (len(await seats(it)), await places(it)) == (1, {"big": "n1"})


@on_virtual_time
async def test_more_replicas_are_placed_later() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await settled(it)
        await change(it, replicas=2)
        assert (await phase(it), len(await seats(it))) == (("Available", "Reserved"), 2)
        await change(it, replicas=3)
        assert (await phase(it), len(await seats(it))) == (("Pending", "Unschedulable"), 2)
        await it.create(kinds.NODE, node("n2"))
        await pass_time(12)
        assert (await phase(it), len(await seats(it))) == (("Available", "Reserved"), 3)


@on_virtual_time
async def test_what_is_said_of_one_that_waits_is_said_of_what_it_asks_for() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="5"))
        await settled(it)
        await change(it, replicas=1, template=template("6"))
        found = (await read(it)).status
        assert (found.observed_generation, found.state.reason) == (2, "Unschedulable")
        said = [text for _, text in await events(it, "SeatsMissing")]
        assert said == ["the required seat is not held"]


@on_virtual_time
async def test_a_template_that_grows_costs_nobody_but_itself() -> None:
    async with stage(nodes=1, cpu="8") as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await pass_time(2)
        await it.create(kinds.RESERVATION, reservation("newer", replicas=1))
        await settled(it)
        await change(it, replicas=1, template=template("8"))
        assert await phase(it) == ("Failed", "RoomTaken")
        assert await phase(it, "newer") == ("Available", "Reserved")


@on_virtual_time
async def test_a_template_that_still_fits_keeps_its_seat() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await settled(it)
        await change(it, replicas=1, template=template("2"))
        found = await read(it)
        assert (found.status.state.phase, found.status.allocatable) == ("Available", {"cpu": "2", "memory": "64Mi"})


@on_virtual_time
async def test_one_that_is_made_invalid_fails_and_its_pods_run() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.POD, pod("a"))
        await settled(it)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "-5s"}})
        await settled(it)
        assert await phase(it) == ("Failed", "Invalid")
        assert await places(it) == {"a": "n1"}


@on_virtual_time
async def test_one_that_is_deleted_holds_nothing_and_a_namesake_begins_anew() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.POD, pod("a", "1"))
        await settled(it)
        await it.delete(kinds.RESERVATION, "r")
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await settled(it)
        assert await seats(it) == {0: ("n1", None)}
        assert await phase(it) == ("Available", "Reserved")
