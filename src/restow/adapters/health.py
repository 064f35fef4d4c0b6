"""What a running process tells about itself over HTTP: /healthz, /readyz and /metrics.

In: questions that can be asked at any time, and the registry of metrics. Out: a running `HealthServer`. Nothing can be
changed through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

CLOSE_WITHIN = 1.0


class Check(msgspec.Struct, frozen=True):
    """One thing that is well, or is not, and how it stands."""

    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"[{'+' if self.ok else '-'}] {self.name}: {self.detail}"


Checks = Callable[[], Iterable[Check]]


class HealthServer:
    """A server that is listening."""

    def __init__(self, runner: web.AppRunner, host: str, port: int) -> None:
        self._runner = runner
        self.host = host
        self.port = port

    async def close(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def serve_health(
    *, host: str, port: int, alive: Checks, ready: Checks, registry: CollectorRegistry
) -> HealthServer:
    """Listen on an address; port 0 takes a free one. Raises OSError when the port is taken."""

    async def healthz(_: web.Request) -> web.Response:
        return _answer(alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(ready())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    for path, handler in (("/healthz", healthz), ("/livez", healthz), ("/readyz", readyz), ("/metrics", metrics)):
        application.router.add_get(path, handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_WITHIN)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except BaseException:
        await runner.cleanup()
        raise
    return HealthServer(runner, host, runner.addresses[0][1])


def _answer(checks: Iterable[Check]) -> web.Response:
    """A line for each, and 200 if all is well."""
    found = list(checks)
    text = "".join(f"{one}\n" for one in found)
    return web.Response(text=text or "ok\n", status=200 if all(one.ok for one in found) else 503)
