"""An API server that misbehaves, and a world that gets where it should all the same."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from restow.adapters.memory import MemoryApi
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model import kinds
from restow.ports import Api, ApiError, Conflict, NotFound, OutcomeUnknown, TooManyRequests
from restow.sim.faults import Crash, FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import VirtualClock, run_virtual
from restow.sim.world import World
from restow.sim.world.replica_set import ReplicaSets
from tests.sim.stage import Document, pass_time, ready, stage, virtual, workload

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
def test_a_write_may_fail(plan: dict[str, Any], error: type[BaseException], written: bool) -> None:
    @virtual
    async def story() -> None:
        api = server()
        wrapped, client = faulty(api, **plan)
        with pytest.raises(error):
            await client.create(kinds.CONFIG_MAP, config_map())
        maps = (await Client(api).list(kinds.CONFIG_MAP, "default")).items
        assert [each.metadata.name for each in maps] == (["c"] if written else [])
        assert wrapped.writes.names == (["create ConfigMap default/c"] if written else [])

    story()


@virtual
async def test_a_conflict_changes_nothing() -> None:
    api = server()
    await Client(api).create(kinds.CONFIG_MAP, config_map(a="1"))
    _, client = faulty(api, conflict=ALWAYS)
    with pytest.raises(Conflict):
        await client.patch(kinds.CONFIG_MAP, "c", {"data": {"a": "2"}}, "default")
    assert (await Client(api).get(kinds.CONFIG_MAP, "c", "default")).data == {"a": "1"}


@virtual
async def test_the_dead_neither_write_nor_read() -> None:
    wrapped, client = faulty(server(), crash_after=0)
    with pytest.raises(Crash):
        await client.create(kinds.CONFIG_MAP, config_map())
    for call in (client.create(kinds.CONFIG_MAP, config_map("d")), client.get(kinds.CONFIG_MAP, "c", "default")):
        with pytest.raises(Crash):
            await call
    assert len(wrapped.writes) == 1


@virtual
async def test_stale_reads_show_the_past() -> None:
    api = server()
    _, client = faulty(api, stale=ALWAYS)
    with pytest.raises(NotFound):
        await client.get(kinds.CONFIG_MAP, "c", "default", resource_version="0")
    await Client(api).create(kinds.CONFIG_MAP, config_map())
    with pytest.raises(NotFound):
        await client.get(kinds.CONFIG_MAP, "c", "default", resource_version="0")
    assert (await client.get(kinds.CONFIG_MAP, "c", "default")).metadata.name == "c"


@virtual
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

rate = st.floats(0, 0.25)


@given(
    st.integers(0, 2**32),
    st.builds(
        FaultPlan,
        dropped=rate,
        repeated=rate,
        late=rate,
        stale=rate,
        conflict=rate,
        busy=rate,
        refused=rate,
        unknown=rate,
    ),
)
@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_a_deployment_converges_behind_faults_of_every_kind(seed: int, plan: FaultPlan) -> None:
    async def story() -> None:
        def around(api: Api) -> Api:
            return FaultyApi(api, random.Random(seed), plan)

        async with stage(nodes=2, seed=seed, around=around) as it:
            await it.create(kinds.DEPLOYMENT, workload("web", 4))
            await pass_time(60)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
            await pass_time(5)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 6}})
            await pass_time(1800)
            pods = await it.pods()
            assert [((each.metadata.labels or {}).get("v"), ready(each)) for each in pods] == [("2", True)] * 6
            status = (await it.document(kinds.DEPLOYMENT, "web"))["status"]
            assert (status["updatedReplicas"], status["availableReplicas"], status["replicas"]) == (6, 6, 6)

    run_virtual(story())


# ---- crash after every write


async def _scale_story(plan: FaultPlan) -> FaultyApi:
    """A ReplicaSet controller that creates, scales down and may die on the way; then another takes over."""
    api = server()
    client = Client(api)
    await client.create(kinds.REPLICA_SET, workload("web", 4))
    mortal = FaultyApi(api, random.Random(3), plan)

    async def life() -> None:
        async with World(mortal, VirtualClock(), random.Random(4), rules=[ReplicaSets()]):
            await asyncio.sleep(5)
            await client.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 2}}, "default")
            await asyncio.sleep(5)

    await run_until_crash(mortal, life())
    await client.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 2}}, "default")
    async with World(api, VirtualClock(), random.Random(5), rules=[ReplicaSets()]):
        await asyncio.sleep(30)
    pods = (await client.list(kinds.POD, "default")).items
    assert len(pods) == 2
    status = (await client.get_document(kinds.REPLICA_SET, "web", "default"))["status"]
    assert status["replicas"] == 2
    return mortal


def test_a_replica_set_controller_may_die_after_any_of_its_writes() -> None:
    whole = run_virtual(_scale_story(FaultPlan()))
    kinds_of_writes = Counter(name.split()[0] for name in whole.writes.names)
    assert kinds_of_writes["create"] == 4
    assert kinds_of_writes["delete"] == 2
    assert kinds_of_writes["patch"] >= 2
    for name in whole.writes.names:
        died = run_virtual(_scale_story(FaultPlan(crash_after=name)))
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
