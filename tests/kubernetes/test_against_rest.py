"""The client over real HTTP: informers and elections against the embedded server, which goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from msgspec.structs import replace

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import ClusterConfig, KubernetesApi
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.kubernetes.transport import TransportLimits
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.client.informer import Informer
from restow.client.informer_settings import InformerSettings
from restow.client.leader_election import LeaderElection, LeaseTiming
from restow.client.verbs import Client
from restow.model.kinds import CONFIG_MAP, LEASE
from restow.model.objects import ConfigMap
from restow.ports import AlreadyExists, Conflict, NotFound, OutcomeUnknown

QUICK = InformerSettings(backoff=0.02, backoff_cap=0.05, idle_timeout=0.5, initial_idle_timeout=0.5)


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}}


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    config = ClusterConfig(server=f"http://127.0.0.1:{port}", credentials=StaticCredentials())
    async with KubernetesApi(config, clock=SystemClock(), limits=TransportLimits(request_timeout=5)) as api:
        yield Client(api)


@asynccontextmanager
async def informed(client: Client, page_size: int = 2) -> AsyncIterator[Informer[ConfigMap]]:
    informer = Informer(
        client, CONFIG_MAP, rng=Random(1), namespace="default", settings=replace(QUICK, page_size=page_size)
    )
    task = asyncio.create_task(informer.run())
    try:
        await eventually(lambda: informer.is_synced)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        done = holds()
        while not done:
            await asyncio.sleep(0.01)
            done = holds()


async def until(informer: Informer[ConfigMap], *names: str) -> None:
    await eventually(lambda: sorted(item.metadata.name for item in informer) == sorted(names))


@pytest.fixture
def memory() -> MemoryApi:
    return MemoryApi(SystemClock(), Random(1))


async def test_all_verbs_over_http(memory: MemoryApi) -> None:
    async with await serve(memory) as server, client_of(server.port) as client:
        made = await client.create(CONFIG_MAP, config_map("a"))
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAP, config_map("a"))
        changed = await client.patch(
            CONFIG_MAP, "a", {"data": {"c": "d"}}, "default", resource_version=made.metadata.resource_version
        )
        with pytest.raises(Conflict):
            await client.patch(
                CONFIG_MAP, "a", {"data": {"c": "e"}}, "default", resource_version=made.metadata.resource_version
            )
        document = await client.get_document(CONFIG_MAP, "a", "default")
        assert document["data"] == {"a": "b", "c": "d"}
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAP, "a", "default", uid="another")
        await client.delete(CONFIG_MAP, "a", "default", uid=changed.metadata.uid)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", "default")


async def test_lists_in_pages_over_http(memory: MemoryApi) -> None:
    local = Client(memory)
    for number in range(7):
        await local.create(CONFIG_MAP, config_map(f"m{number}"))
    async with await serve(memory) as server, client_of(server.port) as client:
        pages = [len(page.items or ()) async for page in client.pages(CONFIG_MAP, "default", limit=3)]
        listing = await client.list(CONFIG_MAP, "default", limit=3)
    assert (pages, len(listing.items)) == ([3, 3, 1], 7)


async def test_an_informer_outlives_its_server(memory: MemoryApi) -> None:
    local = Client(memory)
    await local.create(CONFIG_MAP, config_map("a"))
    server = await serve(memory)
    async with client_of(server.port) as client, informed(client) as informer:
        await until(informer, "a")
        await server.close()
        await local.create(CONFIG_MAP, config_map("b"))
        await local.delete(CONFIG_MAP, "a", "default")
        await eventually(lambda: isinstance(informer.failure, OutcomeUnknown))
        async with await serve(memory, port=server.port):
            await until(informer, "b")


async def test_informer_lists_again_when_the_server_forgot_its_version(memory: MemoryApi) -> None:
    local = Client(memory)
    await local.create(CONFIG_MAP, config_map("a"))
    server = await serve(memory)
    async with client_of(server.port) as client, informed(client) as informer:
        deleted: list[str] = []
        informer.subscribe(lambda c: deleted.append(c.object.metadata.name) if c.type == "DELETED" else None)
        await server.close()
        await local.delete(CONFIG_MAP, "a", "default")
        await local.create(CONFIG_MAP, config_map("b"))
        memory.compact()
        async with await serve(memory, port=server.port):
            await until(informer, "b")
        assert deleted == ["a"]


async def test_informer_accepts_a_server_that_was_reset(memory: MemoryApi) -> None:
    for number in range(5):
        await Client(memory).create(CONFIG_MAP, config_map(f"m{number}"))
    server = await serve(memory)
    async with client_of(server.port) as client, informed(client) as informer:
        assert len(informer) == 5
        await server.close()
        restored = MemoryApi(SystemClock(), Random(2))
        restored.compact()
        async with await serve(restored, port=server.port):
            await until(informer)


async def test_leader_election_of_two_contenders_over_http(memory: MemoryApi) -> None:
    timing = LeaseTiming(lease_duration=4, renew_deadline=3, retry_period=0.1, request_timeout=2)
    async with await serve(memory) as server, client_of(server.port) as client:
        elections = [
            LeaderElection(
                client, namespace="default", name="x", identity=name, clock=SystemClock(), rng=Random(1), timing=timing
            )
            for name in ("a", "b")
        ]
        tasks = [asyncio.create_task(election.run(_for_ever)) for election in elections]
        await eventually(lambda: any(election.is_leader for election in elections))
        leader = next(index for index, election in enumerate(elections) if election.is_leader)
        tasks[leader].cancel()
        await eventually(lambda: elections[1 - leader].is_leader)
        assert not elections[leader].is_leader
        tasks[1 - leader].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await client.get(LEASE, "x", "default")).spec.holder_identity is None


async def _for_ever() -> None:
    await asyncio.Event().wait()
