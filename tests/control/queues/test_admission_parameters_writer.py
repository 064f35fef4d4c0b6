"""What the API server refuses by is kept equal to what the controller goes by."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.queues import QueueControllerConfiguration
from restow.model import kinds
from restow.ports import Api, Request, Response, TooManyRequests
from restow.queues.admission_policies import CEILINGS_NAME
from restow.queues.arguments import read_queue_arguments
from tests.control.migrations.migration_cluster import SCHEDULERS, migration_arguments
from tests.control.queues.queue_controller_fixture import (
    QueueCluster,
    queue_controller,
    queue_controller_alone,
    queue_document,
)
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, running_component

HOME = "restow-system"
SEEN = ("share_", "share_ml", "amount__cpu", "room__cpu", "room_0_cpu", "left_ml", "left_ml_cpu")
HALF: dict[str, Any] = {"maxGuaranteed": 50, "maxGuaranteedPerQueue": 50}


async def install(it: QueueCluster) -> None:
    await it.create(kinds.NAMESPACE, {"metadata": {"name": HOME}})
    await it.create(kinds.CONFIG_MAP, {"metadata": {"name": CEILINGS_NAME, "namespace": HOME}, "data": {"share_": "1"}})


async def shown(it: QueueCluster) -> dict[str, str]:
    data = (await it.client.get(kinds.CONFIG_MAP, CEILINGS_NAME, HOME)).data or {}
    return {key: data[key] for key in SEEN if key in data}


async def _nothing(it: QueueCluster, made: Any) -> None: ...


async def _grow(it: QueueCluster, made: Any) -> None:
    await it.create(kinds.NODE, node("n9"))


async def _configure(it: QueueCluster, made: Any) -> None:
    arguments = read_queue_arguments({"maxGuaranteed": 25})
    made.configure(
        QueueControllerConfiguration(scheduler_names=SCHEDULERS, arguments=arguments, migration=migration_arguments())
    )


async def _promise(it: QueueCluster, made: Any) -> None:
    await it.create_guarantee("ml", resource={"cpu": "3"})
    await it.create_guarantee("greedy", resource={"cpu": "6"})


async def _take_back(it: QueueCluster, made: Any) -> None:
    await _promise(it, made)
    await pass_time(10)
    await it.delete(kinds.QUEUE, "ml")
    await it.delete(kinds.QUEUE, "greedy")


async def _meddle(it: QueueCluster, made: Any) -> None:
    data = {"share_": "100", "share_ml": "100", "amount__cpu": None}
    await it.client.patch(kinds.CONFIG_MAP, CEILINGS_NAME, {"data": data}, HOME)


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        pytest.param(
            _nothing, {"share_": "50", "amount__cpu": "8", "room__cpu": "8"}, id="as configured, of what there is"
        ),
        pytest.param(_grow, {"share_": "50", "amount__cpu": "10", "room__cpu": "10"}, id="a node comes"),
        pytest.param(
            _configure, {"share_": "25", "amount__cpu": "8", "room__cpu": "4"}, id="the configuration changes"
        ),
        pytest.param(
            _promise,
            {
                "share_": "50",
                "amount__cpu": "8",
                "room__cpu": "8",
                "room_0_cpu": "5",
                "left_ml": "2",
                "left_ml_cpu": "8",
            },
            id="a guarantee is accepted",
        ),
        pytest.param(_take_back, {"share_": "50", "amount__cpu": "8", "room__cpu": "8"}, id="and gone again"),
        pytest.param(
            _meddle, {"share_": "50", "amount__cpu": "8", "room__cpu": "8"}, id="another client wrote other values"
        ),
    ],
)
@on_virtual_time
async def test_admission_parameters_follow_ceilings_and_cluster(happens: Any, expected: dict[str, str]) -> None:
    async with unscheduled_cluster(nodes=4) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        await install(it)
        async with running_component(queue_controller(it.api, it.clock, **HALF)) as made:
            await pass_time(1)
            await happens(it, made)
            await pass_time(70)
            assert await shown(it) == expected


@on_virtual_time
async def test_unchanged_admission_parameters_are_not_written() -> None:
    async with unscheduled_cluster(nodes=4) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        await install(it)
        async with running_component(queue_controller(it.api, it.clock)):
            await pass_time(5)
            before = (await it.client.get(kinds.CONFIG_MAP, CEILINGS_NAME, HOME)).metadata.resource_version
            await it.create(kinds.QUEUE, queue_document())
            await pass_time(200)
            assert (await it.client.get(kinds.CONFIG_MAP, CEILINGS_NAME, HOME)).metadata.resource_version == before


@on_virtual_time
async def test_admission_parameters_are_retried_after_a_failed_write() -> None:
    async with unscheduled_cluster(nodes=4) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        await install(it)
        busy = Busy(it.api)
        async with running_component(queue_controller(busy, it.clock, **HALF)):
            await pass_time(5)
            busy.refusing = True
            await it.create_guarantee("ml", resource={"cpu": "3"})
            busy.refusing = False
            await pass_time(10)
            assert (await shown(it))["left_ml"] == "2"


class Busy:
    """An API server that has no time for ConfigMaps now and then."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.watch = api.watch
        self.refusing = False

    async def call(self, request: Request) -> Response:
        if self.refusing and request.resource.plural == "configmaps":
            raise TooManyRequests.because(429, "TooManyRequests", "later")
        return await self._api.call(request)


@on_virtual_time
async def test_locks_are_decided_without_the_config_map(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with queue_controller_alone() as it:
        await it.create_guarantee(resource={"cpu": "4"})
        await pass_time(200)
        assert await it.locked_nodes() == "n1"
        told = [record for record in caplog.records if record.message == "admission parameters not written"]
        assert len(told) == 1
