"""The three API servers the suite runs on.

`memory` is the embedded server called directly, `rest` the same one served over HTTP and reached with `KubernetesApi`,
`kubernetes` a real one. Without more, `memory` and `rest` run; RESTOW_E2E_KUBECONFIG names a real server, as
`python -m e2e.controlplane` starts it, and makes the suite run there instead.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import urllib.request
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, load_kubeconfig
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve, write_kubeconfig
from restow.ports import Api, ApiError
from tests.conformance.server import Server

Forget = Callable[[], Awaitable[None]]


class Target:
    """A server to test: how to reach it, and how to make it forget every version before the present one."""

    def __init__(self, api: Api, forget: Forget) -> None:
        self.api = api
        self.forget = forget


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Decided when tests are collected: by then e2e/conftest.py has started its server."""
    if "target" in metafunc.fixturenames:
        targets = ["kubernetes"] if _kubeconfig() else ["memory", "rest"]
        metafunc.parametrize("target", targets, indirect=True)


def _kubeconfig() -> str | None:
    return os.environ.get("RESTOW_E2E_KUBECONFIG")


@pytest.fixture
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Target]:
    async with AsyncExitStack() as stack:
        if request.param == "kubernetes":
            yield await _real(Path(_kubeconfig() or ""), stack)
            return
        memory = MemoryApi(SystemClock(), random.Random(7))

        async def compact() -> None:
            memory.compact()

        if request.param == "memory":
            yield Target(memory, compact)
            return
        served = await stack.enter_async_context(await serve(memory))
        kubeconfig = tmp_path / "kubeconfig"
        write_kubeconfig(kubeconfig, served.url)
        yield Target(await _over_http(kubeconfig, stack), compact)


async def _over_http(kubeconfig: Path, stack: AsyncExitStack) -> KubernetesApi:
    config = load_kubeconfig(kubeconfig)
    return await stack.enter_async_context(KubernetesApi(config, clock=SystemClock()))


async def _real(kubeconfig: Path, stack: AsyncExitStack) -> Target:
    api = await _over_http(kubeconfig, stack)
    etcd = (kubeconfig.parent / "etcd.url").read_text()

    async def compact() -> None:
        await asyncio.to_thread(_compact_etcd, etcd)

    return Target(api, compact)


def _compact_etcd(url: str) -> None:
    """What kube-apiserver does every five minutes: note the version for all its caches, then let etcd forget."""

    def post(path: str, body: dict[str, object]) -> bytes:
        with urllib.request.urlopen(f"{url}/v3/kv/{path}", data=msgspec.json.encode(body), timeout=10) as answer:
            return bytes(answer.read())

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    status = msgspec.json.decode(post("range", {"key": encoded("compact_rev_key")}))
    revision = str(int(status["header"]["revision"]) + 1)  # the one the note itself will have: all before it goes
    post("put", {"key": encoded("compact_rev_key"), "value": encoded(revision)})
    post("compaction", {"revision": revision, "physical": True})


@pytest.fixture
def api(target: Target) -> Api:
    return target.api


@pytest.fixture
def forget(target: Target) -> Forget:
    return target.forget


@pytest.fixture
async def server(api: Api) -> AsyncIterator[Server]:
    """The server under test, in a namespace of its own that is deleted afterwards."""
    server = Server(api, f"conformance-{uuid.uuid4().hex[:8]}")
    name = server.namespace
    await server.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield server
    try:
        await server.delete("namespaces", name)
    except ApiError as error:
        assert error.status.code in (404, 409), error
