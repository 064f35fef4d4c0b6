"""`KubernetesApi`: the Api port over HTTP, to a real kube-apiserver or anything that speaks like one.

What it does about trouble, so that nobody above has to:

    no credentials           Unauthorized: nothing was sent
    401                      renew the credentials, try once more
    429 with Retry-After     nothing was executed: wait and try again, as long as the call's time allows
    no connection            nothing was sent: try again (unless it is TLS that failed: that will not change)
    broken connection, 5xx   reads are tried again; a write raises OutcomeUnknown, for its result is unknown
    time is up               OutcomeUnknown

A call's time limit covers all its tries, but not the wait for credentials: a log-in takes its own time. A watch has no
limit; one that breaks or falls silent ends with an ERROR event. Lists, watches and everything that goes through a proxy
go over `streams`; other calls are short, many, and go over `connections` of our own.
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

from restow.adapters.kubernetes.answers import Answer, Malformed, unpacked
from restow.adapters.kubernetes.config import ClusterConfig, ConfigError
from restow.adapters.kubernetes.connections import Broken, Connections, NotSent, Untrusted
from restow.adapters.kubernetes.credentials import Certificate, Identity
from restow.adapters.kubernetes.http_form import (
    METHODS,
    check_kubernetes,
    impersonation_headers,
    is_budget_refusal,
    path_of,
    status_of,
    warnings_of,
)
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
    from restow.adapters.kubernetes.streams import Stream, Streams

log = logging.getLogger(__name__)

R = TypeVar("R")

RETRIES = 4
FIRST_RETRY = 0.2
DEFAULT_RETRY_AFTER = 1.0
CONNECTIONS = 256


class Limits(msgspec.Struct, frozen=True, kw_only=True):
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
    """ports.Api over HTTP. Use as an async context manager, or `close` it. `rng` spreads out what is tried again."""

    def __init__(
        self, config: ClusterConfig, *, clock: Clock, rng: Random | None = None, limits: Limits | None = None
    ) -> None:
        self.config = config
        self._clock = clock
        self._rng = rng or Random()
        self._limits = limits or Limits()
        self._streams: Streams | None = None
        self._tls: tuple[Certificate | None, ssl.SSLContext] | None = None
        self._bucket = TokenBucket(self._limits.rate, self._limits.burst) if self._limits.rate else None
        self._headers = [("User-Agent", user_agent()), *impersonation_headers(config.impersonation)]
        self._prefix = urlsplit(config.server).path.rstrip("/")
        self._connections: Connections | None = None
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
        return await self._as_someone(request, self._call_in_time)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        try:
            stream = await self._as_someone(request, self._start)
        except (NotSent, Broken) as error:
            raise OutcomeUnknown.because(503, "ServiceUnavailable", f"{_describe(request)}: {error}") from None
        try:
            async for line in stream.lines():
                yield line
        except Broken as error:
            status = Status(code=503, reason="ServiceUnavailable", message=f"{_describe(request)}: {error}")
            yield msgspec.json.encode({"type": "ERROR", "object": status})
        finally:
            stream.close()

    # ---- credentials

    async def _as_someone(self, request: Request, ask: Callable[[Request, Identity], Awaitable[R]]) -> R:
        """Ask with the present identity; if it is refused, once more with a new one, if there is one to be had."""
        identity = await self._identity(request)
        try:
            return await ask(request, identity)
        except Unauthorized:
            if not await self._renew(request, identity):
                raise
        return await ask(request, await self._identity(request))

    async def _identity(self, request: Request) -> Identity:
        try:
            return await self.config.credentials.current(self._clock.now())
        except ConfigError as error:
            message = f"{_describe(request)} not sent: {error}"
            raise Unauthorized.because(401, "Unauthorized", message) from None

    async def _renew(self, request: Request, refused: Identity) -> bool:
        try:
            return await self.config.credentials.renew(refused, self._clock.now())
        except ConfigError as error:
            message = f"{_describe(request)}: refused, and there are no newer credentials: {error}"
            raise Unauthorized.because(401, "Unauthorized", message) from None

    # ---- tries

    async def _call_in_time(self, request: Request, identity: Identity) -> Response:
        limit = self._limits.list_timeout if request.verb == "list" else self._limits.request_timeout
        deadline = asyncio.get_running_loop().time() + limit
        try:
            async with asyncio.timeout_at(deadline):
                if self._bucket is not None:
                    await self._bucket.wait()
                return await self._call_with_retries(request, identity, deadline)
        except TimeoutError:
            message = f"{_describe(request)}: no answer within {limit:g}s"
            raise OutcomeUnknown.because(504, "Timeout", message) from None

    async def _call_with_retries(self, request: Request, identity: Identity, deadline: float) -> Response:
        backoff = JitteredBackoff(self._rng, base=FIRST_RETRY)
        for attempt in range(RETRIES + 1):
            try:
                return await self._try(request, identity)
            except NotSent as error:
                failure, delay = _unavailable(request, error), backoff.next()
            except TooManyRequests as error:
                if is_budget_refusal(error.status):
                    raise
                wanted = DEFAULT_RETRY_AFTER if error.retry_after is None else error.retry_after
                failure, delay = error, wanted + backoff.next()  # never sooner, and not together with all others
            except (Broken, OutcomeUnknown) as error:
                failure, delay = _unavailable(request, error), backoff.next()
                if request.verb not in ("get", "list"):
                    raise failure from None
            if attempt == RETRIES or asyncio.get_running_loop().time() + delay >= deadline:
                raise failure from None
            log.debug("request retried", extra={"request": _describe(request), "err": str(failure), "delay": delay})
            await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def _try(self, request: Request, identity: Identity) -> Response:
        is_long = request.verb == "list" or self.config.proxy is not None
        answer = await (self._fetch(request, identity) if is_long else self._exchange(request, identity))
        if answer.is_ordinary:
            return Response(body=answer.body, code=answer.code)
        _raise_for_status(request, answer, self.config.server)
        kind = answer.headers.get("content-type", "")
        if "html" in kind:
            status = status_of(answer.code, answer.body, kind, None)
            raise ApiError(msgspec.structs.replace(status, message=f"{_describe(request)}: {status.message}"))
        return Response(body=answer.body, code=answer.code, warnings=warnings_of(answer.headers.get("warning")))

    # ---- short answers

    async def _exchange(self, request: Request, identity: Identity) -> Answer:
        if self._connections is None:
            config = self.config
            self._connections = Connections(config.server, limit=CONNECTIONS, server_name=config.tls_server_name)
        context = self._context(identity.certificate)
        try:
            written = self._written(request, identity)
            secured = context if isinstance(context, ssl.SSLContext) else None
            return unpacked(await self._connections.exchange(written, secured))
        except Untrusted as error:
            raise _untrusted(request, self.config.server, str(error)) from None
        except NotSent as error:
            raise NotSent(f"cannot connect to {self.config.server}: {error}") from None
        except (Broken, Malformed) as error:
            raise Broken(f"connection to {self.config.server} broken: {error}") from None

    def _written(self, request: Request, identity: Identity) -> bytes:
        """The request as it goes over the wire. What is the same in all of them is written once per identity."""
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
        lines += [("Accept", "application/json"), ("Accept-Encoding", encoding), *_authorization(identity)]
        return "".join(f"{name}: {value}\r\n" for name, value in lines).encode()

    # ---- long ones

    async def _fetch(self, request: Request, identity: Identity) -> Answer:
        return await (await self._send(request, identity)).whole()

    async def _start(self, request: Request, identity: Identity) -> Stream:
        """The answer, if it is a success, with its body still to be read."""
        stream = await self._send(request, identity)
        if stream.code >= 300:
            try:
                _raise_for_status(request, await stream.whole(), self.config.server)
            finally:
                stream.close()
        return stream

    async def _send(self, request: Request, identity: Identity) -> Stream:
        if self._streams is None:
            # not before it is needed: to import aiohttp takes longer than most commands do without it
            from restow.adapters.kubernetes.streams import Streams

            self._streams = Streams(self.config, limit=CONNECTIONS, idle=self._limits.watch_idle)
        try:
            headers = [*self._headers, *_authorization(identity)]
            return await self._streams.open(request, headers, self._context(identity.certificate))
        except Untrusted as error:
            raise _untrusted(request, self.config.server, str(error)) from None

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


def _authorization(identity: Identity) -> list[tuple[str, str]]:
    return [("Authorization", identity.authorization)] if identity.authorization else []


def _raise_for_status(request: Request, answer: Answer, server: str) -> None:
    code = answer.code
    if code < 300:
        return
    if code < 400:
        target = answer.headers.get("location", "elsewhere")
        message = f"{_describe(request)}: redirected to {target}, which is no API server's way to answer"
        raise ApiError(Status(code=code, reason="Redirected", message=message))
    kind = answer.headers.get("content-type", "")
    status = status_of(code, answer.body, kind, answer.headers.get("retry-after"))
    check_kubernetes(request, status, server)
    raise ApiError.of(status)


def _untrusted(request: Request, server: str, reason: str) -> ApiError:
    message = f"{_describe(request)}: TLS to {server} failed: {reason}"
    return ApiError(Status(code=503, reason="Untrusted", message=message))


def _unavailable(request: Request, error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    return OutcomeUnknown.because(503, "ServiceUnavailable", f"{_describe(request)}: {error}")


def _describe(request: Request) -> str:
    name = "/".join(part for part in (request.namespace, request.name) if part)
    plural = f"{request.resource.plural}/{request.subresource}" if request.subresource else request.resource.plural
    return " ".join(part for part in (request.verb, plural, name) if part)
