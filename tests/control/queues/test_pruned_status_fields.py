"""Another project's definition of Queue, which drops what it does not know: told once, and not written for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from restow.model import kinds
from restow.model.crds import custom_resource_definitions
from restow.ports import Api, Request, Response
from tests.control.queues.queue_controller_fixture import QueueCluster, queue_controller
from tests.control.scheduler_cluster import events_with_reason, unscheduled_cluster
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, pod, running_component

CPU4: dict[str, Any] = {"resource": {"cpu": "4"}}
TOLD = ("q1", "the definition of Queue in this cluster does not keep status.acceptedGuarantee, status.conditions")


class Counted:
    """An API server that counts what is written to queues."""

    def __init__(self, api: Api) -> None:
        self.watch = api.watch
        self.writes = 0
        self._api = api

    async def call(self, request: Request) -> Response:
        self.writes += request.resource.plural == "queues" and request.verb == "patch"
        return await self._api.call(request)


def definition(*, ours: bool) -> dict[str, Any]:
    (found,) = (one for one in custom_resource_definitions() if one["spec"]["names"]["kind"] == "Queue")
    status = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    if not ours:
        status.pop("x-kubernetes-preserve-unknown-fields", None)
        for name in ("conditions", "acceptedGuarantee"):
            del status["properties"][name]
    return {"spec": found["spec"]}


@asynccontextmanager
async def strange(**section: Any) -> AsyncIterator[tuple[QueueCluster, Counted]]:
    async with unscheduled_cluster(nodes=4) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        await define(it, ours=False)
        counted = Counted(it.api)
        async with running_component(queue_controller(counted, it.clock, **section)):
            yield it, counted


async def define(it: QueueCluster, *, ours: bool) -> None:
    name = kinds.QUEUE.qualified_name
    await it.client.patch(kinds.CUSTOM_RESOURCE_DEFINITION, name, definition(ours=ours))


async def bustle(it: QueueCluster, rounds: int) -> None:
    """Something happens all the time, and nothing to the queue."""
    for number in range(rounds):
        await it.create(kinds.POD, pod(f"other{number}", "100m", nodeName="n4"))
        await pass_time(5)


@on_virtual_time
async def test_pruned_status_is_not_written_in_every_pass() -> None:
    async with strange() as (it, counted):
        await it.create_guarantee(**CPU4)
        assert (await it.locked_nodes(), await it.condition_of()) == ("n1", ("", None, None))
        before = counted.writes
        await bustle(it, 20)
        assert counted.writes == before
        assert await events_with_reason(it, "StatusNotKept") == [TOLD]


@on_virtual_time
async def test_kept_status_fields_are_still_written() -> None:
    async with strange() as (it, _):
        await it.create_guarantee(**CPU4)
        await it.create(kinds.NODE, node("n0"))
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(6)
        assert await it.locked_nodes() == "n0"
        await it.change_queue(guarantee={"resource": {"cpu": "99"}})
        assert (await it.locked_nodes(), len(await events_with_reason(it, "AboveClusterTotal"))) == ("", 1)
        assert (
            len(await events_with_reason(it, "GuaranteeSatisfied"))
            == len(await events_with_reason(it, "StatusNotKept"))
            == 1
        )


@on_virtual_time
async def test_crd_that_keeps_the_fields_again_is_noticed() -> None:
    async with strange() as (it, _):
        await it.create_guarantee(**CPU4)
        await define(it, ours=True)
        await pass_time(700)
        assert (await it.condition_of())[:2] == ("True", "Satisfied")


@on_virtual_time
async def test_locked_nodes_show_acceptance_where_conditions_are_pruned() -> None:
    async with strange(maxGuaranteed=50, maxGuaranteedPerQueue=50) as (it, _):
        await it.create_guarantee("old", **CPU4)
        await it.create_guarantee("other", **CPU4)
        await it.create_guarantee("a", **CPU4)
        await pass_time(6)
        assert [await it.locked_nodes(name) for name in ("old", "other", "a")] == ["n1", "n2", ""]
