"""A reservation that is deleted while a finalizer keeps the object: its room is free at once."""

from __future__ import annotations

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod


def kept(cpu: str = "2") -> Document:
    made = new_reservation(replicas=1, cpu=cpu)
    made["metadata"]["finalizers"] = ["example.com/keep"]
    return made


@on_virtual_time
async def test_terminating_reservation_holds_nothing_and_its_seat_is_not_consumed() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, kept())
        await pass_time(3)
        await it.create(kinds.POD, pod("other", "3", app="other"))
        await pass_time(30)
        await it.delete(kinds.RESERVATION, "r")
        await pass_time(2)
        assert (await read_reservation(it)).metadata.deletion_timestamp is not None
        assert (await nodes_by_pod(it))["other"] == "n1"
        await it.create(kinds.POD, pod("web", "1"))
        await it.create(kinds.POD, pod("insists", "100m", annotations={"restow.sh/use-reservation": "r"}))
        await pass_time(3)
        assert (await nodes_by_pod(it), await seats_by_index(it)) == (
            {"insists": None, "other": "n1", "web": "n1"},
            {0: ("n1", None)},
        )
        assert [text for _, text in await events_with_reason(it, "InvalidReservation")][-1].endswith(
            "it does not exist"
        )


@on_virtual_time
async def test_terminating_reservation_is_not_placed_and_its_namesake_is() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("other", "4", app="other"))
        await pass_time(2)
        await it.create(kinds.RESERVATION, kept())
        await pass_time(3)
        assert await phase_and_reason(it) == ("Pending", "Unschedulable")
        await it.delete(kinds.RESERVATION, "r")
        await it.delete(kinds.POD, "other", grace_seconds=0)
        await pass_time(30)
        assert (await phase_and_reason(it), await seats_by_index(it)) == (("Pending", "Unschedulable"), {})
        await it.patch(kinds.RESERVATION, "r", {"metadata": {"finalizers": None}})
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2"))
        await pass_time(3)
        assert (await phase_and_reason(it), await seats_by_index(it)) == (("Available", "Reserved"), {0: ("n1", None)})
