"""A reservation that was edited: no pod is assigned a seat that may yet be refused, however long the decision takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, Request, Response
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason, seats_by_index
from tests.control.scheduler_cluster import condition_of_pod, events_with_reason, nodes_by_pod, unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_scheduler, template

ALL = SchedulerSettings(namespace_share=100)
IN_Q = {"scheduling.volcano.sh/queue-name": "q"}


class Slow:
    """An Api that takes its time to write the status of reservations."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def around(self, api: Api) -> Api:
        self._api = api
        self.watch = api.watch
        return self

    async def call(self, request: Request) -> Response:
        if (request.resource.plural, request.subresource) == ("reservations", "status"):
            await asyncio.sleep(self.seconds)
        return await self._api.call(request)


def tasks(replicas: int, cpu: str) -> Document:
    return {"tasks": [{"name": "web", "replicas": replicas, "template": template(cpu)}]}


@asynccontextmanager
async def changed(
    made: Document, changes: Document, seconds: float | None, *comers: Document, capability: str = "100"
) -> AsyncIterator[SimulatedCluster]:
    """A reservation is changed and pods come, a second before the status is written; or, for None, before any scheduler
    runs. The world goes on for a while."""
    async with unscheduled_cluster(nodes=1, cpu="8") as it, AsyncExitStack() as first:
        await it.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": capability}}})
        slow = Slow(0.0)
        await first.enter_async_context(running_scheduler(slow.around(it.api), it.clock, settings=ALL))
        await it.create(kinds.RESERVATION, made)
        await pass_time(3)
        if seconds is None:
            await first.aclose()
        slow.seconds = seconds or 0.0
        await it.patch(kinds.RESERVATION, "r", {"spec": changes})
        await pass_time(seconds / 2 if seconds else 0.0)
        for comer in comers:
            await it.create(kinds.POD, comer)
        if seconds is None:
            await first.enter_async_context(running_scheduler(it.api, it.clock, seed=2, settings=ALL))
        await pass_time(10)
        yield it


def in_q(name: str, cpu: str, **annotations: str) -> Document:
    made = pod(name, cpu)
    made["metadata"]["annotations"] = {**IN_Q, **annotations}
    return made


def _named(it: list[Any]) -> Iterator[str]:
    for one in it:
        named = (one.metadata.annotations or {}).get("restow.sh/reservation")
        if named:
            yield f"{one.metadata.name} {named}"


slowly = pytest.mark.parametrize("seconds", [0.0, 0.05, 2.0, None], ids=["at once", "fast", "slow", "by the next one"])


@slowly
@on_virtual_time
async def test_seat_removed_by_an_undecided_edit_is_not_assigned(seconds: float | None) -> None:
    async with changed(new_reservation(), tasks(1, "1"), seconds, pod("a", "1"), pod("b", "1")) as it:
        assert (await phase_and_reason(it), await seats_by_index(it)) == (("Succeeded", "Consumed"), {0: ("n1", "a")})
        assert (await nodes_by_pod(it), [*_named(await it.pods())]) == ({"a": "n1", "b": "n1"}, ["a default/r/web/0"])


@slowly
@on_virtual_time
async def test_seat_enlarged_beyond_its_queue_is_not_assigned(seconds: float | None) -> None:
    made = new_reservation(replicas=1, queue="q")
    async with changed(made, tasks(1, "5"), seconds, in_q("web", "5"), capability="2") as it:
        assert (await phase_and_reason(it), await nodes_by_pod(it)) == (("Failed", "LimitExceeded"), {"web": None})
        told = "queue q would exceed its capability: cpu (limit 2, used 0, requested 5)"
        assert (await condition_of_pod(it, "web"))[2] == told


@slowly
@on_virtual_time
async def test_seat_moved_to_another_queue_is_not_assigned_until_decided(seconds: float | None) -> None:
    made = new_reservation(replicas=1, cpu="5")
    async with changed(made, {"queue": "q"}, seconds, in_q("web", "5"), capability="2") as it:
        assert (await phase_and_reason(it), await nodes_by_pod(it)) == (("Failed", "LimitExceeded"), {"web": None})


@slowly
@on_virtual_time
async def test_pod_naming_the_reservation_waits_until_the_edit_is_decided(seconds: float | None) -> None:
    comer = in_q("web", "2", **{"restow.sh/use-reservation": "r"})
    async with changed(new_reservation(replicas=1, queue="q"), tasks(1, "2"), seconds, comer) as it:
        assert (await phase_and_reason(it), await seats_by_index(it)) == (("Succeeded", "Consumed"), {0: ("n1", "web")})
        why = "reservation default/r is not available: its spec was changed, and its status does not show that yet"
        assert {text for _, text in await events_with_reason(it, "InvalidReservation")} <= {why}
        assert seconds != 2.0 or await events_with_reason(it, "InvalidReservation") == [("web", why)]


@slowly
@on_virtual_time
async def test_seat_edited_to_ask_for_no_more_is_still_assigned(seconds: float | None) -> None:
    async with changed(new_reservation(), tasks(2, "500m"), seconds, pod("a", "500m"), pod("b", "500m")) as it:
        assert [*_named(await it.pods())] == ["a default/r/web/0", "b default/r/web/1"]
