"""Seats in room that pods are still leaving are held, and the reservation is Waiting until the pods have left."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec.structs import replace

from restow.control.scheduler.reservation_status import split_recorded_and_assumed
from restow.model import kinds
from restow.model.objects import Document, ObjectReference, Placement
from restow.model.reservations.status import SeatObservation
from restow.ports import Api, Request, Response
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    phase_and_reason,
    read_reservation,
    seats_by_index,
    status_message,
)
from tests.control.scheduler_cluster import scheduled_cluster
from tests.model.reservations.builders import web_reservation
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, pod, template


@on_virtual_time
async def test_reservation_waits_for_room_that_terminating_pods_are_leaving() -> None:
    async with scheduled_cluster(nodes=1, stop=20.0) as it:
        await it.create(kinds.POD, pod("old", "3", app="other", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2"))
        await pass_time(5)
        assert await phase_and_reason(it) == ("Waiting", "RoomBeingLeft")
        assert "have not left node n1 yet" in (await status_message(it) or "")
        await pass_time(30)
        assert await phase_and_reason(it) == ("Available", "Reserved")
        assert [one.status for one in (await read_reservation(it)).status.conditions or ()] == ["Waiting", "Available"]


@on_virtual_time
async def test_reservation_waits_for_an_anti_affine_pod_on_another_node_to_leave() -> None:
    """Nothing happens on the node of the seat when it has left."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with scheduled_cluster(nodes=0, stop=20.0) as it:
        for name in ("n1", "n2"):
            await it.create(kinds.NODE, node(name, cpu="8", zone="a"))
        await it.create(kinds.POD, pod("old", "8", nodeName="n2", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        made = new_reservation(replicas=1, owners=[{"object": {"kind": "Pod", "name": "new"}}])
        made["spec"]["tasks"][0]["template"] = template("1", affinity=apart)
        made["spec"]["tasks"][0]["reservationNodeNames"] = ["n1"]
        await it.create(kinds.RESERVATION, made)
        await pass_time(5)
        assert (await seats_by_index(it), (await phase_and_reason(it))[0]) == ({0: ("n1", None)}, "Waiting")
        await pass_time(30)
        assert await phase_and_reason(it) == ("Available", "Reserved")


class SlowStatus:
    """An Api that takes its time to say that the status of a reservation is written, if it is to."""

    seconds = 0.0

    def around(self, api: Api) -> Api:
        self._api, self.watch = api, api.watch
        return self

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if (request.resource.plural, request.subresource) == ("reservations", "status"):
            await asyncio.sleep(self.seconds)
        return response


def on_port(spec: Document) -> None:
    spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]


@pytest.mark.parametrize("seconds", [0.0, 3.0], ids=["written at once", "written when the next seat was found"])
@on_virtual_time
async def test_unguaranteed_seat_found_during_a_status_write_is_waited_for(seconds: float) -> None:
    slow = SlowStatus()
    async with scheduled_cluster(nodes=2, around=slow.around, stop=60.0) as it:
        old = pod("old", app="other", nodeName="n2", terminationGracePeriodSeconds=60)
        on_port(old["spec"])
        await it.create(kinds.POD, old)
        await pass_time(3)
        made = new_reservation(replicas=1)
        on_port(made["spec"]["tasks"][0]["template"]["spec"])
        await it.create(kinds.RESERVATION, made)
        await pass_time(3)
        slow.seconds = seconds
        await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [{**made["spec"]["tasks"][0], "replicas": 2}]}})
        await pass_time(0.5)
        await it.delete(kinds.POD, "old")
        await pass_time(2)
        slow.seconds = 0.0
        await pass_time(10)
        assert (await phase_and_reason(it), await seats_by_index(it)) == (
            ("Waiting", "RoomBeingLeft"),
            {0: ("n1", None), 1: ("n2", None)},
        )
        await pass_time(60)
        assert await phase_and_reason(it) == ("Available", "Reserved")


def test_recorded_and_assumed_seats_are_split_fast_for_thousands_of_seats() -> None:
    taken = replace(Placement(task="t", index=2, node_name="n1"), pod_ref=ObjectReference(uid="uid-p"))
    placed = [Placement(task="t", index=index, node_name="n1") for index in range(20_000)]
    seats = [SeatObservation(one) for one in [*placed[:2], taken, *placed[3:]]]
    began = time.process_time()
    recorded, assumed = split_recorded_and_assumed(web_reservation("r", at={0: "n1"}), seats)
    assert time.process_time() - began < 1.0
    assert ([one.placement.index for one in recorded], len(assumed)) == ([0, 2], 19_998)
