"""Reservations are placed and their seats held for their owners only, or the status says why not."""

from __future__ import annotations

from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    pass_time_and_check_room,
    phase_and_reason,
    read_reservation,
    seats_by_index,
    status_message,
)
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, pod


@on_virtual_time
async def test_placements_and_the_available_phase_are_one_write() -> None:
    async with scheduled_cluster(nodes=2) as it:
        made = await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        found = await read_reservation(it)
        assert (found.status.state.phase, found.status.available) == ("Available", 2)
        assert {where for where, _ in (await seats_by_index(it)).values()} == {"n1", "n2"}
        assert int(found.metadata.resource_version) == int(made.metadata.resource_version) + 1
        assert await events_with_reason(it, "Reserved") == [
            ("r", "2 of 2 seats are held or consumed: cpu 2, memory 128Mi")
        ]


@on_virtual_time
async def test_unschedulable_reservation_says_why_and_is_placed_later() -> None:
    async with scheduled_cluster(nodes=2, cpu="4") as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="3"))
        await it.create(kinds.POD, pod("a", "3", app="other"))
        await pass_time_and_check_room(it)
        await it.create(kinds.RESERVATION, new_reservation("late", replicas=1, cpu="3"))
        await pass_time_and_check_room(it)
        late = await read_reservation(it, "late")
        why = (
            "namespace default may hold 50% of the cluster (reservations.namespaceShare): "
            "cpu (limit 4, held 3, requested 3)"
        )
        assert (late.status.state.phase, late.status.state.reason) == ("Pending", "Unschedulable")
        assert late.status.state.message == why
        assert await events_with_reason(it, "Unschedulable") == [("late", why)]
        await it.create(kinds.NODE, node("n3", cpu="6"))
        await pass_time(12)
        assert await phase_and_reason(it, "late") == ("Available", "Reserved")


@on_virtual_time
async def test_changed_refusal_message_records_another_event() -> None:
    async with scheduled_cluster(nodes=1, cpu="4") as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="1000"))
        await pass_time_and_check_room(it)
        first = await status_message(it)
        await it.create(kinds.NODE, node("n2"))
        await pass_time(15)
        second = await status_message(it)
        assert first != second
        assert await events_with_reason(it, "Unschedulable") == [("r", first), ("r", second)]


@on_virtual_time
async def test_reserved_room_is_not_given_to_other_pods() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2"))
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("stranger", "3", app="other"))
        await pass_time(5)
        assert (await nodes_by_pod(it))["stranger"] is None


@on_virtual_time
async def test_invalid_reservation_fails_naming_every_path() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(minAvailable=7, ttl="-1s"))
        await pass_time_and_check_room(it)
        assert await phase_and_reason(it) == ("Failed", "Invalid")
        assert await status_message(it) == (
            "spec.minAvailable: 7 is more than the number of seats, 2; spec.ttl: -1s is negative; "
            "this is final: correct the spec and create the reservation again (kubectl replace --force)"
        )
        assert await seats_by_index(it) == {}


@on_virtual_time
async def test_reservation_of_another_scheduler_is_left_alone() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(schedulerName="other"))
        await pass_time_and_check_room(it)
        assert "status" not in await it.document(kinds.RESERVATION, "r")
