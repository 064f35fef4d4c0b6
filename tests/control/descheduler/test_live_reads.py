"""Live reads find what the watches have not shown, and keep what was created while they were under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from restow.client.verbs import Client
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.live_reads import refresh_snapshot
from restow.model import kinds
from restow.ports import Api, Request, Response
from tests.control.descheduler.descheduler_fixture import running_event_handlers
from tests.control.migrations.migration_cluster import cluster_with_scheduler
from tests.control.reservations.reservation_cluster import new_reservation
from tests.sim.simulated_cluster import default_profile, on_virtual_time, pass_time, pod


class _Slow:
    """Answers lists late, as of when they were asked for."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def call(self, request: Request) -> Response:
        answer = await self._api.call(request)
        if request.verb == "list":
            await pass_time(5)
        return answer

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


def pods_on_n1(handlers: DeschedulerEventHandlers) -> set[str]:
    return {one.pod.metadata.name for one in handlers.snapshot.occupants("n1") if one.ledger == "requested"}


@on_virtual_time
async def test_object_created_while_a_list_is_on_its_way_stays() -> None:
    async with cluster_with_scheduler(nodes=1) as it, running_event_handlers(it) as handlers:
        await it.create(kinds.POD, pod("old", "1", nodeName="n1"))
        await pass_time(1)
        reading = asyncio.create_task(refresh_snapshot(Client(_Slow(it.api)), handlers, ["n1"]))
        await pass_time(1)
        await it.create(kinds.POD, pod("new", "1", nodeName="n1"))
        await pass_time(5)
        await it.create(kinds.RESERVATION, new_reservation("seat", 1, "1"))
        await reading
        assert pods_on_n1(handlers) == {"old", "new"}
        assert handlers.snapshot.reservations.names() == [("default", "seat")]


@on_virtual_time
async def test_live_read_finds_objects_that_the_watches_have_not_shown() -> None:
    async with cluster_with_scheduler(nodes=1) as it:
        async with running_event_handlers(it) as handlers:
            await it.create(kinds.POD, pod("old", "1", nodeName="n1"))
            await it.create(kinds.RESERVATION, new_reservation("old", 1, "1"))
            await pass_time(1)
        await it.client.delete(kinds.POD, "old", "default", grace_seconds=0)
        await it.client.delete(kinds.RESERVATION, "old", "default")
        await it.create(kinds.POD, pod("new", "1", nodeName="n1"))
        await it.create(kinds.RESERVATION, new_reservation("new", 1, "1"))
        await refresh_snapshot(Client(it.api), handlers, ["n1"])
        assert pods_on_n1(handlers) == {"new"}
        assert handlers.snapshot.reservations.names() == [("default", "new")]


@on_virtual_time
async def test_pod_that_a_live_read_found_bound_is_not_pending() -> None:
    async with cluster_with_scheduler(nodes=1) as it:
        async with running_event_handlers(it) as handlers:
            await it.create(kinds.POD, pod("late", "1", nodeSelector={"disk": "fast"}))
            await pass_time(1)
            assert [one.metadata.name for one in handlers.pending_pods(default_profile())] == ["late"]
        await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"disk": "fast"}}})
        await pass_time(2)
        await refresh_snapshot(Client(it.api), handlers, ["n1"])
        assert pods_on_n1(handlers) == {"late"} and handlers.pending_pods(default_profile()) == ()
