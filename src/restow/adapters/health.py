"""What a running process tells about itself over HTTP: /healthz, /readyz and /metrics; and what it may be asked to do.

In: questions that can be asked at any time, the registry of metrics, and doors: what to do when somebody posts to a
path. Who may, is for the doors to say. Out: a server that is listening.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from restow.adapters.listening import CLOSE_WITHIN, Listening, listen


class Check(msgspec.Struct, frozen=True):
    """One thing that is well, or is not, and how it stands."""

    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"[{'+' if self.ok else '-'}] {self.name}: {self.detail}"


Checks = Callable[[], Iterable[Check]]


class Posted(msgspec.Struct, frozen=True):
    """What somebody posts."""

    token: str
    """The bearer token; empty if there is none."""
    query: Mapping[str, str]


class Told(msgspec.Struct, frozen=True):
    """What they are answered."""

    status: int
    document: Mapping[str, Any]


Door = Callable[[Posted], Awaitable[Told]]
_SCHEME = "bearer "


async def serve_health(
    *,
    host: str,
    port: int,
    alive: Checks,
    ready: Checks,
    registry: CollectorRegistry,
    doors: Mapping[str, Door] | None = None,
) -> Listening:
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
    for path, door in (doors or {}).items():
        application.router.add_post(path, _opened(door))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_WITHIN)
    return Listening(runner, host, await listen(runner, host, port))


def _opened(door: Door) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        header = request.headers.get("Authorization", "")
        token = header[len(_SCHEME) :].strip() if header.lower().startswith(_SCHEME) else ""
        told = await door(Posted(token, dict(request.query)))
        return web.Response(
            body=msgspec.json.encode(told.document), status=told.status, content_type="application/json"
        )

    return handle


def _answer(checks: Iterable[Check]) -> web.Response:
    """A line for each, and 200 if all is well."""
    found = list(checks)
    text = "".join(f"{one}\n" for one in found)
    return web.Response(text=text or "ok\n", status=200 if all(one.ok for one in found) else 503)
