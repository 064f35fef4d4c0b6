"""`KubernetesApi`: the Api port over HTTP, to a real kube-apiserver or anything that speaks like one.

What it does about failures, so that no caller has to:

    no credentials           Unauthorized: nothing was sent
    401                      renew the credentials, try once more
    429 with Retry-After     nothing was executed: wait and retry, as long as the call's time allows
    no connection            nothing was sent: retry (unless TLS failed: it will fail again)
    broken connection, 5xx   reads are retried; a write raises OutcomeUnknown, because its result is unknown
    time is up               OutcomeUnknown

A call's time limit covers all its tries, but not the wait for credentials: a log-in takes its own time. A watch has no
limit; one that breaks or falls silent ends with an ERROR event. Lists, watches and everything that goes through a proxy
go over `streaming_client`; other calls are short and many, and go over our own `connection_pool`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from restow.adapters.kubernetes.cluster_config import ClusterConfig, ConfigError
from restow.adapters.kubernetes.connection_pool import Broken, ConnectionPool, NotSent, Untrusted
from restow.adapters.kubernetes.credentials import Certificate, Identity
from restow.adapters.kubernetes.http_mapping import (
    METHODS,
    check_kubernetes,
    impersonation_headers,
    is_budget_refusal,
    path_of,
    status_of,
    warnings_of,
)
from restow.adapters.kubernetes.http_response import HttpResponse, MalformedResponse, decompressed_response
from restow.adapters.kubernetes.tls import tls_context
from restow.client.rate_limit import JitteredBackoff, TokenBucket
from restow.ports import (
    ApiError,
    Clock,
    OutcomeUnknown,
    Request,
    Response,
    Status,
    TooManyRequests,
    Unauthorized,
)

if TYPE_CHECKING:
    from restow.adapters.kubernetes.streaming_client import ResponseStream, StreamingClient

log = logging.getLogger(__name__)

R = TypeVar("R")

RETRIES = 4
FIRST_RETRY = 0.2
DEFAULT_RETRY_AFTER = 1.0
CONNECTIONS = 256


class TransportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits in seconds; the rate of calls (None: no limit on our side)."""

    request_timeout: float = 30.0
    list_timeout: float = 60.0
    watch_idle: float = 300.0
    rate: float | None = 400.0
    burst: int = 800


def user_agent() -> str:
    try:
        return f"restow/{version('restow')}"
    except PackageNotFoundError:
        return "restow"


class KubernetesApi:
    """ports.Api over HTTP. Use as an async context manager, or `close` it. `rng` spreads out retries."""

    def __init__(
        self, config: ClusterConfig, *, clock: Clock, rng: Random | None = None, limits: TransportLimits | None = None
    ) -> None:
        self.config = config
        self._clock = clock
        self._rng = rng or Random()
        self._limits = limits or TransportLimits()
        self._streams: StreamingClient | None = None
        self._tls: tuple[Certificate | None, ssl.SSLContext] | None = None
        self._bucket = TokenBucket(self._limits.rate, self._limits.burst) if self._limits.rate else None
        self._headers = [("User-Agent", user_agent()), *impersonation_headers(config.impersonation)]
        self._prefix = urlsplit(config.server).path.rstrip("/")
        self._connections: ConnectionPool | None = None
        self._written_for: Identity | None = None
        self._common = b""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._streams is not None:
            await self._streams.close()
            self._streams = None
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    # ---- ports.Api

    async def call(self, request: Request) -> Response:
        return await self._with_credentials(request, self._call_with_timeout)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        try:
            stream = await self._with_credentials(request, self._start_watch)
        except (NotSent, Broken) as error:
            raise OutcomeUnknown.because(503, "ServiceUnavailable", f"{_describe_request(request)}: {error}") from None
        try:
            async for line in stream.lines():
                yield line
        except Broken as error:
            status = Status(code=503, reason="ServiceUnavailable", message=f"{_describe_request(request)}: {error}")
            yield msgspec.json.encode({"type": "ERROR", "object": status})
        finally:
            stream.close()

    # ---- credentials

    async def _with_credentials(self, request: Request, send: Callable[[Request, Identity], Awaitable[R]]) -> R:
        """Send with the present identity; if it is refused, once more with a new one, if there is one."""
        identity = await self._identity(request)
        try:
            return await send(request, identity)
        except Unauthorized:
            if not await self._renew(request, identity):
                raise
        return await send(request, await self._identity(request))

    async def _identity(self, request: Request) -> Identity:
        try:
            return await self.config.credentials.current(self._clock.now())
        except ConfigError as error:
            message = f"{_describe_request(request)} not sent: {error}"
            raise Unauthorized.because(401, "Unauthorized", message) from None

    async def _renew(self, request: Request, refused: Identity) -> bool:
        try:
            return await self.config.credentials.renew(refused, self._clock.now())
        except ConfigError as error:
            message = f"{_describe_request(request)}: refused, and there are no newer credentials: {error}"
            raise Unauthorized.because(401, "Unauthorized", message) from None

    # ---- tries

    async def _call_with_timeout(self, request: Request, identity: Identity) -> Response:
        limit = self._limits.list_timeout if request.verb == "list" else self._limits.request_timeout
        deadline = asyncio.get_running_loop().time() + limit
        try:
            async with asyncio.timeout_at(deadline):
                if self._bucket is not None:
                    await self._bucket.wait()
                return await self._call_with_retries(request, identity, deadline)
        except TimeoutError:
            message = f"{_describe_request(request)}: no answer within {limit:g}s"
            raise OutcomeUnknown.because(504, "Timeout", message) from None

    async def _call_with_retries(self, request: Request, identity: Identity, deadline: float) -> Response:
        backoff = JitteredBackoff(self._rng, base=FIRST_RETRY)
        for attempt in range(RETRIES + 1):
            try:
                return await self._attempt(request, identity)
            except NotSent as error:
                failure, delay = _unavailable_error(request, error), backoff.next_delay()
            except TooManyRequests as error:
                if is_budget_refusal(error.status):
                    raise
                wanted = DEFAULT_RETRY_AFTER if error.retry_after is None else error.retry_after
                failure, delay = (
                    error,
                    wanted + backoff.next_delay(),
                )  # not before the server allows it, and not at the same moment as all other clients
            except (Broken, OutcomeUnknown) as error:
                failure, delay = _unavailable_error(request, error), backoff.next_delay()
                if request.verb not in ("get", "list"):
                    raise failure from None
            if attempt == RETRIES or asyncio.get_running_loop().time() + delay >= deadline:
                raise failure from None
            log.debug(
                "request retried", extra={"request": _describe_request(request), "err": str(failure), "delay": delay}
            )
            await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, request: Request, identity: Identity) -> Response:
        is_long = request.verb == "list" or self.config.proxy is not None
        answer = await (self._fetch(request, identity) if is_long else self._exchange(request, identity))
        if answer.is_ordinary:
            return Response(body=answer.body, code=answer.code)
        _raise_for_status(request, answer, self.config.server)
        kind = answer.headers.get("content-type", "")
        if "html" in kind:
            status = status_of(answer.code, answer.body, kind, None)
            raise ApiError(msgspec.structs.replace(status, message=f"{_describe_request(request)}: {status.message}"))
        return Response(body=answer.body, code=answer.code, warnings=warnings_of(answer.headers.get("warning")))

    # ---- short answers

    async def _exchange(self, request: Request, identity: Identity) -> HttpResponse:
        if self._connections is None:
            config = self.config
            self._connections = ConnectionPool(config.server, limit=CONNECTIONS, server_name=config.tls_server_name)
        context = self._context(identity.certificate)
        try:
            written = self._encoded(request, identity)
            secured = context if isinstance(context, ssl.SSLContext) else None
            return decompressed_response(await self._connections.exchange(written, secured))
        except Untrusted as error:
            raise _untrusted_error(request, self.config.server, str(error)) from None
        except NotSent as error:
            raise NotSent(f"cannot connect to {self.config.server}: {error}") from None
        except (Broken, MalformedResponse) as error:
            raise Broken(f"connection to {self.config.server} broken: {error}") from None

    def _encoded(self, request: Request, identity: Identity) -> bytes:
        """The request as it goes over the wire. The lines that all requests share are encoded once per identity."""
        if self._written_for is not identity:
            self._common = self._common_lines(identity)
            self._written_for = identity
        kind = f"Content-Type: {request.content_type}\r\n" if request.body else ""
        first = f"{METHODS[request.verb]} {self._prefix}{path_of(request)} HTTP/1.1\r\n"
        return b"".join(
            (first.encode(), self._common, f"{kind}Content-Length: {len(request.body)}\r\n\r\n".encode(), request.body)
        )

    def _common_lines(self, identity: Identity) -> bytes:
        assert self._connections is not None
        encoding = "gzip" if self.config.compress else "identity"
        lines = [("Host", self._connections.netloc), *self._headers]
        lines += [("Accept", "application/json"), ("Accept-Encoding", encoding), *_authorization_header(identity)]
        return "".join(f"{name}: {value}\r\n" for name, value in lines).encode()

    # ---- long ones

    async def _fetch(self, request: Request, identity: Identity) -> HttpResponse:
        return await (await self._send(request, identity)).whole()

    async def _start_watch(self, request: Request, identity: Identity) -> ResponseStream:
        """The answer, if it is a success, with its body still to be read."""
        stream = await self._send(request, identity)
        if stream.code >= 300:
            try:
                _raise_for_status(request, await stream.whole(), self.config.server)
            finally:
                stream.close()
        return stream

    async def _send(self, request: Request, identity: Identity) -> ResponseStream:
        if self._streams is None:
            # not before it is needed: to import aiohttp takes longer than most commands do without it
            from restow.adapters.kubernetes.streaming_client import StreamingClient

            self._streams = StreamingClient(self.config, limit=CONNECTIONS, idle=self._limits.watch_idle)
        try:
            headers = [*self._headers, *_authorization_header(identity)]
            return await self._streams.open(request, headers, self._context(identity.certificate))
        except Untrusted as error:
            raise _untrusted_error(request, self.config.server, str(error)) from None

    # ---- TLS

    def _context(self, certificate: Certificate | None) -> ssl.SSLContext | bool:
        """The TLS context for a certificate; connections made with an earlier one are not reused for it."""
        if not self.config.server.startswith("https:"):
            return True
        if self._tls is None or self._tls[0] != certificate:
            try:
                context = tls_context(self.config.authority, certificate, insecure=self.config.insecure)
            except ConfigError as error:
                raise Unauthorized.because(401, "Unauthorized", str(error)) from None
            self._tls = (certificate, context)
        return self._tls[1]


def _authorization_header(identity: Identity) -> list[tuple[str, str]]:
    return [("Authorization", identity.authorization)] if identity.authorization else []


def _raise_for_status(request: Request, answer: HttpResponse, server: str) -> None:
    code = answer.code
    if code < 300:
        return
    if code < 400:
        target = answer.headers.get("location", "elsewhere")
        message = f"{_describe_request(request)}: redirected to {target}, which is no API server's way to answer"
        raise ApiError(Status(code=code, reason="Redirected", message=message))
    kind = answer.headers.get("content-type", "")
    status = status_of(code, answer.body, kind, answer.headers.get("retry-after"))
    check_kubernetes(request, status, server)
    raise ApiError.of(status)


def _untrusted_error(request: Request, server: str, reason: str) -> ApiError:
    message = f"{_describe_request(request)}: TLS to {server} failed: {reason}"
    return ApiError(Status(code=503, reason="Untrusted", message=message))


def _unavailable_error(request: Request, error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    return OutcomeUnknown.because(503, "ServiceUnavailable", f"{_describe_request(request)}: {error}")


def _describe_request(request: Request) -> str:
    name = "/".join(part for part in (request.namespace, request.name) if part)
    plural = f"{request.resource.plural}/{request.subresource}" if request.subresource else request.resource.plural
    return " ".join(part for part in (request.verb, plural, name) if part)
