"""Servers that listen on an address until they are closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from aiohttp import web

CLOSE_WITHIN = 1.0


class ListeningServer:
    """A server that is listening: `async with` it, or `close` it."""

    def __init__(self, runner: web.BaseRunner, host: str, port: int) -> None:
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


async def start_listening(runner: web.BaseRunner, host: str, port: int) -> int:
    """Begin to listen; the port, which 0 lets the system choose. Raises OSError when it is taken."""
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except BaseException:
        await runner.cleanup()
        raise
    return int(runner.addresses[0][1])
