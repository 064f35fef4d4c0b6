"""Reservations are placed: their seats are held and nobody else's, or it is told why not."""

from __future__ import annotations

from restow.model import kinds
from tests.control.reservations.reservation_cluster import message, phase, read, reservation, seats, settled
from tests.control.scheduler_cluster import events, places, stage
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, pod


@on_virtual_time
async def test_seats_are_held_and_said_where_in_the_write_that_makes_it_available() -> None:
    async with stage(nodes=2) as it:
        made = await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        found = await read(it)
        assert (found.status.state.phase, found.status.available) == ("Available", 2)
        assert {where for where, _ in (await seats(it)).values()} == {"n1", "n2"}
        assert int(found.metadata.resource_version) == int(made.metadata.resource_version) + 1
        assert await events(it, "Reserved") == [("r", "2 of 2 seats are held or consumed: cpu 2, memory 128Mi")]


@on_virtual_time
async def test_one_that_fits_nowhere_says_why_and_keeps_trying() -> None:
    async with stage(nodes=2, cpu="4") as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="3"))
        await it.create(kinds.POD, pod("a", "3", app="other"))
        await settled(it)
        await it.create(kinds.RESERVATION, reservation("late", replicas=1, cpu="3"))
        await settled(it)
        late = await read(it, "late")
        why = (
            "namespace default may hold 50% of the cluster (reservations.namespaceShare): "
            "cpu (limit 4, held 3, requested 3)"
        )
        assert (late.status.state.phase, late.status.state.reason) == ("Pending", "Unschedulable")
        assert late.status.state.message == why
        assert await events(it, "Unschedulable") == [("late", why)]
        await it.create(kinds.NODE, node("n3", cpu="6"))
        await pass_time(12)
        assert await phase(it, "late") == ("Available", "Reserved")


@on_virtual_time
async def test_another_reason_to_wait_is_told_by_another_event() -> None:
    async with stage(nodes=1, cpu="4") as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="1000"))
        await settled(it)
        first = await message(it)
        await it.create(kinds.NODE, node("n2"))
        await pass_time(15)
        second = await message(it)
        assert first != second
        assert await events(it, "Unschedulable") == [("r", first), ("r", second)]


@on_virtual_time
async def test_held_room_is_nobody_elses() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await settled(it)
        await it.create(kinds.POD, pod("stranger", "3", app="other"))
        await pass_time(5)
        assert (await places(it))["stranger"] is None


@on_virtual_time
async def test_an_invalid_one_fails_with_every_path_and_holds_nothing() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(minAvailable=7, ttl="-1s"))
        await settled(it)
        assert await phase(it) == ("Failed", "Invalid")
        assert await message(it) == (
            "spec.minAvailable: 7 is more than the number of seats, 2; spec.ttl: -1s is negative; "
            "this is final: correct the spec and create the reservation again (kubectl replace --force)"
        )
        assert await seats(it) == {}


@on_virtual_time
async def test_one_that_names_another_scheduler_is_left_alone() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(schedulerName="other"))
        await settled(it)
        assert "status" not in await it.document(kinds.RESERVATION, "r")
