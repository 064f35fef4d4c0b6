"""The scheduler as a process of its own: over real HTTP, in real time, with a server that goes away and comes back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import ClusterConfig, KubernetesApi
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.kubernetes.transport import TransportLimits
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.client.verbs import Client
from restow.model import kinds
from tests.sim.simulated_cluster import node, pod, running_scheduler


@asynccontextmanager
async def remote(port: int) -> AsyncIterator[KubernetesApi]:
    config = ClusterConfig(server=f"http://127.0.0.1:{port}", credentials=StaticCredentials())
    async with KubernetesApi(config, clock=SystemClock(), limits=TransportLimits(request_timeout=5)) as api:
        yield api


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.05)


async def test_pods_are_bound_and_refused_over_http_across_a_server_restart() -> None:
    memory = MemoryApi(SystemClock(), random.Random(1))
    client = Client(memory)
    for number in range(3):
        await client.create(kinds.NODE, node(f"n{number}"))

    async def all_bound() -> bool:
        pods = (await client.list(kinds.POD)).items
        return all(one.spec.node_name for one in pods if one.metadata.name != "big")

    async def is_told() -> bool:
        big = await client.get(kinds.POD, "big", "default")
        return any(one.reason == "Unschedulable" for one in big.status.conditions or ())

    server = await serve(memory)
    port = server.port
    async with remote(port) as api, running_scheduler(api, SystemClock()):
        await client.create(kinds.POD, pod("big", "64"))
        for number in range(20):
            await client.create(kinds.POD, pod(f"a{number}"))
        await eventually(all_bound)
        await eventually(is_told)
        await server.close()
        for number in range(20):
            await client.create(kinds.POD, pod(f"b{number}"))
        server = await serve(memory, port=port)
        await eventually(all_bound)
    await server.close()
