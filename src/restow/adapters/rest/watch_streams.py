"""Watches over HTTP: a chunked answer with one JSON line per event, for as long as client and server like.

Each stream runs as a task of its own beside the request's handler. A client that leaves cancels the handler, a server
that closes cancels the streams; either way the API server's iterator is closed at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
from aiohttp import HttpVersion11, web

from restow.ports import Status

log = logging.getLogger(__name__)

# How long a stream may take to show whether it begins with an error, which is then an HTTP error, or is just quiet.
GRACE = 0.01

# The last event of a stream that broke on this side; the client lists again.
BROKEN = msgspec.json.encode(
    {
        "type": "ERROR",
        "object": Status(code=500, reason="InternalError", message="the watch failed, see the server's log"),
    }
)


class WatchStreams:
    """The watches that are open on one server."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def serve(
        self, request: web.BaseRequest, events: AsyncIterator[bytes], render: Callable[[bytes], bytes] | None
    ) -> web.StreamResponse:
        """Send all events. An error before the first one is raised; nothing has been sent then."""
        first = asyncio.ensure_future(anext(events))
        try:
            await asyncio.wait({first}, timeout=GRACE)
            if first.done() and not isinstance(first.exception(), StopAsyncIteration):
                first.result()
            response = web.StreamResponse(
                headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
            )
            if request.version >= HttpVersion11:  # older clients read until the connection closes
                response.enable_chunked_encoding()
            else:
                response.force_close()
            await response.prepare(request)
            await self._run(_send_events(response, first, events, render))
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await _close_events(events)
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response

    async def _run(self, pump: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(pump)
        self._open.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._open.discard(task)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def close(self) -> None:
        """End every stream; their clients see a clean end of the answer."""
        for task in self._open:
            task.cancel()


async def _send_events(
    response: web.StreamResponse,
    first: asyncio.Future[bytes],
    events: AsyncIterator[bytes],
    render: Callable[[bytes], bytes] | None,
) -> None:
    try:
        event = await first
        while True:
            await response.write((render(event) if render else event) + b"\n")
            event = await anext(events)
    except (ConnectionError, StopAsyncIteration):
        return
    except Exception:
        log.exception("watch failed")
        await response.write(BROKEN + b"\n")


async def _close_events(events: AsyncIterator[bytes]) -> None:
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
