"""Injected faults, one at a time: what a client sees of each, and what the API server has done."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Conflict, NotFound, OutcomeUnknown, TooManyRequests
from restow.sim.faults import Crash, FaultPlan, FaultyApi
from restow.sim.loop import run_virtual
from tests.sim.fault_plans import faulty, server
from tests.sim.simulated_cluster import (
    on_virtual_time,
)

ALWAYS = 1.0


def config_map(name: str = "c", **data: str) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


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
