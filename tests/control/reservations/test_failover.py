"""A change of leader while seats are being consumed: the new leader has fresh caches of some kinds and stale ones of
others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from restow.client.verbs import Client
from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import INITIAL_EVENTS_END, Api, Request
from restow.scheduling.framework import Plugin
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from tests.control.reservations.reservation_cluster import (
    PermitBarrier,
    new_reservation,
    pass_time_and_check_room,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster, unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_scheduler

ALL = SchedulerSettings(namespace_share=100)
BOUND, RECORDED = "bind Pod default/a", "patch Reservation/status default/r (2)"


class Views:
    """An Api that shows some kinds as they were at the first request, until it has caught up; and the others only
    once it is opened."""

    def __init__(self, api: Api, old: set[str]) -> None:
        self.opened, self.caught_up = asyncio.Event(), asyncio.Event()
        self.call = api.call
        self._api = api
        self._old = old

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        if request.resource.plural not in self._old:
            await self.opened.wait()
        async for event in self._api.watch(request):
            yield event
            if request.resource.plural in self._old and INITIAL_EVENTS_END.encode() in event:
                await self.caught_up.wait()


async def _lead(it: SimulatedCluster, api: Api) -> None:
    """Until it dies: a reservation is placed, another one finds no room beside it, and a pod consumes its seat."""
    async with running_scheduler(api, it.clock, settings=ALL):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="3"))
        await pass_time(3)
        await it.create(kinds.POD, pod("rest", "3", app="other"))
        await pass_time(3)
        await it.create(kinds.POD, pod("a", "3"))
        await asyncio.sleep(100)


@pytest.mark.parametrize("last", [pytest.param(BOUND, id="not recorded"), pytest.param(RECORDED, id="recorded")])
@pytest.mark.parametrize(
    "old",
    [
        pytest.param({"pods"}, id="stale pods"),
        pytest.param({"reservations"}, id="stale reservations"),
        pytest.param({"pods", "reservations"}, id="stale pods and reservations"),
        pytest.param({"nodes", "pods"}, id="stale nodes and pods"),
    ],
)
@on_virtual_time
async def test_new_leader_with_stale_caches_gives_no_seat_and_no_room_twice(old: set[str], last: str) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        mortal = FaultyApi(auditor, random.Random(1), FaultPlan(crash_after=last))
        first = asyncio.create_task(run_until_crash(mortal, _lead(it, mortal)))
        await pass_time(5)
        views = Views(auditor, old)
        second = asyncio.create_task(_take_over(it, auditor, views))
        await asyncio.wait((first,))
        await it.create(kinds.POD, pod("b", "3"))
        assert await nodes_by_pod(it) == {"a": "n1", "b": None, "rest": None}
        views.opened.set()
        await second
        assert auditor.faults == []


async def _take_over(it: SimulatedCluster, auditor: WriteAuditor, views: Views) -> None:
    async with running_scheduler(views, it.clock, seed=2, settings=ALL):
        assert views.opened.is_set()
        auditor.leader_number += 1
        await pass_time(5)
        assert await nodes_by_pod(it) == {"a": "n1", "b": None, "rest": None}
        views.caught_up.set()
        await pass_time(15)
        assert await nodes_by_pod(it) == {"a": "n1", "b": None, "rest": None}
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: ("n1", "a")}, ("Succeeded", "Consumed"))


@pytest.mark.parametrize("others", [("b",), ("x", "b")], ids=["once", "twice"])
@on_virtual_time
async def test_new_leader_accepts_a_consumer_that_was_an_owner_before_the_edits(
    others: tuple[str, ...],
) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        mortal = FaultyApi(auditor, random.Random(1), FaultPlan(crash_after=BOUND))
        first = asyncio.create_task(run_until_crash(mortal, _schedule(it, mortal)))
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await asyncio.wait((first,))
        for name in others:
            await it.patch(kinds.RESERVATION, "r", {"spec": {"owners": [_named(name)]}})
        auditor.leader_number += 1
        async with running_scheduler(auditor, it.clock, seed=2):
            await it.create(kinds.POD, pod("b"))
            await pass_time(5)
            assert await nodes_by_pod(it) == {"a": "n1", "b": "n1"}
            assert await seats_by_index(it) == {0: ("n1", "a"), 1: ("n1", "b")}
        assert auditor.faults == []


@on_virtual_time
async def test_new_leader_accepts_a_consumer_assigned_before_the_owners_were_edited() -> None:
    barrier = PermitBarrier()
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        mortal = FaultyApi(auditor, random.Random(1), FaultPlan(crash_after=BOUND))
        first = asyncio.create_task(run_until_crash(mortal, _schedule(it, mortal, barrier)))
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(3)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"owners": [_named("b")]}})
        await pass_time(3)
        assert (await read_reservation(it)).status.observed_generation == 2
        barrier.is_lifted = True
        await asyncio.wait((first,))
        auditor.leader_number += 1
        async with running_scheduler(auditor, it.clock, seed=2):
            await pass_time(5)
            assert await seats_by_index(it) == {0: ("n1", "a"), 1: ("n1", None)}
            assert [
                one.object and one.object.name for one in (await read_reservation(it)).status.observed_owners or ()
            ] == ["b"]
        assert auditor.faults == []


@pytest.mark.parametrize("over", [False, True], ids=["running", "over"])
@on_virtual_time
async def test_new_leader_records_consumption_that_was_not_recorded(over: bool) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        async with running_scheduler(it.api, it.clock):
            await it.create(kinds.RESERVATION, new_reservation(replicas=1))
            await pass_time_and_check_room(it)
        run = {"annotations": {"sim.restow.sh/run-seconds": "1"}, "restartPolicy": "Never"} if over else {}
        made = await it.create(kinds.POD, pod("a", "1", **run))
        reservation_uid = (await read_reservation(it)).metadata.uid
        named = {"restow.sh/reservation": "default/r/web/0", "restow.sh/reservation-uid": reservation_uid}
        await Client(it.api).bind("default", "a", uid=made.metadata.uid, node="n1", annotations=named)
        await pass_time(10)
        assert (await it.pods())[0].status.phase == ("Succeeded" if over else "Running")
        async with running_scheduler(it.api, it.clock, seed=2):
            await pass_time_and_check_room(it)
            assert (await seats_by_index(it), await phase_and_reason(it)) == (
                {0: ("n1", "a")},
                ("Succeeded", "Consumed"),
            )


@on_virtual_time
async def test_new_leader_lists_consistently_and_not_from_a_cache() -> None:
    asked: list[Request] = []

    class Listening:
        def __init__(self, api: Api) -> None:
            self.call = api.call
            self._api = api

        def watch(self, request: Request) -> Any:
            asked.append(request)
            return self._api.watch(request)

    async with scheduled_cluster(nodes=1, around=Listening):
        first = {one.resource.plural: one.query for one in reversed(asked)}
    assert {"pods", "reservations", "nodes"} <= first.keys()
    assert all("sendInitialEvents" in query and not query.get("resourceVersion") for query in first.values())


def _named(pod: str) -> Document:
    return {"object": {"kind": "Pod", "name": pod}}


async def _schedule(it: SimulatedCluster, api: Api, *plugins: Plugin) -> None:
    async with running_scheduler(api, it.clock, *plugins):
        await asyncio.sleep(100)
