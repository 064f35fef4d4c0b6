"""A reservation that is deleted while somebody's finalizer keeps the object: its room is free at once."""

from __future__ import annotations

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import phase, read, reservation, seats
from tests.control.scheduler_cluster import events, places, stage
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod


def kept(cpu: str = "2") -> Document:
    made = reservation(replicas=1, cpu=cpu)
    made["metadata"]["finalizers"] = ["example.com/keep"]
    return made


@on_virtual_time
async def test_it_holds_nothing_and_nobody_takes_its_seat() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, kept())
        await pass_time(3)
        await it.create(kinds.POD, pod("other", "3", app="other"))
        await pass_time(30)
        await it.delete(kinds.RESERVATION, "r")
        await pass_time(2)
        assert (await read(it)).metadata.deletion_timestamp is not None
        assert (await places(it))["other"] == "n1"
        await it.create(kinds.POD, pod("web", "1"))
        await it.create(kinds.POD, pod("insists", "100m", annotations={"restow.sh/use-reservation": "r"}))
        await pass_time(3)
        assert (await places(it), await seats(it)) == ({"insists": None, "other": "n1", "web": "n1"}, {0: ("n1", None)})
        assert [text for _, text in await events(it, "InvalidReservation")][-1].endswith("it does not exist")


@on_virtual_time
async def test_it_is_not_placed_any_more_and_another_of_the_name_is() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.POD, pod("other", "4", app="other"))
        await pass_time(2)
        await it.create(kinds.RESERVATION, kept())
        await pass_time(3)
        assert await phase(it) == ("Pending", "Unschedulable")
        await it.delete(kinds.RESERVATION, "r")
        await it.delete(kinds.POD, "other", grace_seconds=0)
        await pass_time(30)
        assert (await phase(it), await seats(it)) == (("Pending", "Unschedulable"), {})
        await it.patch(kinds.RESERVATION, "r", {"metadata": {"finalizers": None}})
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await pass_time(3)
        assert (await phase(it), await seats(it)) == (("Available", "Reserved"), {0: ("n1", None)})
