"""What the status of a PodGroup says in the end, however late it could be written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from restow.model import kinds
from restow.ports import Api, Conflict, Request, Response
from restow.scheduling.framework import SUCCESS, wait
from tests.control.interfering_api import RecordingPlugin
from tests.control.scheduler_cluster import gang_member, nodes_by_pod, pod_group, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time


class _Busy:
    """Another client writes the PodGroup all the time, until this ends."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.is_busy = True

    async def call(self, request: Request) -> Response:
        if self.is_busy and request.verb == "patch" and request.resource.plural == "podgroups":
            raise Conflict.because(409, "Conflict", "it has been modified")
        return await self._api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


@on_virtual_time
async def test_status_decided_before_a_gang_started_is_not_written_after_it() -> None:
    busy: list[_Busy] = []

    def around(api: Api) -> Api:
        busy.append(_Busy(api))
        return busy[0]

    async with scheduled_cluster(nodes=2, around=around) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train"))
            await pass_time(5)
        busy[0].is_busy = False
        await pass_time(60)
        status = (await it.document(kinds.POD_GROUP, "train"))["status"]
        assert status["phase"] == "Running"


async def _grows(it: SimulatedCluster) -> None:
    await it.patch(kinds.POD_GROUP, "train", {"spec": {"minMember": 9}})


async def _loses_a_member(it: SimulatedCluster) -> None:
    await it.patch(kinds.POD, "w1", {"metadata": {"annotations": {"scheduling.k8s.io/group-name": None}}})


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        pytest.param(
            _grows, "2 of 9 pods have a node already: … pod group default/train needs 9 pods, 2 exist", id="grows"
        ),
        pytest.param(_loses_a_member, "1 of 2 pods have a node already: … needs 2 pods, 1 exist", id="loses a member"),
    ],
)
@on_virtual_time
async def test_gang_changed_during_its_binding_has_the_status_of_the_new_spec(
    happens: Callable[[SimulatedCluster], Awaitable[None]], told: str
) -> None:
    keeper = RecordingPlugin()
    keeper.permits, keeper.permit_timeout = [wait("not yet")], 300.0
    async with scheduled_cluster(keeper, nodes=2) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train"))
        await pass_time(3)
        await happens(it)
        keeper.permits = [SUCCESS]
        await pass_time(60)
        assert all((await nodes_by_pod(it)).values())
        [condition] = (await it.document(kinds.POD_GROUP, "train"))["status"]["conditions"]
        start, end = told.split("…")
        assert condition["message"].startswith(start) and condition["message"].endswith(end.strip())
