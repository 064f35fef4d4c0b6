"""The health server of a running process: /healthz, /livez, /readyz and /metrics, and POST handlers by path.

In: checks that can run at any time, the registry of metrics, and the handlers. Each handler decides by the bearer token
whether the caller is allowed. Out: a server that is listening.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from restow.adapters.listening_server import CLOSE_WITHIN, ListeningServer, start_listening


class Check(msgspec.Struct, frozen=True):
    """The result of one health check."""

    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"[{'+' if self.ok else '-'}] {self.name}: {self.detail}"


Checks = Callable[[], Iterable[Check]]


class PostedRequest(msgspec.Struct, frozen=True):
    """A POST request."""

    token: str
    """The bearer token; empty if there is none."""
    query: Mapping[str, str]


class PostResponse(msgspec.Struct, frozen=True):
    """The answer to a POST request."""

    status: int
    document: Mapping[str, Any]


PostHandler = Callable[[PostedRequest], Awaitable[PostResponse]]
_SCHEME = "bearer "


async def serve_health(
    *,
    host: str,
    port: int,
    alive: Checks,
    ready: Checks,
    registry: CollectorRegistry,
    post_handlers: Mapping[str, PostHandler] | None = None,
) -> ListeningServer:
    """Listen on an address; port 0 takes a free one. Raises OSError when the port is taken."""

    async def healthz(_: web.Request) -> web.Response:
        return _check_response(alive())

    async def readyz(_: web.Request) -> web.Response:
        return _check_response(ready())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    for path, handler in (("/healthz", healthz), ("/livez", healthz), ("/readyz", readyz), ("/metrics", metrics)):
        application.router.add_get(path, handler)
    for path, post_handler in (post_handlers or {}).items():
        application.router.add_post(path, _http_handler(post_handler))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_WITHIN)
    return ListeningServer(runner, host, await start_listening(runner, host, port))


def _http_handler(post_handler: PostHandler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        header = request.headers.get("Authorization", "")
        token = header[len(_SCHEME) :].strip() if header.lower().startswith(_SCHEME) else ""
        response = await post_handler(PostedRequest(token, dict(request.query)))
        return web.Response(
            body=msgspec.json.encode(response.document), status=response.status, content_type="application/json"
        )

    return handle


def _check_response(checks: Iterable[Check]) -> web.Response:
    """One line per check; 200 if all are ok, else 503."""
    results = list(checks)
    text = "".join(f"{check}\n" for check in results)
    return web.Response(text=text or "ok\n", status=200 if all(check.ok for check in results) else 503)
