"""The embedded API server: writes per second, and what it costs to tell fifty watchers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, cast

from bench.measure import measured
from bench.report import Report, Row
from bench.served import PODS, creation, fill
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes.cluster_config import ClusterConfig
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.kubernetes.transport import KubernetesApi
from restow.adapters.memory import MemoryApi
from restow.adapters.rest.server import serve
from restow.ports import MERGE_PATCH, Api, Request

WRITES = 5_000
WATCHERS = 50


def creates() -> Callable[[], float]:
    return lambda: asyncio.run(_creates_in_process())


def creates_over_http() -> Callable[[], float]:
    return lambda: asyncio.run(_creates_over_http())


def patches() -> Callable[[], float]:
    return lambda: asyncio.run(_patches())


def fan_out() -> Callable[[], float]:
    return lambda: asyncio.run(_fan_out(WATCHERS))


def unwatched() -> Callable[[], float]:
    return lambda: asyncio.run(_fan_out(0))


async def _server() -> MemoryApi:
    api = MemoryApi(SystemClock(), random.Random(1))
    await fill(api, 0)
    return api


async def _rate(api: Api, requests: list[Request], at_once: int) -> float:
    queue = iter(requests)

    async def send() -> None:
        for request in queue:
            await api.call(request)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(send())
    return len(requests) / (time.perf_counter() - start)


async def _creates_in_process() -> float:
    return await _rate(await _server(), [creation(index) for index in range(WRITES)], 1)


async def _creates_over_http() -> float:
    memory = await _server()
    server = await serve(memory)
    config = ClusterConfig(server=server.url, credentials=StaticCredentials())
    async with KubernetesApi(config, clock=SystemClock()) as api:
        rate = await _rate(api, [creation(index) for index in range(WRITES)], 16)
    await server.close()
    return rate


def _patch(index: int) -> Request:
    target = creation(index % 100)
    name = f"service-{index % 100:03d}-6d5f7c9b8d-{index % 100:07d}"
    body = b'{"metadata":{"annotations":{"beat":"%d"}}}' % index
    return Request(
        verb="patch", resource=PODS, namespace=target.namespace, name=name, content_type=MERGE_PATCH, body=body
    )


async def _patches() -> float:
    api = await _server()
    await _rate(api, [creation(index) for index in range(100)], 1)
    return await _rate(api, [_patch(index) for index in range(WRITES)], 1)


async def _fan_out(watchers: int) -> float:
    """Seconds to write, and to have every watcher read, all the writes."""
    api = await _server()
    requests = [creation(index) for index in range(WRITES)]
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(watchers):
            group.create_task(_watch(api, WRITES))
        await asyncio.sleep(0)
        for request in requests:
            await api.call(request)
    return time.perf_counter() - start


async def _watch(api: Api, count: int) -> None:
    request = Request(verb="watch", resource=PODS, query={"resourceVersion": "0"})
    async with aclosing(cast(Any, api.watch(request))) as events:
        seen = 0
        async for _ in events:
            seen += 1
            if seen == count:
                return


def run() -> Report:
    direct = measured("bench.embedded:creates").value
    rates = {
        "create a pod, in process": direct,
        "create a pod, over HTTP (client and server share a core)": measured("bench.embedded:creates_over_http").value,
        "merge-patch a pod, in process": measured("bench.embedded:patches").value,
    }
    watched, silent = measured("bench.embedded:fan_out").value, measured("bench.embedded:unwatched").value
    events = WRITES * WATCHERS
    row = Row(
        what=f"tell {WATCHERS} watchers of {WRITES:,} creates",
        figures={"per_s": events / watched, "us_each": (watched - silent) / events * 1e6},
        ratio=watched / silent,
    )
    rows = [
        Row(what=what, figures={"per_s": rate, "us_each": 1e6 / rate}, ratio=rate / direct)
        for what, rate in rates.items()
    ]
    return Report(name="the embedded API server", rows=[*rows, row])
