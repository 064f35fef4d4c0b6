"""Requests of the Api port as HTTP, and HTTP responses as the port's errors. No I/O here."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, urlencode

import msgspec

from restow.adapters.kubernetes.cluster_config import Impersonation
from restow.client.responses import read_status
from restow.ports import Invalid, NotKubernetes, Request, Resource, Status, StatusDetails

METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "replace": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_STEPS = (".", "..")  # which no quoting keeps from being taken as a step
_is_plain = re.compile(r"[A-Za-z0-9_.-]*").fullmatch  # as nearly all names are, which need no quoting
_HEADER_TOKEN = "!#$&'*+-.^_`|~"
_LONGEST_MESSAGE = 500


def path_of(request: Request) -> str:
    """The path and query of a request, relative to the server's URL. Raises Invalid for names that lead elsewhere."""
    for part in (request.namespace, request.name, request.subresource):
        if part in _STEPS:
            plural = request.resource.plural
            raise Invalid.because(400, "BadRequest", f"{request.verb} {plural} not sent: a name may not be {part!r}")
    path = _folder(request.resource, request.namespace)
    for part in (request.name, request.subresource):
        if part is not None:
            path = f"{path}/{part if _is_plain(part) else quote(part, safe='')}"
    query = tuple(request.query.items())
    if request.verb == "watch":
        query = (*query, ("watch", "true"))
    return f"{path}?{_query(query)}" if query else path


@lru_cache(maxsize=1024)
def _folder(resource: Resource, namespace: str | None) -> str:
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if namespace is not None:
        parts += ["namespaces", namespace]
    return "/" + "/".join(quote(part, safe="") for part in (*parts, resource.plural))


@lru_cache(maxsize=1024)
def _query(parameters: tuple[tuple[str, str], ...]) -> str:
    return urlencode(parameters)


def impersonation_headers(impersonation: Impersonation | None) -> list[tuple[str, str]]:
    if impersonation is None:
        return []
    headers = [("Impersonate-User", impersonation.user)]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", impersonation.uid))
    headers += [("Impersonate-Group", group) for group in impersonation.groups]
    for key, values in impersonation.extra.items():
        name = f"Impersonate-Extra-{quote(key, safe=_HEADER_TOKEN)}"
        headers += [(name, value) for value in values]
    return headers


def warnings_of(header: str | None) -> tuple[str, ...]:
    """The texts in a Warning header."""
    if header is None:
        return ()
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header))


def status_of(code: int, body: bytes, content_type: str, retry_after: str | None) -> Status:
    """The Status of a failure, whatever its body looks like, with Retry-After filled in from its header."""
    if "html" in content_type:
        text = re.sub(r"<[^>]*>", " ", body.decode("utf-8", "replace"))
        body = f"{content_type.partition(';')[0]} instead of JSON: {' '.join(text.split())[:_LONGEST_MESSAGE]}".encode()
    status = read_status(body, code)
    if status.code < 400:  # a failure all the same: what was answered counts
        status = msgspec.structs.replace(status, code=code)
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit() or len(retry_after) > 9:
        return status
    details = status.details or StatusDetails()
    if details.retry_after_seconds is not None:
        return status
    return msgspec.structs.replace(
        status, details=msgspec.structs.replace(details, retry_after_seconds=int(retry_after))
    )


def check_kubernetes(request: Request, status: Status, server: str) -> None:
    """A 404 is no API server's if it does not say so in a Status where every one of them has something: for the core
    kinds. (Of a group that it does not know, an API server says it in plain text.) Raises NotKubernetes."""
    if status.code == 404 and not status.reason and not request.resource.group:
        path = path_of(request).partition("?")[0]
        advice = "check the server of the kubeconfig"
        message = f"{server} is not a Kubernetes API server: {path} is not there (404); {advice}"
        raise NotKubernetes(msgspec.structs.replace(status, message=message))


def is_budget_refusal(status: Status) -> bool:
    """An eviction that a disruption budget refuses: a 429 that says no, not that the server is busy."""
    causes = status.details.causes if status.details else None
    return any(cause.reason == "DisruptionBudget" for cause in causes or ())


class LineSplitter:
    """Cuts a stream of chunks into lines of any length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends; empty ones are left out."""
        *complete, rest = chunk.split(b"\n")
        if complete:
            complete[0] = b"".join((*self._parts, complete[0]))
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        return [line for line in complete if line.strip()]

    def rest(self) -> bytes:
        """What came after the last line end."""
        return b"".join(self._parts).strip()
