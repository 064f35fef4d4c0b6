"""Requests as paths and headers, answers as Status, streams as lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.adapters.kubernetes.cluster_config import Impersonation
from restow.adapters.kubernetes.http_mapping import LineSplitter, impersonation_headers, path_of, status_of, warnings_of
from restow.ports import (
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Request,
    Resource,
    TooManyRequests,
    Unauthorized,
)

PODS = Resource("", "v1", "pods")
JOBS = Resource("scheduling.koordinator.sh", "v1alpha1", "podmigrationjobs")


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        pytest.param(Request(verb="list", resource=PODS), "/api/v1/pods", id="all of a core kind"),
        pytest.param(
            Request(verb="get", resource=PODS, namespace="shop", name="web"),
            "/api/v1/namespaces/shop/pods/web",
            id="one of a namespaced kind",
        ),
        pytest.param(
            Request(verb="patch", resource=JOBS, name="j", subresource="status"),
            "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs/j/status",
            id="a subresource in a group",
        ),
        pytest.param(
            Request(verb="watch", resource=PODS, query={"labelSelector": "a in (b,c)"}),
            "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&watch=true",
            id="a watch says so, and queries are quoted",
        ),
        pytest.param(
            Request(verb="get", resource=PODS, namespace="a/../b", name="x?y"),
            "/api/v1/namespaces/a%2F..%2Fb/pods/x%3Fy",
            id="names cannot leave their place",
        ),
    ],
)
def test_request_path_of_each_verb(request_: Request, path: str) -> None:
    assert path_of(request_) == path


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("field", ["name", "namespace", "subresource"])
def test_names_that_are_steps_are_refused(field: str, name: str) -> None:
    with pytest.raises(Invalid, match=f"delete pods not sent: a name may not be '{name}'"):
        path_of(replace(Request(verb="delete", resource=PODS), **{field: name}))


def test_impersonation_headers_are_set() -> None:
    impersonation = Impersonation(user="jane", uid="7", groups=("a", "b"), extra={"scopes/x": ("view",)})
    assert impersonation_headers(impersonation) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes%2Fx", "view"),
    ]


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        pytest.param(None, (), id="none"),
        pytest.param('299 - "v1beta1 is old"', ("v1beta1 is old",), id="one"),
        pytest.param('299 - "a, b", 299 - "c", 299 - "d"', ("a, b", "c", "d"), id="several in one header"),
        pytest.param(r'299 - "say \"hi\""', ('say "hi"',), id="quoted quotes"),
        pytest.param('199 x "not for us", nonsense', (), id="others are left out"),
    ],
)
def test_warning_headers_are_read(header: str | None, texts: tuple[str, ...]) -> None:
    assert warnings_of(header) == texts


NOT_FOUND = b'{"kind":"Status","code":404,"reason":"NotFound","message":"pods \\"x\\" not found"}'


@pytest.mark.parametrize(
    ("code", "body", "type_", "error", "message"),
    [
        pytest.param(404, NOT_FOUND, "application/json", NotFound, 'pods "x" not found', id="a Status"),
        pytest.param(404, b"404 page not found\n", "text/plain", NotFound, "404 page not found", id="plain text"),
        pytest.param(403, b"", "text/plain", Forbidden, "HTTP 403 without a body", id="nothing at all"),
        pytest.param(
            502,
            b"<html><b>Bad  Gateway",
            "text/html",
            OutcomeUnknown,
            "text/html instead of JSON: Bad Gateway",
            id="a proxy's page",
        ),
        pytest.param(401, b'{"error":"x"}', "application/json", Unauthorized, '{"error":"x"}', id="other JSON"),
        pytest.param(418, b"\xff\xfe", "text/plain", ApiError, "\ufffd\ufffd", id="no text either"),
    ],
)
def test_http_failure_becomes_its_api_error(
    code: int, body: bytes, type_: str, error: type[ApiError], message: str
) -> None:
    failure = ApiError.of(status_of(code, body, type_, None))
    assert (type(failure), str(failure)) == (error, message)


@pytest.mark.parametrize(
    ("body", "header", "seconds"),
    [
        pytest.param(b"slow down", "3", 3, id="from the header"),
        pytest.param(b'{"code":429,"details":{"retryAfterSeconds":10}}', "3", 10, id="the Status knows better"),
        pytest.param(b"slow down", "Wed, 21 Oct 2026 07:28:00 GMT", None, id="dates are not used by API servers"),
    ],
)
def test_retry_after_is_read_from_body_or_header(body: bytes, header: str, seconds: int | None) -> None:
    failure = ApiError.of(status_of(429, body, "application/json", header))
    assert isinstance(failure, TooManyRequests)
    assert failure.retry_after == seconds


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1).filter(lambda b: b.strip() and b"\n" not in b)), st.binary(max_size=5), st.data())
def test_lines_do_not_depend_on_how_the_stream_is_cut(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    rest = rest.replace(b"\n", b"")
    stream = b"".join(line + b"\n" for line in lines) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    reader = LineSplitter()
    seen = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        seen += reader.feed(stream[start:end])
    assert (seen, reader.rest()) == (lines, rest.strip())


@pytest.mark.parametrize("header", ["9" * 5000, "²", "-1", "soon", ""])
def test_a_strange_retry_after_is_left_out(header: str) -> None:
    error = ApiError.of(status_of(429, b"", "application/json", header))
    assert isinstance(error, TooManyRequests)
    assert error.retry_after is None


@pytest.mark.parametrize("code", [0, 200])
def test_failure_with_a_contradicting_status_body_is_a_failure(code: int) -> None:
    body = b'{"kind":"Status","code":%d,"status":"Success"}' % code
    assert isinstance(ApiError.of(status_of(500, body, "application/json", None)), OutcomeUnknown)
