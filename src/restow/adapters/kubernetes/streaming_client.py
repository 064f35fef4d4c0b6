"""Long or streamed responses, and requests through a proxy: aiohttp handles them.

In: a request with its headers, and a TLS context. Out: a `ResponseStream`, to be read whole or line by line. Failures
are the exceptions of `connection_pool`: Untrusted, NotSent, Broken.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator

import aiohttp

from restow.adapters.kubernetes.cluster_config import ClusterConfig
from restow.adapters.kubernetes.connection_pool import CONNECT_TIMEOUT, Broken, NotSent, Untrusted
from restow.adapters.kubernetes.http_mapping import METHODS, LineSplitter, path_of
from restow.adapters.kubernetes.http_response import HttpResponse, headers_of
from restow.ports import Request

READ_BUFFER = 2**21


class ResponseStream:
    """A response whose headers have arrived."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.code = response.status

    async def whole(self) -> HttpResponse:
        """All of it, unpacked; the connection may be used again."""
        try:
            body = await self._response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(f"the answer broke off: {_reason(error)}") from None
        finally:
            self._response.release()
        return HttpResponse(self.code, headers_of(self._response.headers.items()), body)

    async def lines(self) -> AsyncIterator[bytes]:
        lines = LineSplitter()
        try:
            async for chunk in self._response.content.iter_any():
                for line in lines.feed(chunk):
                    yield line
        except TimeoutError:
            raise Broken("silent for too long") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(f"stream broken: {_reason(error)}") from None
        if lines.rest():
            raise Broken("the stream ended in the middle of an event")

    def close(self) -> None:
        self._response.close()


class StreamingClient:
    """Requires a running loop. `idle` is for how long a watch may be silent, in seconds."""

    def __init__(self, config: ClusterConfig, *, limit: int, idle: float) -> None:
        self._config = config
        self._idle = idle
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=60.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Content-Type",),
        )
        # aiohttp sends PUT and DELETE again when a kept connection turns out closed, although the server may have acted
        # already. What is tried again is decided elsewhere; there is no public switch.
        self._session._retry_connection = False

    async def close(self) -> None:
        await self._session.close()

    async def open(
        self, request: Request, headers: list[tuple[str, str]], context: ssl.SSLContext | bool
    ) -> ResponseStream:
        watching = request.verb == "watch"
        encoding = "gzip" if self._config.compress and not watching else "identity"
        kind = [("Content-Type", request.content_type)] if request.body else []
        server, idle = self._config.server, self._idle if watching else None
        try:
            response = await self._session.request(
                METHODS[request.verb],
                server + path_of(request),
                data=request.body or None,
                headers=[*headers, ("Accept", "application/json"), ("Accept-Encoding", encoding), *kind],
                allow_redirects=False,
                proxy=self._config.proxy,
                ssl=context,
                server_hostname=self._config.tls_server_name,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle),
                read_bufsize=READ_BUFFER,
            )
        except aiohttp.ClientSSLError as error:
            raise Untrusted(_reason(error)) from None
        except (aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError) as error:
            raise NotSent(f"the proxy of {server} does not connect: {_reason(error)}") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(f"cannot connect to {server}: {_reason(error)}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(f"connection to {server} broken: {_reason(error)}") from None
        return ResponseStream(response)


def _reason(error: BaseException) -> str:
    """What went wrong, in the words of the layer that knows."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return str(error.certificate_error)
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {CONNECT_TIMEOUT:g}s"
        case aiohttp.ClientHttpProxyError():
            return f"it answered {error.status} {error.message}".rstrip()
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            return os.strerror(number) if number and number > 0 else str(error.os_error)
        case aiohttp.ClientPayloadError():
            return "the connection was closed"
    return str(error) or type(error).__name__
