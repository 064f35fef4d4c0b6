"""An API server that misbehaves, and a world that gets where it should all the same."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.adapters.memory import MemoryApi
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, ApiError, Conflict, NotFound, OutcomeUnknown, Request, Response, TooManyRequests
from restow.sim.faults import Crash, FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import VirtualClock, run_virtual
from restow.sim.world import Rule, Settings, World, default_rules
from restow.sim.world.deployment import Deployments
from restow.sim.world.job import Jobs
from restow.sim.world.replica_set import ReplicaSets
from restow.sim.world.stateful_set import StatefulSets
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    is_pod_ready,
    job,
    node,
    on_virtual_time,
    pass_time,
    running_scheduler,
    simulated_cluster,
    workload,
)
from tests.sim.troubles import PHASES, plans

ALWAYS = 1.0


def config_map(name: str = "c", **data: str) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def server(seed: int = 1) -> MemoryApi:
    return MemoryApi(VirtualClock(), random.Random(seed))


def faulty(api: Api, **plan: Any) -> tuple[FaultyApi, Client]:
    wrapped = FaultyApi(api, random.Random(7), FaultPlan(**plan))
    return wrapped, Client(wrapped)


# ---- one fault at a time


@pytest.mark.parametrize(
    ("plan", "error", "written"),
    [
        pytest.param({"busy": ALWAYS}, TooManyRequests, False, id="429 before"),
        pytest.param({"refused": ALWAYS}, OutcomeUnknown, False, id="5xx before"),
        pytest.param({"unknown": ALWAYS}, OutcomeUnknown, True, id="5xx after the write took effect"),
        pytest.param({"crash_after": "create ConfigMap default/c"}, Crash, True, id="crash after the write"),
        pytest.param({"crash_after": 0}, Crash, True, id="crash after the first write"),
    ],
)
def test_injected_write_failure_is_raised(plan: dict[str, Any], error: type[BaseException], written: bool) -> None:
    @on_virtual_time
    async def story() -> None:
        api = server()
        wrapped, client = faulty(api, **plan)
        with pytest.raises(error):
            await client.create(kinds.CONFIG_MAP, config_map())
        maps = (await Client(api).list(kinds.CONFIG_MAP, "default")).items
        assert [each.metadata.name for each in maps] == (["c"] if written else [])
        assert wrapped.writes.names == (["create ConfigMap default/c"] if written else [])

    story()


@on_virtual_time
async def test_a_conflict_changes_nothing() -> None:
    api = server()
    await Client(api).create(kinds.CONFIG_MAP, config_map(a="1"))
    _, client = faulty(api, conflict=ALWAYS)
    with pytest.raises(Conflict):
        await client.patch(kinds.CONFIG_MAP, "c", {"data": {"a": "2"}}, "default")
    assert (await Client(api).get(kinds.CONFIG_MAP, "c", "default")).data == {"a": "1"}


@on_virtual_time
async def test_bindings_and_evictions_meet_conflicts_too() -> None:
    _, client = faulty(server(), conflict=ALWAYS)
    for call in (client.bind("default", "p", uid="u", node="n"), client.evict("default", "p", uid="u")):
        with pytest.raises(Conflict):
            await call


@on_virtual_time
async def test_the_dead_neither_write_nor_read() -> None:
    wrapped, client = faulty(server(), crash_after=0)
    with pytest.raises(Crash):
        await client.create(kinds.CONFIG_MAP, config_map())
    for call in (client.create(kinds.CONFIG_MAP, config_map("d")), client.get(kinds.CONFIG_MAP, "c", "default")):
        with pytest.raises(Crash):
            await call
    assert len(wrapped.writes) == 1


@on_virtual_time
async def test_stale_read_returns_an_earlier_version() -> None:
    api = server()
    _, client = faulty(api, stale=ALWAYS)
    with pytest.raises(NotFound):
        await client.get(kinds.CONFIG_MAP, "c", "default", resource_version="0")
    await Client(api).create(kinds.CONFIG_MAP, config_map())
    with pytest.raises(NotFound):
        await client.get(kinds.CONFIG_MAP, "c", "default", resource_version="0")
    assert (await client.get(kinds.CONFIG_MAP, "c", "default")).metadata.name == "c"


@on_virtual_time
async def test_only_so_much_of_the_past_is_remembered() -> None:
    api = server()
    _, client = faulty(api, stale=ALWAYS)
    for name in ("c", *(f"other{number}" for number in range(1100))):
        with pytest.raises(NotFound):
            await client.get(kinds.CONFIG_MAP, name, "default", resource_version="0")
    await Client(api).create(kinds.CONFIG_MAP, config_map())
    assert (await client.get(kinds.CONFIG_MAP, "c", "default", resource_version="0")).metadata.name == "c"


@on_virtual_time
async def test_repeated_and_late_events_keep_their_order() -> None:
    api = server()
    _, client = faulty(api, repeated=0.5, late=0.5, delay=3)
    start = (await client.list(kinds.CONFIG_MAP)).resource_version
    for number in range(20):
        await Client(api).create(kinds.CONFIG_MAP, config_map(f"c{number:02d}"))
    seen: list[str] = []
    async for event in client.watch(kinds.CONFIG_MAP, resource_version=start, timeout_seconds=600):
        if event.type == "ADDED":
            seen.append(event.object.metadata.name)
        if seen and seen[-1] == "c19":
            break
    assert seen == sorted(seen)
    assert len(set(seen)) == 20
    assert len(seen) > 20


@given(st.integers(0, 2**32), st.floats(0.01, 0.5), st.floats(0, 0.5), st.floats(0, 0.3))
@settings(max_examples=20, deadline=None)
def test_an_informer_recovers_from_everything_a_stream_can_do(
    seed: int, dropped: float, disturbed: float, refused: float
) -> None:
    async def story() -> None:
        api = server(seed)
        plan = FaultPlan(dropped=dropped, repeated=disturbed, late=disturbed, refused=refused, busy=refused)
        client = Client(FaultyApi(api, random.Random(seed), plan))
        informer = Informer(client, kinds.CONFIG_MAP, rng=random.Random(seed))
        following = asyncio.create_task(informer.run())
        plain = Client(api)
        rng = random.Random(seed)
        for number in range(30):
            await plain.create(kinds.CONFIG_MAP, config_map(f"c{number}"))
            if number % 3 == 0:
                await plain.delete(kinds.CONFIG_MAP, f"c{number // 3}", "default")
            await asyncio.sleep(rng.uniform(0, 5))
        await asyncio.sleep(3600)
        there = {each.metadata.name for each in (await plain.list(kinds.CONFIG_MAP)).items}
        assert {each.metadata.name for each in informer} == there
        following.cancel()

    run_virtual(story())


# ---- the world behind faults

NEW_TEMPLATE = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}


async def _apps(it: SimulatedCluster) -> dict[str, list[tuple[str | None, bool]]]:
    """Per app the version and readiness of its pods."""
    apps: dict[str, list[tuple[str | None, bool]]] = defaultdict(list)
    for each in await it.pods():
        labels = each.metadata.labels or {}
        apps[labels["app"]].append((labels.get("v"), is_pod_ready(each)))
    return apps


@given(st.integers(0, 2**32), plans)
@settings(max_examples=12, deadline=None, phases=PHASES)
def test_a_deployment_converges_behind_faults_of_every_kind(seed: int, plan: FaultPlan) -> None:
    async def story() -> None:
        async with simulated_cluster(
            nodes=2, seed=seed, around=lambda api: FaultyApi(api, random.Random(seed), plan)
        ) as it:
            await it.create(kinds.DEPLOYMENT, workload("web", 4))
            await pass_time(60)
            await it.patch(kinds.DEPLOYMENT, "web", NEW_TEMPLATE)
            await pass_time(5)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 6}})
            await pass_time(1800)
            assert await _apps(it) == {"web": [("2", True)] * 6}
            status = (await it.document(kinds.DEPLOYMENT, "web"))["status"]
            assert (status["updatedReplicas"], status["availableReplicas"], status["replicas"]) == (6, 6, 6)

    run_virtual(story())


@given(st.integers(0, 2**32), plans)
@settings(max_examples=6, deadline=None, phases=PHASES)
def test_all_other_workloads_converge_behind_faults(seed: int, plan: FaultPlan) -> None:
    async def story() -> None:
        async with simulated_cluster(
            nodes=3, seed=seed, around=lambda api: FaultyApi(api, random.Random(seed), plan)
        ) as it:
            await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db"))
            await it.create(kinds.JOB, job("etl", run=20, completions=4, parallelism=2))
            await it.create(kinds.DAEMON_SET, workload("agent", None))
            budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}
            named = {"metadata": {"name": "db", "namespace": "default"}, "spec": budget}
            await it.create(kinds.POD_DISRUPTION_BUDGET, named)
            await pass_time(100)
            await it.patch(kinds.STATEFUL_SET, "db", NEW_TEMPLATE)
            await it.patch(kinds.DAEMON_SET, "agent", NEW_TEMPLATE)
            await pass_time(10)
            await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"replicas": 2}})
            await pass_time(1800)
            apps = await _apps(it)
            assert (apps["db"], apps["agent"]) == ([("2", True)] * 2, [("2", True)] * 3)
            assert (await it.document(kinds.JOB, "etl"))["status"]["succeeded"] == 4
            status = (await it.document(kinds.POD_DISRUPTION_BUDGET, "db"))["status"]
            assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (2, 2, 1)

    run_virtual(story())


class Forgetful:
    """An Api whose answers to the creation of pods are lost, that tells of pods late, and deletes none."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def call(self, request: Request) -> Response:
        of_pods = request.resource.plural == "pods" and request.subresource is None
        if of_pods and request.verb == "delete":
            raise TooManyRequests.because(429, "TooManyRequests", "not now")
        response = await self._api.call(request)
        if of_pods and request.verb == "create":
            raise OutcomeUnknown.because(504, "Timeout", "lost in the net")
        return response

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural == "pods":
                await asyncio.sleep(3.0)
            yield event


@on_virtual_time
async def test_job_creates_no_surplus_pods_when_creations_have_unknown_outcomes() -> None:
    async with simulated_cluster(nodes=2, around=Forgetful) as it:
        await it.create(kinds.JOB, job("etl", run=20, completions=4, parallelism=2))
        await pass_time(600)
        assert (await it.document(kinds.JOB, "etl"))["status"]["succeeded"] == len(await it.pods()) == 4


# ---- crash after every write


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


@pytest.mark.parametrize(("error", "told"), [(Crash("dead"), False), (ValueError("odd"), True)], ids=["died", "failed"])
def test_only_failures_of_unawaited_tasks_are_reported(
    error: BaseException, told: bool, caplog: pytest.LogCaptureFixture
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
    assert ("never retrieved" in caplog.text) is told


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
