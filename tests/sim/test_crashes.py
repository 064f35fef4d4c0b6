"""Crashes after every write: each controller is restarted until the cluster is where it would be without crashes."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, ApiError, Conflict
from restow.sim.faults import Crash, FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import VirtualClock, run_virtual
from restow.sim.world import Rule, Settings, World, default_rules
from restow.sim.world.deployment import Deployments
from restow.sim.world.job import Jobs
from restow.sim.world.replica_set import ReplicaSets
from restow.sim.world.stateful_set import StatefulSets
from tests.sim.fault_plans import faulty, server
from tests.sim.simulated_cluster import (
    job,
    node,
    on_virtual_time,
    running_scheduler,
    workload,
)


class Cluster:
    """A cluster in which all controllers are immortal but one."""

    def __init__(self, mortal: type[Rule]) -> None:
        self.clock = VirtualClock()
        self.api = MemoryApi(self.clock, random.Random(1))
        self.client = Client(self.api)
        everything = default_rules(Settings())
        self.others = [rule for rule in everything if not isinstance(rule, mortal)]
        self.mortal = [rule for rule in everything if isinstance(rule, mortal)]

    def world(self, api: Api, rules: list[Rule]) -> World:
        return World(api, self.clock, random.Random(2), rules=rules)


async def _scaled(it: Cluster) -> None:
    await it.client.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 2}}, "default")


async def _rolled(it: Cluster) -> None:
    changes = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
    await it.client.patch(kinds.DEPLOYMENT, "web", changes, "default")


async def _waited(it: Cluster) -> None:
    await asyncio.sleep(15)


class Life(msgspec.Struct, frozen=True):
    """What a controller lives through: an object, a change to it, and how everything should stand in the end."""

    rule: type[Rule]
    kind: kinds.Kind[Any]
    document: Document
    change: Callable[[Cluster], Coroutine[Any, Any, None]]
    status: Document
    pods: int


LIVES = [
    pytest.param(
        Life(ReplicaSets, kinds.REPLICA_SET, workload("web", 4), _scaled, {"replicas": 2, "readyReplicas": 2}, 2),
        id="a ReplicaSet is scaled down",
    ),
    pytest.param(
        Life(
            Deployments,
            kinds.DEPLOYMENT,
            workload("web", 2),
            _rolled,
            {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
            2,
        ),
        id="a Deployment is rolled",
    ),
    pytest.param(
        Life(
            StatefulSets,
            kinds.STATEFUL_SET,
            workload("db", 2, serviceName="db"),
            _waited,
            {"replicas": 2, "readyReplicas": 2},
            2,
        ),
        id="a StatefulSet comes up",
    ),
    pytest.param(
        Life(
            Jobs,
            kinds.JOB,
            job("etl", run=5, completions=2),
            _waited,
            {"succeeded": 2, "failed": None, "active": None, "uncountedTerminatedPods": {}},
            2,
        ),
        id="a Job counts every pod once",
    ),
]


async def _live(life: Life, plan: FaultPlan) -> FaultyApi:
    """One life of the controller, perhaps cut short; then its successor has time to put everything right."""
    it = Cluster(life.rule)
    await it.client.create(kinds.NODE, node("n1"))
    async with it.world(it.api, it.others), running_scheduler(it.api, it.clock):
        await it.client.create(life.kind, life.document)
        mortal = FaultyApi(it.api, random.Random(3), plan)

        async def first() -> None:
            async with it.world(mortal, it.mortal):
                await asyncio.sleep(10)
                await life.change(it)
                await asyncio.sleep(30)

        await run_until_crash(mortal, first())
        await life.change(it)
        async with it.world(it.api, it.mortal):
            await asyncio.sleep(60)
    name = life.document["metadata"]["name"]
    status = (await it.client.get_document(life.kind, name, "default"))["status"]
    assert {key: status.get(key) for key in life.status} == life.status
    assert len((await it.client.list(kinds.POD, "default")).items) == life.pods
    return mortal


@pytest.mark.parametrize("life", LIVES)
def test_a_controller_may_die_after_any_of_its_writes(life: Life) -> None:
    whole = run_virtual(_live(life, FaultPlan()))
    assert len(whole.writes) >= 5
    for name in whole.writes.names:
        died = run_virtual(_live(life, FaultPlan(crash_after=name)))
        assert died.crashed.is_set(), name
        assert died.writes.names[-1] == name


def test_errors_of_a_process_that_did_not_crash_are_its_own() -> None:
    async def fails() -> None:
        raise ApiError.of(Conflict.because(409, "Conflict", "x").status)

    async def story() -> None:
        wrapped, _ = faulty(server())
        with pytest.raises(Conflict):
            await run_until_crash(wrapped, fails())

    run_virtual(story())


@pytest.mark.parametrize(
    ("error", "is_logged"), [(Crash("dead"), False), (ValueError("odd"), True)], ids=["died", "failed"]
)
def test_only_failures_of_unawaited_tasks_are_reported(
    error: BaseException, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise error

    async def process() -> None:
        asyncio.create_task(fails())  # noqa: RUF006
        await asyncio.sleep(1)

    async def story() -> None:
        await run_until_crash(faulty(server())[0], process())
        gc.collect()

    run_virtual(story())
    assert ("never retrieved" in caplog.text) is is_logged


@on_virtual_time
async def test_cancellation_is_passed_on_while_the_process_crashes() -> None:
    mortal, _ = faulty(server())

    async def process() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(1)  # it takes a moment to die

    whole = asyncio.create_task(run_until_crash(mortal, process()))
    await asyncio.sleep(1)
    mortal.crashed.set()
    await asyncio.sleep(0.5)
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole


@on_virtual_time
async def test_cancelling_run_until_crash_stops_a_living_process() -> None:
    mortal, _ = faulty(server())
    beats: list[int] = []

    async def process() -> None:
        while True:
            await asyncio.sleep(1)
            beats.append(1)

    whole = asyncio.create_task(run_until_crash(mortal, process()))
    await asyncio.sleep(2.5)
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    await asyncio.sleep(10)
    assert len(beats) == 2
