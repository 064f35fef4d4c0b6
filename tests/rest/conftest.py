"""A scripted API server, served, and a client for it; and a real one, served for kubectl."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import RestServer, serve, write_kubeconfig
from tests.rest.behind import Cluster, measured
from tests.rest.kubectl import Kubectl, binaries, ends
from tests.rest.scripted import ScriptedApi


@pytest.fixture
def scripted() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
async def server(scripted: ScriptedApi) -> AsyncIterator[RestServer]:
    async with await serve(scripted) as running:
        yield running


@pytest.fixture
async def http(server: RestServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster(MemoryApi(SystemClock(), random.Random(1), measure=measured))
    kubelet = asyncio.create_task(made.run_kubelet())
    yield made
    kubelet.cancel()
    await asyncio.gather(kubelet, return_exceptions=True)


@pytest.fixture(params=ends())
async def kubectl(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with await serve(cluster.api) as server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        yield Kubectl(binaries()[request.param], tmp_path, kubeconfig)


@pytest.fixture
async def kubectls(cluster: Cluster, tmp_path: Path) -> AsyncIterator[list[Kubectl]]:
    """All of them at one server, for what takes each a while."""
    async with await serve(cluster.api) as server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        homes = {name: tmp_path / name for name in ends()}
        for home in homes.values():
            home.mkdir()
        yield [Kubectl(binaries()[name], home, kubeconfig) for name, home in homes.items()]
