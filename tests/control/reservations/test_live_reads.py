"""Before a seat is given up, its node is read afresh: a cache that is behind costs nobody a seat, nor anybody room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.queues import QUEUE_ANNOTATION
from restow.ports import Api, Gone, Request, Response
from tests.control.reservations.reservation_cluster import THEIRS, over_committed, phase, reservation
from tests.control.scheduler_cluster import places, stage
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod

ALL = SchedulerSettings(namespace_share=100)
THIEF = {"app": "other", "nodeName": "n1", "schedulerName": "other"}
SMALL = {QUEUE_ANNOTATION: "small"}


class Behind:
    """An Api whose watches show nothing after an event of this type about this object, until they have caught up; or
    then end, because what they have not shown is not to be had any more."""

    def __init__(self, plural: str, type: str, name: str, *, ends: bool = False) -> None:
        self.caught_up = asyncio.Event()
        self._ends = ends
        self._last = (plural, type, name)

    def around(self, api: Api) -> Api:
        self._api, self.call = api, api.call
        return self

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            yield event
            change = msgspec.json.decode(event)
            shown = (request.resource.plural, change["type"], change["object"]["metadata"].get("name"))
            if shown == self._last:
                await self.caught_up.wait()
                if self._ends:
                    raise Gone.because(410, "Expired", "too long ago")


async def replace_node(it: SimulatedCluster) -> None:
    await it.delete(kinds.NODE, "n1")
    await it.create(kinds.NODE, node("n1"))


async def come_and_go(it: SimulatedCluster) -> None:
    await it.create(kinds.POD, pod("thief", "3", **THIEF))
    await it.delete(kinds.POD, "thief", grace_seconds=0)


@pytest.mark.parametrize(
    ("last", "happens"),
    [
        pytest.param(("nodes", "DELETED", "n1"), replace_node, id="that a node is there again"),
        pytest.param(("pods", "ADDED", "thief"), come_and_go, id="that whoever took the room is gone"),
    ],
)
@on_virtual_time
async def test_a_cache_that_does_not_know_costs_nobody_a_seat(
    last: tuple[str, str, str], happens: Callable[[SimulatedCluster], Awaitable[Any]]
) -> None:
    behind = Behind(*last)
    async with stage(nodes=1, around=behind.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, reservation())
        await pass_time(3)
        await happens(it)
        await pass_time(10)
        assert await phase(it) == ("Available", "Reserved")
        behind.caught_up.set()
        await pass_time(10)
        assert await phase(it) == ("Available", "Reserved")


@on_virtual_time
async def test_one_that_turns_out_to_be_deleted_holds_nothing() -> None:
    behind = Behind("reservations", "ADDED", "r")
    async with stage(nodes=1, around=behind.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, reservation(ttl="20s"))
        await pass_time(3)
        await it.delete(kinds.RESERVATION, "r")
        await it.create(kinds.POD, pod("big", "4", app="other"))
        await pass_time(5)
        assert await places(it) == {"big": None}
        await pass_time(30)
        assert await places(it) == {"big": "n1"}


class SlowLists:
    """An Api that answers late who is on a node, as of when that was asked."""

    def around(self, api: Api) -> Api:
        self._api, self.watch = api, api.watch
        return self

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        await asyncio.sleep(5.0 if "fieldSelector" in request.query else 0.0)
        return response


@on_virtual_time
async def test_who_comes_while_a_node_is_read_is_there() -> None:
    async with stage(nodes=1, around=SlowLists().around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("thief", "3", **THIEF))
        await pass_time(1)
        await it.create(kinds.POD, pod("late", "1", **THIEF))
        await pass_time(10)
        assert await phase(it) == ("Failed", "RoomTaken")
        await it.create(kinds.POD, pod("other", "1", app="other"))
        await pass_time(10)
        assert await places(it) == {"thief": "n1", "late": "n1", "other": None}
        assert await over_committed(it.client) == []


@on_virtual_time
async def test_one_that_is_handed_over_while_its_node_is_read_is_left_to_whom_it_was_handed() -> None:
    async with stage(nodes=1, around=SlowLists().around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("thief", "3", **THIEF))
        await pass_time(1)
        await it.patch(kinds.RESERVATION, "r", {"spec": THEIRS})
        await pass_time(10)
        assert await phase(it) == ("Available", "Reserved")
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": None}})
        await pass_time(10)
        assert await phase(it) == ("Failed", "RoomTaken")


@on_virtual_time
async def test_who_goes_while_a_node_is_read_is_gone_also_for_its_queue() -> None:
    async with stage(nodes=1, around=SlowLists().around, settings=ALL) as it:
        await it.create(kinds.QUEUE, {"metadata": {"name": "small"}, "spec": {"capability": {"cpu": "3"}}})
        await it.create(kinds.RESERVATION, reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("thief", "3", annotations=SMALL, **THIEF))
        await pass_time(1)
        await it.delete(kinds.POD, "thief", grace_seconds=0)
        await pass_time(10)
        await it.create(kinds.POD, pod("next", "1", app="other", annotations=SMALL))
        await pass_time(10)
        assert await places(it) == {"next": "n1"}


async def hold(it: SimulatedCluster) -> None:
    await it.create(kinds.RESERVATION, reservation(cpu="2"))
    await pass_time(3)


async def crowd(it: SimulatedCluster) -> None:
    await it.create(kinds.RESERVATION, reservation())
    await pass_time(3)
    await it.create(kinds.POD, pod("thief", "2", **THIEF))
    await pass_time(3)
    await it.client.patch(kinds.NODE, "n1", {"status": {"allocatable": {"cpu": "3"}}}, subresource="status")
    await pass_time(10)
    assert await phase(it) == ("Failed", "RoomTaken")


@pytest.mark.parametrize(
    ("kind", "name", "happens"),
    [
        pytest.param(kinds.RESERVATION, "r", hold, id="a reservation that we have written since"),
        pytest.param(kinds.POD, "thief", crowd, id="a pod that we have read since"),
    ],
)
@on_virtual_time
async def test_what_a_list_lacks_is_gone_though_the_watch_never_showed_what_we_know_of_it(
    kind: Kind[Any], name: str, happens: Callable[[SimulatedCluster], Awaitable[Any]]
) -> None:
    behind = Behind(kind.plural, "ADDED", name, ends=True)
    async with stage(nodes=1, around=behind.around, settings=ALL) as it:
        await happens(it)
        await it.delete(kind, name, grace_seconds=0 if kind is kinds.POD else None)
        behind.caught_up.set()
        await pass_time(5)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await pass_time(20)
        assert (await places(it))["big"] == "n1"


@on_virtual_time
async def test_a_node_that_a_list_lacks_is_gone_though_the_watch_never_showed_what_we_know_of_it() -> None:
    behind = Behind("nodes", "ADDED", "n1", ends=True)
    async with stage(nodes=0, around=behind.around, settings=ALL) as it:
        await it.create(kinds.NODE, node("n1"))
        await it.create(kinds.RESERVATION, reservation())
        await pass_time(3)
        await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"newer": "yes"}}})
        await it.create(kinds.POD, pod("thief", "3", **THIEF))
        await pass_time(3)
        assert await phase(it) == ("Failed", "RoomTaken")
        await it.delete(kinds.NODE, "n1")
        behind.caught_up.set()
        await pass_time(5)
        await it.create(kinds.POD, pod("next", "1", app="other"))
        await pass_time(5)
        assert (await places(it))["next"] is None
