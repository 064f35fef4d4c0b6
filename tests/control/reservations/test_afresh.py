"""Before a seat is given up, its node is read afresh: a cache that is behind costs nobody a seat, nor anybody room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from restow.control.scheduler import Settings
from restow.model import kinds
from restow.ports import Api, Request, Response
from tests.control.reservations.stage import over_committed, phase, reservation
from tests.control.stage import places, stage
from tests.sim.stage import Stage, node, pass_time, pod, virtual

ALL = Settings(namespace_share=100)
THIEF = {"app": "other", "nodeName": "n1", "schedulerName": "other"}


class Behind:
    """An Api whose watches show nothing after an event of this type about this object, until they have caught up."""

    def __init__(self, plural: str, type: str, name: str) -> None:
        self.caught_up = asyncio.Event()
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


async def replace_node(it: Stage) -> None:
    await it.delete(kinds.NODE, "n1")
    await it.create(kinds.NODE, node("n1"))


async def come_and_go(it: Stage) -> None:
    await it.create(kinds.POD, pod("thief", "3", **THIEF))
    await it.delete(kinds.POD, "thief", grace_seconds=0)


@pytest.mark.parametrize(
    ("last", "happens"),
    [
        pytest.param(("nodes", "DELETED", "n1"), replace_node, id="that a node is there again"),
        pytest.param(("pods", "ADDED", "thief"), come_and_go, id="that whoever took the room is gone"),
    ],
)
@virtual
async def test_a_cache_that_does_not_know_costs_nobody_a_seat(
    last: tuple[str, str, str], happens: Callable[[Stage], Awaitable[Any]]
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


class SlowLists:
    """An Api that answers late who is on a node, as of when that was asked."""

    def around(self, api: Api) -> Api:
        self._api, self.watch = api, api.watch
        return self

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        await asyncio.sleep(5.0 if "fieldSelector" in request.query else 0.0)
        return response


@virtual
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
