"""Before a seat is given up, its node is read live: a cache that is behind costs no reservation a seat and no pod
room."""

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
from tests.control.reservations.reservation_cluster import (
    THEIRS,
    new_reservation,
    overcommitted_nodes,
    phase_and_reason,
)
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod

ALL = SchedulerSettings(namespace_share=100)
FOREIGN = {"app": "other", "nodeName": "n1", "schedulerName": "other"}
SMALL = {QUEUE_ANNOTATION: "small"}


class Behind:
    """An Api with watches that show nothing after an event of this type about this object, until they have caught up;
    or then end, because what they have not shown is not to be had any more."""

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
    await it.create(kinds.POD, pod("foreign", "3", **FOREIGN))
    await it.delete(kinds.POD, "foreign", grace_seconds=0)


@pytest.mark.parametrize(
    ("last", "happens"),
    [
        pytest.param(("nodes", "DELETED", "n1"), replace_node, id="node recreated"),
        pytest.param(("pods", "ADDED", "foreign"), come_and_go, id="foreign pod gone"),
    ],
)
@on_virtual_time
async def test_seat_is_not_lost_because_of_a_cache_that_is_behind(
    last: tuple[str, str, str], happens: Callable[[SimulatedCluster], Awaitable[Any]]
) -> None:
    behind = Behind(*last)
    async with scheduled_cluster(nodes=1, around=behind.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await happens(it)
        await pass_time(10)
        assert await phase_and_reason(it) == ("Available", "Reserved")
        behind.caught_up.set()
        await pass_time(10)
        assert await phase_and_reason(it) == ("Available", "Reserved")


@on_virtual_time
async def test_reservation_found_deleted_after_a_live_read_holds_nothing() -> None:
    behind = Behind("reservations", "ADDED", "r")
    async with scheduled_cluster(nodes=1, around=behind.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(ttl="20s"))
        await pass_time(3)
        await it.delete(kinds.RESERVATION, "r")
        await it.create(kinds.POD, pod("big", "4", app="other"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"big": None}
        await pass_time(30)
        assert await nodes_by_pod(it) == {"big": "n1"}


class SlowLists:
    """An Api that answers lists of the pods on a node late, with the state at the time of the request."""

    def around(self, api: Api) -> Api:
        self._api, self.watch = api, api.watch
        return self

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        await asyncio.sleep(5.0 if "fieldSelector" in request.query else 0.0)
        return response


@on_virtual_time
async def test_pod_bound_during_a_live_read_is_kept() -> None:
    async with scheduled_cluster(nodes=1, around=SlowLists().around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("foreign", "3", **FOREIGN))
        await pass_time(1)
        await it.create(kinds.POD, pod("late", "1", **FOREIGN))
        await pass_time(10)
        assert await phase_and_reason(it) == ("Failed", "RoomTaken")
        await it.create(kinds.POD, pod("other", "1", app="other"))
        await pass_time(10)
        assert await nodes_by_pod(it) == {"foreign": "n1", "late": "n1", "other": None}
        assert await overcommitted_nodes(it.client) == []


@on_virtual_time
async def test_reservation_handed_to_another_scheduler_during_a_live_read_is_left_alone() -> None:
    async with scheduled_cluster(nodes=1, around=SlowLists().around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("foreign", "3", **FOREIGN))
        await pass_time(1)
        await it.patch(kinds.RESERVATION, "r", {"spec": THEIRS})
        await pass_time(10)
        assert await phase_and_reason(it) == ("Available", "Reserved")
        await it.patch(kinds.RESERVATION, "r", {"spec": {"schedulerName": None}})
        await pass_time(10)
        assert await phase_and_reason(it) == ("Failed", "RoomTaken")


@on_virtual_time
async def test_pod_gone_during_a_live_read_is_gone_for_its_queue_too() -> None:
    async with scheduled_cluster(nodes=1, around=SlowLists().around, settings=ALL) as it:
        await it.create(kinds.QUEUE, {"metadata": {"name": "small"}, "spec": {"capability": {"cpu": "3"}}})
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("foreign", "3", annotations=SMALL, **FOREIGN))
        await pass_time(1)
        await it.delete(kinds.POD, "foreign", grace_seconds=0)
        await pass_time(10)
        await it.create(kinds.POD, pod("next", "1", app="other", annotations=SMALL))
        await pass_time(10)
        assert await nodes_by_pod(it) == {"next": "n1"}


async def hold(it: SimulatedCluster) -> None:
    await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
    await pass_time(3)


async def fill_node(it: SimulatedCluster) -> None:
    await it.create(kinds.RESERVATION, new_reservation())
    await pass_time(3)
    await it.create(kinds.POD, pod("foreign", "2", **FOREIGN))
    await pass_time(3)
    await it.client.patch(kinds.NODE, "n1", {"status": {"allocatable": {"cpu": "3"}}}, subresource="status")
    await pass_time(10)
    assert await phase_and_reason(it) == ("Failed", "RoomTaken")


@pytest.mark.parametrize(
    ("kind", "name", "happens"),
    [
        pytest.param(kinds.RESERVATION, "r", hold, id="reservation written since"),
        pytest.param(kinds.POD, "foreign", fill_node, id="pod read since"),
    ],
)
@on_virtual_time
async def test_object_missing_in_a_relist_is_gone_though_a_response_was_newer_than_the_watch(
    kind: Kind[Any], name: str, happens: Callable[[SimulatedCluster], Awaitable[Any]]
) -> None:
    behind = Behind(kind.plural, "ADDED", name, ends=True)
    async with scheduled_cluster(nodes=1, around=behind.around, settings=ALL) as it:
        await happens(it)
        await it.delete(kind, name, grace_seconds=0 if kind is kinds.POD else None)
        behind.caught_up.set()
        await pass_time(5)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await pass_time(20)
        assert (await nodes_by_pod(it))["big"] == "n1"


@on_virtual_time
async def test_node_missing_in_a_relist_is_gone_though_a_live_read_was_newer_than_the_watch() -> None:
    behind = Behind("nodes", "ADDED", "n1", ends=True)
    async with scheduled_cluster(nodes=0, around=behind.around, settings=ALL) as it:
        await it.create(kinds.NODE, node("n1"))
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"newer": "yes"}}})
        await it.create(kinds.POD, pod("foreign", "3", **FOREIGN))
        await pass_time(3)
        assert await phase_and_reason(it) == ("Failed", "RoomTaken")
        await it.delete(kinds.NODE, "n1")
        behind.caught_up.set()
        await pass_time(5)
        await it.create(kinds.POD, pod("next", "1", app="other"))
        await pass_time(5)
        assert (await nodes_by_pod(it))["next"] is None
