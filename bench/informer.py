"""An informer's first sync of 100,000 pods over HTTP: time and memory, against a cache of plain dictionaries."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from typing import Any

from bench.measure import measured
from bench.report import Claim, Report, Row
from bench.served import PODS, served
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes.cluster_config import ClusterConfig
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.kubernetes.transport import KubernetesApi
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import POD
from restow.ports import Request

COUNT = 100_000
DICTIONARIES = 20_000
PAGE = 500
URL = "BENCH_URL"
MOST_MB = 400


def ours() -> Callable[[], int]:
    return lambda: asyncio.run(_sync())


def dictionaries() -> Callable[[], int]:
    return lambda: asyncio.run(_sync_dictionaries())


def _api() -> KubernetesApi:
    return KubernetesApi(ClusterConfig(server=os.environ[URL], credentials=StaticCredentials()), clock=SystemClock())


async def _sync() -> int:
    async with _api() as api:
        informer = Informer(Client(api), POD, rng=random.Random(1))
        running = asyncio.create_task(informer.run())
        await informer.synced()
        running.cancel()
        return _kept(len(informer), informer)


async def _sync_dictionaries() -> int:
    cache: dict[str, Any] = {}
    async with _api() as api:
        token: str | None = ""
        while token is not None and len(cache) < DICTIONARIES:
            query = {"limit": str(PAGE)} | ({"continue": token} if token else {})
            page = json.loads((await api.call(Request(verb="list", resource=PODS, query=query))).body)
            cache |= {item["metadata"]["uid"]: item for item in page["items"]}
            token = page["metadata"].get("continue")
    return _kept(len(cache), cache)


_alive: list[object] = []


def _kept(count: int, cache: object) -> int:
    """Hold on to the cache until the process has been measured."""
    _alive.append(cache)
    return count


def run() -> Report:
    with served(COUNT) as url:
        os.environ[URL] = url
        mine = measured("bench.informer:ours")
        theirs = measured("bench.informer:dictionaries")
    if mine.value != COUNT:
        raise RuntimeError(f"the informer holds {mine.value} of {COUNT} pods")
    per_pod, peer = mine.cpu / COUNT, theirs.cpu / theirs.value
    rows = [
        Row(
            what=f"restow informer, {COUNT:,} pods",
            figures={"wall_s": mine.wall, "cpu_s": mine.cpu, "grown_mb": mine.grown_mb, "us_per_pod": per_pod * 1e6},
            ratio=1.0,
        ),
        Row(
            what=f"pages into dictionaries, {theirs.value:,} pods",
            figures={
                "wall_s": theirs.wall,
                "cpu_s": theirs.cpu,
                "grown_mb": theirs.grown_mb,
                "us_per_pod": peer * 1e6,
            },
            ratio=peer / per_pod,
        ),
    ]
    claim = Claim(what=f"MB for {COUNT:,} pods", wanted=MOST_MB, measured=mine.grown_mb, at_least=False)
    return Report(name=f"informer: first sync of {COUNT:,} pods over HTTP", rows=rows, claims=[claim])
