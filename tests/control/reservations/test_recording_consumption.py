"""Recording which pod consumed which seat: by one write for all pods that come together, and whatever happens
between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest

from restow.client.verbs import Client
from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.ports import Api, Forbidden, OutcomeUnknown, Request, Response
from tests.control.reservations.reservation_cluster import (
    PermitBarrier,
    new_reservation,
    overcommitted_nodes,
    phase_and_reason,
    read_reservation,
    replace_task,
    seats_by_index,
)
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod

ALL = SchedulerSettings(namespace_share=100)
OTHERS = {"spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}]}}


class Slow:
    """An Api that takes its time to carry out the bindings of some pods, or to say that it has; of the latter its watch
    says nothing before they are gone. The first binding of others it refuses."""

    def __init__(
        self, before: dict[str, float], after: dict[str, float] | None = None, refused: Iterable[str] = ()
    ) -> None:
        self.marked = 0
        """How often the status of a reservation was written."""
        self._before = before
        self._after = after or {}
        self._refused = set(refused)

    def around(self, api: Api) -> Api:
        self._api = api
        return self

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            change = msgspec.json.decode(event)
            if change["type"] != "MODIFIED" or change["object"]["metadata"].get("name") not in self._after:
                yield event

    async def call(self, request: Request) -> Response:
        self.marked += (request.resource.plural, request.subresource) == ("reservations", "status")
        binds = request.name if request.subresource == "binding" else None
        await asyncio.sleep(self._before.get(binds or "", 0.0))
        if binds in self._refused:
            self._refused.remove(binds)
            raise Forbidden.because(403, "Forbidden", "not now")
        response = await self._api.call(request)
        await asyncio.sleep(self._after.get(binds or "", 0.0))
        return response


@on_virtual_time
async def test_pods_that_come_together_are_recorded_by_one_write() -> None:
    slow = Slow({"a": 0.0, "b": 0.4, "c": 0.8})
    async with scheduled_cluster(nodes=1, around=slow.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=4))
        await pass_time(3)
        placed = slow.marked
        for name in "abc":
            await it.create(kinds.POD, pod(name))
        await pass_time(3)
        assert {name for _, name in (await seats_by_index(it)).values()} == {"a", "b", "c", None}
        assert slow.marked == placed + 1


@on_virtual_time
async def test_consumption_is_recorded_within_a_second() -> None:
    slow = Slow({"b": 9.0})
    async with scheduled_cluster(nodes=1, around=slow.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        for name in "ab":
            await it.create(kinds.POD, pod(name))
        await pass_time(1.5)
        assert {name for _, name in (await seats_by_index(it)).values()} == {"a", None}


@on_virtual_time
async def test_consumption_of_the_last_seat_is_recorded_at_once() -> None:
    async with scheduled_cluster(nodes=1, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(0.1)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: ("n1", "a")}, ("Succeeded", "Consumed"))


@pytest.mark.parametrize("change", [pytest.param(OTHERS, id="other owners"), pytest.param(None, id="another label")])
@on_virtual_time
async def test_assigned_pod_consumes_its_seat_though_the_owners_were_edited(change: Any) -> None:
    async with scheduled_cluster(nodes=1, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
        await pass_time(3)
        await it.create(kinds.POD, pod("a", "2"))
        await pass_time(0.1)
        assert (await nodes_by_pod(it), (await seats_by_index(it))[0]) == ({"a": "n1"}, ("n1", None))
        if change is not None:
            await it.patch(kinds.RESERVATION, "r", change)
        else:
            await it.patch(kinds.POD, "a", {"metadata": {"labels": {"app": "db"}}})
        await pass_time(3)
        assert (await seats_by_index(it), await phase_and_reason(it)) == (
            {0: ("n1", "a"), 1: ("n1", None)},
            ("Available", "Reserved"),
        )
        assert await overcommitted_nodes(it.client) == []
        assert await events_with_reason(it, "RoomTaken") == []


@on_virtual_time
async def test_seat_stays_consumed_if_its_pod_is_gone_before_the_bind_response() -> None:
    slow = Slow({}, after={"a": 5.0})
    async with scheduled_cluster(nodes=1, around=slow.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(0.01)
        await it.delete(kinds.POD, "a", grace_seconds=0)
        await pass_time(8)
        assert await seats_by_index(it) == {0: ("n1", "a")}


class Unclear:
    """An Api that carries out the binding of a pod and fails to say so; the pod is gone at once. Its watch is late."""

    def around(self, api: Api) -> Api:
        self._api = api
        return self

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural == "pods" and msgspec.json.decode(event)["type"] == "MODIFIED":
                await asyncio.sleep(5)
            yield event

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if request.subresource == "binding" and request.name == "a":
            await Client(self._api).delete(kinds.POD, "a", "default", grace_seconds=0)
            raise OutcomeUnknown.because(504, "Timeout", "unknown")
        return response


@on_virtual_time
async def test_seat_stays_consumed_if_its_pod_is_gone_before_the_watch_showed_it() -> None:
    async with scheduled_cluster(nodes=1, around=Unclear().around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await it.create(kinds.POD, pod("b", annotations={"restow.sh/use-reservation": "r"}))
        await pass_time(20)
        assert (await seats_by_index(it), await nodes_by_pod(it)) == ({0: ("n1", "a")}, {"b": None})


@on_virtual_time
async def test_pod_bound_without_its_seat_does_not_consume_it_when_it_is_restored() -> None:
    slow, barrier = Slow({}, after={"a": 9.0}), PermitBarrier()
    async with scheduled_cluster(barrier, nodes=1, around=slow.around, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(1)
        await replace_task(it)
        await pass_time(1)
        barrier.is_lifted = True
        await it.create(kinds.NODE, node("n2"))  # news, for which it waits
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": True}})
        await pass_time(1)
        assert await nodes_by_pod(it) == {"a": "n1"}
        await replace_task(it, instead="web")
        await it.delete(kinds.POD, "a", grace_seconds=0)
        await pass_time(15)
        assert await seats_by_index(it) == {0: ("n1", None)}


async def _bind_while_the_seat_is_taken_away(it: SimulatedCluster, *, before: float) -> str:
    """A pod is on its way to a seat. That is taken away, asked for again, so many seconds before the pod is there, and
    could be found on another node only. Another pod comes."""
    await it.create(kinds.RESERVATION, new_reservation(replicas=1))
    await pass_time(3)
    [(where, _)] = (await seats_by_index(it)).values()
    await it.create(kinds.POD, pod("a"))
    await pass_time(1)
    await replace_task(it)
    await it.patch(kinds.NODE, where, {"spec": {"unschedulable": True}})
    await pass_time(9 - before)
    await replace_task(it, instead="web")
    await pass_time(2)
    await it.create(kinds.POD, pod("b"))
    return where


@pytest.mark.parametrize("left", [False, True], ids=["pod still there", "pod gone"])
@pytest.mark.parametrize("before", [4, -4], ids=["while a pod is on its way", "after it came"])
@on_virtual_time
async def test_seat_removed_and_restored_by_edits_keeps_its_consumer(before: float, left: bool) -> None:
    async with scheduled_cluster(nodes=2, around=Slow({"a": 10.0}).around, settings=ALL) as it:
        where = await _bind_while_the_seat_is_taken_away(it, before=before)
        await pass_time(3)
        if left:
            await it.delete(kinds.POD, "a", grace_seconds=0)
        await pass_time(3)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: (where, "a")}, ("Succeeded", "Consumed"))
        assert "restow.sh/reservation" not in ((await it.pods())[-1].metadata.annotations or {})


@on_virtual_time
async def test_restored_seat_is_placed_once_no_pod_is_on_its_way_to_it() -> None:
    async with scheduled_cluster(nodes=2, around=Slow({"a": 10.0}, refused="a").around, settings=ALL) as it:
        where = await _bind_while_the_seat_is_taken_away(it, before=4)
        assert await seats_by_index(it) == {}
        await pass_time(30)
        [(there, consumer)] = (await seats_by_index(it)).values()
        assert (there != where, consumer) == (True, "a")


@on_virtual_time
async def test_seat_with_two_placements_in_the_status_counts_once() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        twice = [{"task": "web", "index": 0, "nodeName": name} for name in ("n1", "n2")]
        await it.client.patch(
            kinds.RESERVATION, "r", {"status": {"placements": twice}}, "default", subresource="status"
        )
        await pass_time(3)
        assert (await seats_by_index(it), (await read_reservation(it)).status.available) == ({0: ("n2", None)}, 1)
        assert len((await read_reservation(it)).status.placements or ()) == 1
