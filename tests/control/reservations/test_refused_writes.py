"""A server that refuses the status of reservations: no seat is held without a status, and no consumption forgotten."""

from __future__ import annotations

import asyncio

import pytest

from restow.client.verbs import Client
from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, ApiError, Conflict, Forbidden, Request, Response
from tests.control.interfering_api import UNKNOWN
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason, seats_by_index
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod


class Strict:
    """An Api that refuses writes of the status of reservations for a while."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.refuses = True
        self.refused = 0
        self._error = error or Forbidden.because(403, "Forbidden", "no rights")

    def around(self, api: Api) -> Api:
        self.watch, self._api = api.watch, api
        return self

    async def call(self, request: Request) -> Response:
        if self.refuses and (request.resource.plural, request.subresource) == ("reservations", "status"):
            self.refused += 1
            raise self._error
        return await self._api.call(request)


@on_virtual_time
async def test_seats_of_a_refused_status_are_not_held_and_retried_after_pauses() -> None:
    strict = Strict()
    async with scheduled_cluster(nodes=1, around=strict.around) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2"))
        await pass_time(60)
        assert 5 < strict.refused < 25
        await it.create(kinds.POD, pod("other", "3", app="other"))
        await pass_time(20)
        assert await nodes_by_pod(it) == {"other": "n1"}
        await it.delete(kinds.POD, "other", grace_seconds=0)
        strict.refuses = False
        await pass_time(20)
        assert await phase_and_reason(it) == ("Available", "Reserved")


@on_virtual_time
async def test_consumption_by_a_gone_pod_is_recorded_once_writes_are_allowed() -> None:
    strict = Strict()
    strict.refuses = False
    async with scheduled_cluster(nodes=1, around=strict.around) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        strict.refuses = True
        await it.create(kinds.POD, pod("p"))
        await pass_time(5)
        await it.delete(kinds.POD, "p", grace_seconds=0)
        await pass_time(5)
        assert strict.refused > 1
        await it.create(kinds.POD, pod("q"))
        await pass_time(5)
        strict.refuses = False
        await pass_time(20)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: ("n1", "p")}, ("Succeeded", "Consumed"))
        [q] = await it.pods()
        assert (q.spec.node_name, "restow.sh/reservation" in (q.metadata.annotations or {})) == ("n1", False)


@on_virtual_time
async def test_assumed_seat_lost_before_its_write_is_placed_elsewhere() -> None:
    busy = Strict(Conflict.because(409, "Conflict", "another write was first"))
    async with scheduled_cluster(nodes=2, around=busy.around) as it:
        made = new_reservation(replicas=1, cpu="2")
        made["spec"]["tasks"][0]["reservationNodeNames"] = ["n1"]
        await it.create(kinds.RESERVATION, made)
        await pass_time(1)
        await it.create(kinds.POD, pod("foreign", "3", app="other", nodeName="n1", schedulerName="other"))
        await pass_time(1)
        busy.refuses = False
        await pass_time(20)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: ("n2", None)}, ("Available", "Reserved"))


class Overtaken:
    """An Api that changes a reservation just before its status is written for the first time."""

    def __init__(self, change: Document) -> None:
        self.conflicts = 0
        self._overtakes = True
        self._change = change

    def around(self, api: Api) -> Api:
        self.watch, self._api = api.watch, api
        return self

    async def call(self, request: Request) -> Response:
        if self._overtakes and (request.resource.plural, request.subresource) == ("reservations", "status"):
            self._overtakes = False
            await Client(self._api).patch(kinds.RESERVATION, "r", self._change, "default")
        try:
            return await self._api.call(request)
        except Conflict:
            self.conflicts += 1
            raise


class LostResponses:
    """An Api on which writes of the status take effect, though their answers are lost; and so are those to the first
    questions after that."""

    def __init__(self, lost: int, delay: float) -> None:
        self._lost, self._delay = lost, delay

    def around(self, api: Api) -> Api:
        self.watch, self._api = api.watch, api
        return self

    async def call(self, request: Request) -> Response:
        is_write = request.subresource == "status"
        response = await self._api.call(request)
        if request.resource.plural == "reservations" and (is_write or (request.name and self._lost > 0)):
            self._lost -= not is_write
            await asyncio.sleep(self._delay)
            raise UNKNOWN
        return response


@pytest.mark.parametrize(
    ("lost", "delay"),
    [
        pytest.param(0, 0.0, id="shown by the read"),
        pytest.param(0, 1.0, id="shown by the watch before the read"),
        pytest.param(1, 0.0, id="shown by the watch, read fails"),
    ],
)
@on_virtual_time
async def test_lost_write_response_records_one_event(lost: int, delay: float) -> None:
    async with scheduled_cluster(nodes=1, around=LostResponses(lost, delay).around) as it:
        await it.create(kinds.RESERVATION, new_reservation(ttl="20s"))
        await pass_time(10)
        assert await events_with_reason(it, "Reserved") == [
            ("r", "2 of 2 seats are held or consumed: cpu 2, memory 128Mi")
        ]
        await pass_time(30)
        assert [name for name, _ in await events_with_reason(it, "Expired")] == ["r"]


FEWER = {"spec": {"tasks": new_reservation(replicas=1, cpu="2")["spec"]["tasks"]}}


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param({"metadata": {"labels": {"a": "b"}}}, None, id="labels edited"),
        pytest.param(FEWER, "n1", id="spec edited to less"),
    ],
)
@on_virtual_time
async def test_status_computed_from_an_older_version_is_computed_again(change: Document, left: str | None) -> None:
    overtaken = Overtaken(change)
    async with scheduled_cluster(
        nodes=1, around=overtaken.around, settings=SchedulerSettings(namespace_share=100)
    ) as it:
        await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
        await pass_time(3)
        assert (overtaken.conflicts, await phase_and_reason(it)) == (1, ("Available", "Reserved"))
        await it.create(kinds.POD, pod("other", "2", app="other"))
        await pass_time(3)
        assert await nodes_by_pod(it) == {"other": left}


@on_virtual_time
async def test_assumed_seat_removed_by_an_edit_before_its_write_is_released() -> None:
    busy = Strict(UNKNOWN)
    async with scheduled_cluster(nodes=1, around=busy.around, settings=SchedulerSettings(namespace_share=100)) as it:
        await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
        await pass_time(1)
        await it.patch(kinds.RESERVATION, "r", FEWER)
        await pass_time(1)
        busy.refuses = False
        await it.create(kinds.POD, pod("other", "2", app="other"))
        await pass_time(20)
        assert (await seats_by_index(it), await nodes_by_pod(it)) == ({0: ("n1", None)}, {"other": "n1"})
