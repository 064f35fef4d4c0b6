"""A scripted HTTP server on loopback, and a clock that stands where it is put."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from aiohttp import web

from restow.adapters.kubernetes import ClusterConfig, KubernetesApi
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.kubernetes.transport import TransportLimits

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class StillClock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port on which `handler` answers."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Script:
    """Answers in turn, the last one again and again; an answer is a response, or a function of the request."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        response: web.StreamResponse | Awaitable[web.StreamResponse] = answer(request)
        return response if isinstance(response, web.StreamResponse) else await response


def say(body: str | bytes = "{}", status: int = 200, **options: Any) -> Callable[[web.BaseRequest], web.Response]:
    options.setdefault("content_type", "application/json")
    data = body.encode() if isinstance(body, str) else body
    return lambda request: web.Response(body=data, status=status, **options)


async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def config(port: int, **options: Any) -> ClusterConfig:
    return ClusterConfig(server=f"http://127.0.0.1:{port}", **({"credentials": StaticCredentials()} | options))


@asynccontextmanager
async def connected(
    *answers: Any,
    limits: TransportLimits | None = None,
    clock: StillClock | None = None,
    rng: Random | None = None,
    **options: Any,
) -> AsyncIterator[tuple[KubernetesApi, Script]]:
    """An api that talks to a server which answers from a script."""
    script = Script(*answers)
    async with (
        serving(script) as port,
        KubernetesApi(config(port, **options), clock=clock or StillClock(), rng=rng or Random(1), limits=limits) as api,
    ):
        yield api, script
