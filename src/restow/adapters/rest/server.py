"""The embedded API server over HTTP, so that kubectl and other Kubernetes clients can talk to it.

In: a `MemoryApi` and an address. Out: a running `RestServer`.

There is no authentication: every client that reaches the port may do everything. Therefore it listens on loopback
unless told otherwise, and there it also refuses requests that a web page in a browser could have caused.
"""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from restow.adapters.listening_server import CLOSE_WITHIN, ListeningServer, start_listening
from restow.adapters.loopback import is_loopback
from restow.adapters.rest.handler import EmbeddedApi, RequestHandler

log = logging.getLogger(__name__)

MAX_LINE = 64 * 1024
KEEP_ALIVE = 600.0


class _ClientErrors(logging.Filter):
    """Drops errors about bytes that are not HTTP: they are the client's mistake, and the client gets the error. They
    are logged at debug level only."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError | web.RequestPayloadError):
            return True
        log.debug("not HTTP", extra={"err": str(error)})
        return False


_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.addFilter(_ClientErrors())


class RestServer(ListeningServer):
    """A server that is listening. `close` ends open watches and connections, then stops listening."""

    def __init__(self, runner: web.ServerRunner, handler: RequestHandler, host: str, port: int) -> None:
        super().__init__(runner, host, port)
        self._handler = handler

    @property
    def url(self) -> str:
        """Where to reach it from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def open_watches(self) -> int:
        return len(self._handler.streams)

    async def close(self) -> None:
        self._handler.streams.close()
        await super().close()


async def serve(api: EmbeddedApi, *, host: str = "127.0.0.1", port: int = 0) -> RestServer:
    """Listen on an address; port 0 takes a free one. Raises OSError when the port is taken."""
    handler = RequestHandler(api, loopback_only=is_loopback(host))
    server = web.Server(
        handler,
        handler_cancellation=True,
        access_log=None,
        logger=_protocol_log,
        keepalive_timeout=KEEP_ALIVE,
        max_line_size=MAX_LINE,
        max_field_size=MAX_LINE,
    )
    runner = web.ServerRunner(server, shutdown_timeout=CLOSE_WITHIN)
    return RestServer(runner, handler, host, await start_listening(runner, host, port))
