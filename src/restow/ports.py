"""What Restow needs from outside: an API server, a wall clock, and Prometheus.

`Api` is narrow on purpose: one call, one stream, bytes in and bytes out. Everything typed (verbs, informers, leader
election) is written once on top of it in `restow.client`, and everything that misbehaves (lost events, stale reads,
crashes) is injected by wrapping these two methods in `restow.sim.faults`.

Errors are one tree, grouped by what the caller should do:

    ApiError                 the server answered with a Status
      NotFound               it is not there: treat as deleted
      AlreadyExists          an earlier try took effect, or another client created it: read and compare
      Conflict               the object moved on, or a precondition failed: read again, decide again
      Gone                   the version is too old to resume from: list again
      Invalid                the request is wrong: never retry it unchanged
      Forbidden              not allowed, by RBAC or by admission: never retry it unchanged
      Unauthorized           credentials are missing or stale: renew them
      TooManyRequests        back off for `retry_after` seconds; nothing was written
      OutcomeUnknown         time-out, 5xx or a broken connection: the write may have taken effect; read before retrying
      NotKubernetes          something else than an API server answered: another address is needed
      Fenced                 refused by `client.fenced_api` before it was sent: another process may lead, stop
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self

import msgspec

from restow.planning.usage_samples import PrometheusSample

Verb = Literal["get", "list", "watch", "create", "replace", "patch", "delete", "deletecollection"]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

INITIAL_EVENTS_END = "k8s.io/initial-events-end"  # annotates the bookmark after a watch's initial events


class Resource(msgspec.Struct, frozen=True, order=True):
    """The group ("" for core), version and plural of a kind, as in REST paths."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request to an API server, in the terms of its REST API.

    `namespace` is None for cluster-scoped resources and for lists over all namespaces. `query` holds the documented
    query parameters as strings (labelSelector, limit, continue, resourceVersion, dryRun, fieldManager, ...); a watch
    is the verb "watch" and needs no `watch=true`.
    """

    verb: Verb
    resource: Resource
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    query: Mapping[str, str] = {}
    content_type: str = JSON
    body: bytes = b""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A success: the JSON document the server sent, its HTTP code and any warnings it attached."""

    body: bytes
    code: int = 200
    warnings: tuple[str, ...] = ()


class StatusCause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cause of a failure; `field` is the path of the offending field."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The object of a Status, the causes, and when to retry."""

    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A `v1` Status, the form in which an API server reports failure."""

    code: int
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None
    status: str = "Failure"
    kind: str = "Status"
    api_version: str = "v1"
    metadata: dict[str, Any] = {}


class ApiError(Exception):
    """The API server refused the request or could not answer; `status` is its answer."""

    reasons: ClassVar[frozenset[str]] = frozenset()
    codes: ClassVar[frozenset[int]] = frozenset()

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or status.reason or f"HTTP {status.code}")
        self.status = status

    @classmethod
    def of(cls, status: Status) -> ApiError:
        """The error of the tree above that fits this Status: by reason first, then by code."""
        for kind in _ERROR_CLASSES:
            if status.reason in kind.reasons:
                return kind(status)
        for kind in _ERROR_CLASSES:
            if status.code in kind.codes:
                return kind(status)
        return OutcomeUnknown(status) if status.code >= 500 else ApiError(status)

    @classmethod
    def because(cls, code: int, reason: str, message: str, details: StatusDetails | None = None) -> Self:
        return cls(Status(code=code, reason=reason, message=message, details=details))


class NotFound(ApiError):
    reasons = frozenset({"NotFound"})
    codes = frozenset({404})


class AlreadyExists(ApiError):
    reasons = frozenset({"AlreadyExists"})


class Conflict(ApiError):
    reasons = frozenset({"Conflict"})
    codes = frozenset({409})


class Gone(ApiError):
    reasons = frozenset({"Expired", "Gone"})
    codes = frozenset({410})


class Invalid(ApiError):
    reasons = frozenset({"Invalid", "BadRequest", "RequestEntityTooLarge", "MethodNotAllowed", "UnsupportedMediaType"})
    codes = frozenset({400, 405, 406, 413, 415, 422})


class Forbidden(ApiError):
    reasons = frozenset({"Forbidden"})
    codes = frozenset({403})


class Unauthorized(ApiError):
    reasons = frozenset({"Unauthorized"})
    codes = frozenset({401})


class TooManyRequests(ApiError):
    reasons = frozenset({"TooManyRequests"})
    codes = frozenset({429})

    @property
    def retry_after(self) -> float | None:
        details = self.status.details
        return details.retry_after_seconds if details else None


class OutcomeUnknown(ApiError):
    reasons = frozenset({"Timeout", "ServerTimeout", "ServiceUnavailable", "InternalError"})
    codes = frozenset({500, 502, 503, 504})


class NotKubernetes(ApiError):
    """The server answers every path with 404, but not as an API server does."""


_ERROR_CLASSES: tuple[type[ApiError], ...] = (
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    Forbidden,
    Unauthorized,
    TooManyRequests,
    OutcomeUnknown,
)


class Api(Protocol):
    """An API server: the real one, the embedded one, or either behind injected faults."""

    async def call(self, request: Request) -> Response:
        """Carry out any verb but watch. Raises ApiError; a cancelled call may still take effect."""
        ...

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        """Stream watch events, each one JSON document `{"type": ..., "object": ...}` without a trailing newline.

        Errors before the first event are raised; later ones arrive as an event of type ERROR. The stream ends when
        the server ends it (timeoutSeconds) or when the iterator is closed.
        """
        ...


class PrometheusUnavailable(Exception):
    """Prometheus did not answer, or not with the expected form; the message says why."""


class Prometheus(Protocol):
    """A server that speaks Prometheus' HTTP API."""

    async def query(self, expression: str) -> Sequence[PrometheusSample]:
        """The current value of an expression, as a vector. Raises PrometheusUnavailable."""
        ...


class Clock(Protocol):
    """Wall time. For waiting, asyncio is used: the simulated world has an event loop with virtual time."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...
