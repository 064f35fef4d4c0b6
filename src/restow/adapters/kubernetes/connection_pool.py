"""A pool of kept connections to one server, for short responses: one request at a time on each.

In: the bytes of a request. Out: an `HttpResponse`. Writing an object takes the server a millisecond; a general HTTP
client takes a third of that once more, which is most of what a scheduler spends. So ordinary calls go this way, and
what is long, streamed or goes through a proxy is left to aiohttp.

    NotSent     no connection could be made: the request certainly had no effect
    Untrusted   TLS failed, and will the next time
    Broken      the connection ended before the response was complete, or the bytes are no response
"""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import cast
from urllib.parse import urlsplit

from restow.adapters.kubernetes.http_response import HttpResponse, HttpResponseParser, MalformedResponse

CONNECT_TIMEOUT = 10.0
KEPT_SECONDS = 60.0


class NotSent(Exception):
    """No connection could be made."""


class Untrusted(Exception):
    """TLS failed."""


class Broken(Exception):
    """The connection ended before the answer did."""


class ConnectionPool:
    """To the server of a URL; at most `limit` at a time."""

    def __init__(self, url: str, *, limit: int, server_name: str | None = None) -> None:
        parts = urlsplit(url)
        self.netloc = parts.netloc.rpartition("@")[2]
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._server_name = server_name
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[_Connection] = []
        self._closed = False

    async def exchange(self, request: bytes, context: ssl.SSLContext | None) -> HttpResponse:
        """Send a request and read its answer. Raises NotSent, Untrusted, Broken."""
        async with self._slots:
            connection = self._kept(context) or await self._connect(context)
            try:
                answer = await connection.send(request)
            except BaseException:  # a late response must not be taken for that of the next request
                connection.close()
                raise
        if answer.ends_connection or connection.has_extra_data or self._closed:
            connection.close()
        else:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        return answer

    def close(self) -> None:
        """Close idle connections; those in use close after their responses."""
        self._closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self, context: ssl.SSLContext | None) -> _Connection | None:
        """The connection that was used last, if it can be used again."""
        fresh = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.context is context and connection.idle_since >= fresh:
                return connection
            connection.close()
        return None

    async def _connect(self, context: ssl.SSLContext | None) -> _Connection:
        name = (self._server_name or self._host) if context is not None else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(context), self._host, self._port, ssl=context, server_hostname=name
                )
        except TimeoutError:
            raise NotSent(f"no connection within {CONNECT_TIMEOUT:g}s") from None
        except ssl.SSLError as error:
            raise Untrusted(str(error)) from None
        except OSError as error:
            raise NotSent(os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)) from None
        return connection


class _Connection(asyncio.Protocol):
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.is_open = True
        self.idle_since = 0.0
        self._transport: asyncio.Transport
        self._reading = HttpResponseParser()
        self._answer: asyncio.Future[HttpResponse] | None = None

    @property
    def has_extra_data(self) -> bool:
        """Whether there are bytes after the response, which belong to no request."""
        return self._reading.has_begun

    async def send(self, request: bytes) -> HttpResponse:
        if not self.is_open:
            raise Broken("the connection was closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does all the same, but is no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # no request is waiting
            self.close()
            return
        try:
            answer = self._reading.feed(data)
        except MalformedResponse as error:
            self._fail(f"the answer cannot be read: {error}")
        else:
            self._give(answer)

    def eof_received(self) -> None:
        self._give(self._reading.end())

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        begun = "the answer broke off: " if self._reading.has_begun else ""
        self._fail(f"{begun}{error or 'the connection was closed'}")

    def _give(self, answer: HttpResponse | None) -> None:
        if answer is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(reason))
