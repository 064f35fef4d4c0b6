"""Long runs: many nodes, many pods, and a cache that has to start over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from e2e.cluster import add_nodes, deploy, following, is_ready, is_running, reaches, running, together
from e2e.controlplane import ControlPlane
from restow.client.cache import Change
from restow.client.informer import Informer
from restow.client.informer_settings import InformerSettings
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT, NODE, POD
from restow.model.objects import Pod
from restow.ports import Api, OutcomeUnknown, Request, Response

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

NODES = 1000
PODS = 5000
WORKLOADS = 10


async def test_a_thousand_nodes_run_five_thousand_pods(client: Client, namespace: str) -> None:
    async with following(Informer(client, NODE, rng=random.Random(1))) as nodes:
        names = set(await add_nodes(client, NODES))
        await reaches(lambda: len({n.metadata.name for n in nodes if is_ready(n)} & names), NODES, "Ready nodes", 300)
    async with following(Informer(client, POD, rng=random.Random(1), namespace=namespace)) as pods:
        await together(deploy(client, namespace, PODS // WORKLOADS, f"web-{number}") for number in range(WORKLOADS))
        await reaches(lambda: running(pods), PODS, "running pods", 900)
        listed = (await client.list(POD, namespace)).items
        assert {pod.metadata.uid for pod in pods} == {pod.metadata.uid for pod in listed}


class CuttableApi:
    """An Api with watches that can be cut and kept from coming back."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.cut = asyncio.Event()

    async def call(self, request: Request) -> Response:
        self._check()
        return await self._api.call(request)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        self._check()
        stream = self._api.watch(request)
        async for line in stream:
            yield line
            self._check()

    def _check(self) -> None:
        if self.cut.is_set():
            raise OutcomeUnknown.because(503, "ServiceUnavailable", "the cable is out")


async def test_an_informer_that_missed_a_compaction_starts_over(
    client: Client, namespace: str, plane: ControlPlane
) -> None:
    """Cut off, it misses pods that come and go, and the history of it is forgotten; then it catches up."""
    cable = CuttableApi(client.api)
    informer = Informer(
        Client(cable), POD, rng=random.Random(1), namespace=namespace, settings=InformerSettings(backoff=0.2)
    )
    changes: list[Change[Pod]] = []
    await add_nodes(client, 10)
    async with following(informer) as pods:
        pods.subscribe(changes.append)
        await deploy(client, namespace, 5)
        await reaches(lambda: running(pods), 5, "running pods")
        cable.cut.set()
        await client.delete(DEPLOYMENT, "web", namespace)
        await deploy(client, namespace, 3, "other")
        await settled(client, namespace, 3)
        await plane.restart_api_server()  # its watch cache forgets everything before
        cable.cut.clear()
        await reaches(lambda: (len(pods), running(pods)), (3, 3), "pods, and running pods")
    gone = {change.object.metadata.uid for change in changes if change.type == "DELETED"}
    assert len(gone) == 5
    assert {pod.metadata.uid for pod in informer} == {
        pod.metadata.uid for pod in (await client.list(POD, namespace)).items
    }


async def settled(client: Client, namespace: str, count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            pods = (await client.list(POD, namespace)).items
            if len(pods) == count and all(map(is_running, pods)):
                return
            await asyncio.sleep(0.2)
