"""One dispatcher for every request: health and version, discovery, OpenAPI, and Kubernetes paths.

In: an HTTP request. Out: the HTTP answer. A Kubernetes path becomes one `ports.Request`; what the API server says comes
back in the form the client negotiated. Failures are always a Status document with its code.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from restow.adapters.loopback import is_loopback
from restow.adapters.memory import errors
from restow.adapters.memory.resources import ResourceType
from restow.adapters.rest import discovery, kubelet
from restow.adapters.rest.negotiation import (
    DISCOVERY_FORMS,
    OBJECT_FORMS,
    NotAcceptable,
    negotiate_form,
    not_acceptable,
)
from restow.adapters.rest.openapi import Documents
from restow.adapters.rest.renderer import Renderer, include_of
from restow.adapters.rest.request_body import read_body
from restow.adapters.rest.routing import Target, method_not_allowed, no_such_path, target_of, verb_of
from restow.adapters.rest.watch_streams import WatchStreams
from restow.model.objects import Document
from restow.ports import JSON, Api, ApiError, Clock, Forbidden, OutcomeUnknown, Request, Response, TooManyRequests

log = logging.getLogger(__name__)

# kubectl chooses its behaviour by this, so it names the release whose behaviour is served.
VERSION: Document = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+restow",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "embedded",
}
HEALTH = ("healthz", "livez", "readyz")
# For a kind that version 3 does not know, kubectl asks version 2 before it says so: an empty document, in protobuf.
OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
NO_OPENAPI_V2 = b""
GZIP_FROM = 128 * 1024


class EmbeddedApi(Api, Protocol):
    """What is asked of the embedded API server beyond the port: `MemoryApi`, possibly wrapped."""

    @property
    def clock(self) -> Clock: ...

    def resources(self) -> Iterable[ResourceType]: ...


class RequestHandler:
    """Answers requests from one API server."""

    def __init__(self, api: EmbeddedApi, *, loopback_only: bool) -> None:
        self._api = api
        self._loopback_only = loopback_only
        self._documents = Documents()
        self.streams = WatchStreams()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check_caller(request)
            return await self._dispatch(request)
        except ApiError as error:
            return await _failure_response(request, error)
        except NotAcceptable:
            return await _failure_response(request, not_acceptable())
        except RecursionError:  # documents are read before anything is written, so nothing has changed
            return await _failure_response(request, errors.bad_request("the body is nested too deeply"))
        except Exception:
            log.exception("request failed", extra={"method": request.method, "path": request.path})
            message = "an internal error occurred, see the log of the embedded API server"
            return await _failure_response(request, OutcomeUnknown.because(500, "InternalError", message))

    def _check_caller(self, request: web.BaseRequest) -> None:
        """Refuse what a web page could have sent: a foreign Host (DNS rebinding) or a foreign Origin."""
        if not self._loopback_only:
            return
        origin = request.headers.get("Origin")
        claimed = {
            "Host": request.headers.get("Host", "localhost"),
            "Origin": "localhost" if origin is None else _origin_host(origin),
        }
        for header, host in claimed.items():
            if not is_loopback(host):
                message = (
                    f"{header} {host!r} is not this machine; the embedded API server answers to loopback names only"
                )
                raise Forbidden.because(403, "Forbidden", message)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if request.method == "HEAD":
            raise no_such_path()
        target = target_of(path)
        if target is not None:
            return await self._resource(request, target)
        answer = self._about(request, path.strip("/").split("/"))
        if request.method != "GET":
            raise method_not_allowed()
        return await answer()

    # --- everything that is not a resource -------------------------------------------------------------------------

    def _about(self, request: web.BaseRequest, parts: list[str]) -> Callable[[], Awaitable[web.Response]]:
        match parts:
            case ["version"]:
                return lambda: _json_response(request, VERSION)
            case [name, *_] if name in HEALTH:
                return lambda: _text_response(request, "ok")
            case ["api"]:
                return lambda: self._discovery(request, core=True)
            case ["apis"]:
                return lambda: self._discovery(request, core=False)
            case ["api", version]:
                return lambda: _json_or_not_found(request, discovery.resource_list(self._api.resources(), "", version))
            case ["apis", group]:
                return lambda: _json_or_not_found(request, discovery.group_document(self._api.resources(), group))
            case ["apis", group, version]:
                return lambda: _json_or_not_found(
                    request, discovery.resource_list(self._api.resources(), group, version)
                )
            case ["openapi", "v2"]:
                return lambda: _response(request, NO_OPENAPI_V2, media_type=OPENAPI_V2)
            case ["openapi", "v3"]:
                return lambda: _json_response(request, self._documents.index(self._api.resources()))
            case ["openapi", "v3", *rest]:
                return lambda: self._openapi(request, "/".join(rest))
        raise no_such_path()

    async def _discovery(self, request: web.BaseRequest, *, core: bool) -> web.Response:
        form = negotiate_form(_accept(request), DISCOVERY_FORMS)
        if form is not None:
            document = discovery.aggregated_discovery(self._api.resources(), core=core, version=form.version)
            media_type = f"{JSON};g={form.group};v={form.version};as={form.shape}"
            return await _json_response(request, document, media_type=media_type)
        if core:
            return await _json_response(request, discovery.core_versions(request.host))
        return await _json_response(request, discovery.group_list(self._api.resources()))

    async def _openapi(self, request: web.BaseRequest, path: str) -> web.Response:
        encoded = self._documents.document(self._api.resources(), path)
        if encoded is None:
            raise no_such_path()
        data, digest = encoded
        headers = {"ETag": f'"{digest}"'}
        if request.query.get("hash") == digest:  # the address names the content, so it never changes
            headers["Cache-Control"] = "public, immutable"
        return await _response(request, data, headers=headers)

    # --- resources -------------------------------------------------------------------------------------------------

    async def _resource(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        query = dict(request.query)
        if kubelet.needs_container(target):
            raise kubelet.unavailable_error(target)
        verb = verb_of(request.method, target, query)
        query.pop("watch", None)
        if kubelet.is_log(target) and verb == "get":
            return await self._log(request, target)
        data, media_type = await read_body(request)
        asked = Request(
            verb=verb,
            resource=target.resource,
            namespace=target.namespace,
            name=target.name,
            subresource=target.subresource,
            query=query,
            content_type=media_type,
            body=data,
        )
        renderer = self._renderer(request, target)
        if verb == "watch":
            return await self._watch(request, asked, renderer)
        response = await self._api.call(asked)
        body = renderer.answer(response.body, self._api.clock.now()) if renderer else response.body
        return await _response(request, body, code=response.code, warnings=_warnings(response))

    def _renderer(self, request: web.BaseRequest, target: Target) -> Renderer | None:
        form = negotiate_form(_accept(request), OBJECT_FORMS)
        if form is None:
            return None
        include = include_of(request.query)
        for served in self._api.resources():
            if served.resource == target.resource:
                return Renderer(form, served, include)
        raise no_such_path()

    async def _watch(self, request: web.BaseRequest, asked: Request, renderer: Renderer | None) -> web.StreamResponse:
        events = self._api.watch(asked)
        if renderer is None:
            return await self.streams.serve(request, events, None)
        return await self.streams.serve(request, events, lambda event: renderer.event(event, self._api.clock.now()))

    async def _log(self, request: web.BaseRequest, target: Target) -> web.Response:
        pod = Request(verb="get", resource=target.resource, namespace=target.namespace, name=target.name)
        response = await self._api.call(pod)
        return await _text_response(request, kubelet.log_text(response.body, request.query.get("container", "")))


# --- HTTP answers ----------------------------------------------------------------------------------------------------


def _origin_host(origin: str) -> str:
    """The host and port of an Origin; empty if it cannot be parsed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _accept(request: web.BaseRequest) -> str:
    return ",".join(request.headers.getall("Accept", ()))


def _warnings(response: Response) -> Iterator[str]:
    """Each warning as the value of a header of its own; kubectl prints them."""
    for warning in response.warnings:
        printable = "".join(char if char.isprintable() else " " for char in warning)
        quoted = printable.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{quoted}"'


async def _json_response(request: web.BaseRequest, document: Document, *, media_type: str = JSON) -> web.Response:
    return await _response(request, msgspec.json.encode(document), media_type=media_type)


async def _json_or_not_found(request: web.BaseRequest, document: Document | None) -> web.Response:
    if document is None:
        raise no_such_path()
    return await _json_response(request, document)


async def _text_response(request: web.BaseRequest, text: str) -> web.Response:
    return await _response(request, text.encode(), media_type="text/plain; charset=utf-8")


async def _failure_response(request: web.BaseRequest, error: ApiError) -> web.Response:
    headers = {}
    if isinstance(error, TooManyRequests) and error.retry_after:
        headers["Retry-After"] = str(int(error.retry_after))
    status: Document = msgspec.to_builtins(error.status)
    if error.status.details is None:
        del status["details"]
    return await _response(request, msgspec.json.encode(status), code=error.status.code, headers=headers)


async def _response(
    request: web.BaseRequest,
    body: bytes,
    *,
    code: int = 200,
    media_type: str = JSON,
    headers: Mapping[str, str] = {},
    warnings: Iterable[str] = (),
) -> web.Response:
    headers = {"Cache-Control": "no-cache, private", **headers, "Content-Type": media_type}
    if len(body) >= GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        # In a thread: a list of megabytes would hold up every watch for as long.
        body = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    response = web.Response(body=body, status=code, headers=headers)
    for warning in warnings:
        response.headers.add("Warning", warning)
    return response
