"""The HTTP side alone: what becomes of paths, headers, bodies, errors and streams. The API server is scripted."""

from __future__ import annotations

import gzip
import json
from typing import Any

import aiohttp
import msgspec
import pytest

from restow.adapters.memory.request_bodies import BODY_LIMIT
from restow.adapters.rest.protobuf import MEDIA_TYPE
from restow.ports import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiError,
    Conflict,
    Gone,
    NotFound,
    Request,
    Resource,
    Response,
    StatusDetails,
    TooManyRequests,
)
from tests.rest.protobuf_writer import body
from tests.rest.scripted import POD, TABLE, ScriptedApi

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
NAMESPACES = Resource("", "v1", "namespaces")
DEPLOYMENTS = Resource("apps", "v1", "deployments")

ROUTES: dict[str, tuple[str, str, Request]] = {
    "list over all namespaces": ("GET", "/api/v1/pods", Request(verb="list", resource=PODS)),
    "list in a namespace": ("GET", "/api/v1/namespaces/d/pods", Request(verb="list", resource=PODS, namespace="d")),
    "query passes": (
        "GET",
        "/api/v1/pods?limit=5&labelSelector=a%3Db%2Cc",
        Request(verb="list", resource=PODS, query={"limit": "5", "labelSelector": "a=b,c"}),
    ),
    "watch=false is a list": (
        "GET",
        "/api/v1/pods?watch=false",
        Request(verb="list", resource=PODS),
    ),
    "get": ("GET", "/api/v1/namespaces/d/pods/p", Request(verb="get", resource=PODS, namespace="d", name="p")),
    "get with an escaped name": (
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        Request(verb="get", resource=Resource("rbac.authorization.k8s.io", "v1", "clusterroles"), name="system:node"),
    ),
    "cluster-scoped": ("GET", "/api/v1/nodes/n", Request(verb="get", resource=NODES, name="n")),
    "a namespace": ("GET", "/api/v1/namespaces/d", Request(verb="get", resource=NAMESPACES, name="d")),
    "status of a namespace": (
        "PUT",
        "/api/v1/namespaces/d/status",
        Request(verb="replace", resource=NAMESPACES, name="d", subresource="status"),
    ),
    "finalize a namespace": (
        "PUT",
        "/api/v1/namespaces/d/finalize",
        Request(verb="replace", resource=NAMESPACES, name="d", subresource="finalize"),
    ),
    "a resource called status in another group": (
        "GET",
        "/apis/x.io/v1/namespaces/d/status",
        Request(verb="list", resource=Resource("x.io", "v1", "status"), namespace="d"),
    ),
    "create": (
        "POST",
        "/apis/apps/v1/namespaces/d/deployments",
        Request(verb="create", resource=DEPLOYMENTS, namespace="d"),
    ),
    "replace": (
        "PUT",
        "/apis/apps/v1/namespaces/d/deployments/x",
        Request(verb="replace", resource=DEPLOYMENTS, namespace="d", name="x"),
    ),
    "delete": (
        "DELETE",
        "/apis/apps/v1/namespaces/d/deployments/x",
        Request(verb="delete", resource=DEPLOYMENTS, namespace="d", name="x"),
    ),
    "delete a collection": (
        "DELETE",
        "/apis/apps/v1/namespaces/d/deployments",
        Request(verb="deletecollection", resource=DEPLOYMENTS, namespace="d"),
    ),
    "evict": (
        "POST",
        "/api/v1/namespaces/d/pods/p/eviction",
        Request(verb="create", resource=PODS, namespace="d", name="p", subresource="eviction"),
    ),
    "scale": (
        "GET",
        "/apis/apps/v1/namespaces/d/deployments/x/scale",
        Request(verb="get", resource=DEPLOYMENTS, namespace="d", name="x", subresource="scale"),
    ),
    "metrics": (
        "GET",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        Request(verb="list", resource=Resource("metrics.k8s.io", "v1beta1", "nodes")),
    ),
}


@pytest.mark.parametrize(("method", "path", "wanted"), ROUTES.values(), ids=ROUTES)
async def test_http_path_becomes_a_request(
    http: aiohttp.ClientSession, scripted: ScriptedApi, method: str, path: str, wanted: Request
) -> None:
    async with http.request(method, path, skip_auto_headers=["Content-Type"]) as answer:
        assert answer.status == 200
    assert scripted.requests == [wanted]


@pytest.mark.parametrize("media_type", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH])
async def test_a_patch_keeps_its_type_and_body(
    http: aiohttp.ClientSession, scripted: ScriptedApi, media_type: str
) -> None:
    headers = {"Content-Type": f"{media_type}; charset=utf-8"}
    await http.patch("/api/v1/nodes/n", data=b"[]", headers=headers)
    (asked,) = scripted.requests
    assert (asked.verb, asked.content_type, asked.body) == ("patch", media_type, b"[]")


async def test_the_old_openapi_knows_no_kind(http: aiohttp.ClientSession) -> None:
    answer = await http.get("/openapi/v2")
    assert (answer.status, await answer.read()) == (200, b"")
    assert answer.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


MISSING = {
    "nothing": ("GET", "/"),
    "another server's path": ("GET", "/favicon.ico"),
    "an unknown group": ("GET", "/apis/missing.example"),
    "an unknown version": ("GET", "/apis/apps/v9"),
    "an unknown core version": ("GET", "/api/v2"),
    "OpenAPI of an unknown group": ("GET", "/openapi/v3/apis/missing.example/v1"),
    "too many segments": ("GET", "/api/v1/namespaces/d/pods/p/log/x"),
    "an empty segment": ("GET", "/api/v1/namespaces//pods"),
    "writing to nothing": ("POST", "/nothing"),
}


@pytest.mark.parametrize(("method", "path"), MISSING.values(), ids=MISSING)
async def test_unknown_paths_are_not_found(http: aiohttp.ClientSession, method: str, path: str) -> None:
    async with http.request(method, path) as answer:
        status = await answer.json()
    assert (answer.status, status["kind"], status["code"], status["reason"]) == (404, "Status", 404, "NotFound")


async def test_head_request_is_not_found(http: aiohttp.ClientSession) -> None:
    async with http.head("/api/v1/pods") as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/version"),
        ("PUT", "/api/v1/pods"),
        ("PATCH", "/api/v1/pods"),
        ("POST", "/api/v1/nodes/n"),
        ("DELETE", "/apis"),
        ("OPTIONS", "/api/v1/pods"),
    ],
)
async def test_methods_a_path_does_not_have_are_refused(http: aiohttp.ClientSession, method: str, path: str) -> None:
    async with http.request(method, path) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez?verbose"])
async def test_health_endpoints_answer_ok(http: aiohttp.ClientSession, path: str) -> None:
    async with http.get(path) as answer:
        assert (answer.status, await answer.text()) == (200, "ok")


async def test_version_is_served(http: aiohttp.ClientSession) -> None:
    async with http.get("/version") as answer:
        assert (await answer.json())["gitVersion"].startswith("v1.36")


# --- bodies --------------------------------------------------------------------------------------------------------


async def test_body_of_the_size_limit_passes_and_one_byte_more_is_refused(
    http: aiohttp.ClientSession, scripted: ScriptedApi
) -> None:
    headers = {"Content-Type": "application/json"}
    async with http.post("/api/v1/nodes", data=b"x" * BODY_LIMIT, headers=headers) as answer:
        assert answer.status == 200
    async with http.post("/api/v1/nodes", data=b"x" * (BODY_LIMIT + 1), headers=headers) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")
    assert [len(asked.body) for asked in scripted.requests] == [BODY_LIMIT]


async def test_a_body_without_length_is_limited_too(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    async def endless() -> Any:
        for _ in range(5):
            yield b"x" * 1024 * 1024

    async with http.post("/api/v1/nodes", data=endless()) as answer:
        assert answer.status == 413
    assert scripted.requests == []


async def test_a_compressed_body_is_limited_by_its_real_size(
    http: aiohttp.ClientSession, scripted: ScriptedApi
) -> None:
    small, bomb = gzip.compress(b"{}"), gzip.compress(b"x" * (BODY_LIMIT + 1))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with http.post("/api/v1/nodes", data=small, headers=headers) as answer:
        assert answer.status == 200
    async with http.post("/api/v1/nodes", data=bomb, headers=headers) as answer:
        assert answer.status == 413
    assert [asked.body for asked in scripted.requests] == [b"{}"]


async def test_body_with_a_wrong_encoding_is_a_bad_request(http: aiohttp.ClientSession) -> None:
    async with http.post("/api/v1/nodes", data=b"not gzip", headers={"Content-Encoding": "gzip"}) as answer:
        assert answer.status == 400


async def test_yaml_body_becomes_json(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    await http.post("/api/v1/nodes", data=b"metadata: {name: n}\n", headers={"Content-Type": "application/yaml"})
    assert json.loads(scripted.requests[0].body) == {"metadata": {"name": "n"}}


@pytest.mark.parametrize(
    ("method", "media_type"),
    [("POST", "text/plain"), ("POST", JSON_PATCH), ("PATCH", "application/json"), ("DELETE", "text/plain")],
)
async def test_other_media_types_are_refused(
    http: aiohttp.ClientSession, scripted: ScriptedApi, method: str, media_type: str
) -> None:
    path = "/api/v1/nodes" if method == "POST" else "/api/v1/nodes/n"
    async with http.request(method, path, data=b"{}", headers={"Content-Type": media_type}) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (415, "UnsupportedMediaType")
    assert scripted.requests == []


async def test_protobuf_body_becomes_json(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    await http.post("/api/v1/namespaces", data=body(document), headers={"Content-Type": MEDIA_TYPE})
    (asked,) = scripted.requests
    assert (asked.content_type, json.loads(asked.body)) == ("application/json", document)


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"k8s\x00\x0a\x12\x0a\x08x.io/v1a\x12\x06Widget", 415, "UnsupportedMediaType"),
        (b"k8s\x00\xff", 400, "BadRequest"),
        (b"{}", 400, "BadRequest"),
    ],
    ids=["a kind without tables", "cut off", "JSON"],
)
async def test_protobuf_that_cannot_be_read(http: aiohttp.ClientSession, data: bytes, code: int, reason: str) -> None:
    async with http.post("/api/v1/namespaces", data=data, headers={"Content-Type": MEDIA_TYPE}) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (code, reason)


# --- answers -------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[ApiError, int]] = [
    (NotFound.because(404, "NotFound", 'pods "x" not found', StatusDetails(name="x", kind="pods")), 404),
    (Conflict.because(409, "Conflict", "moved on"), 409),
    (Gone.because(410, "Expired", "too old"), 410),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
async def test_errors_are_a_status_with_its_code(
    http: aiohttp.ClientSession, scripted: ScriptedApi, error: ApiError, code: int
) -> None:
    scripted.answer = error
    async with http.get("/api/v1/pods", headers={"Accept": TABLE}) as answer:
        assert (answer.status, await answer.json()) == (code, _told(error))


async def test_too_many_requests_has_a_retry_after_header(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.answer = TooManyRequests.because(429, "TooManyRequests", "later", StatusDetails(retry_after_seconds=7))
    async with http.get("/api/v1/pods") as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")


async def test_internal_error_is_a_status(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.answer = RuntimeError("secret")
    async with http.get("/api/v1/pods") as answer:
        text = await answer.text()
    assert (answer.status, json.loads(text)["reason"], "secret" in text) == (500, "InternalError", False)


async def test_response_code_and_warnings_are_passed_on(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.says({}, code=201, warnings=('unknown field "a"', "two\nlines"))
    async with http.post("/api/v1/pods") as answer:
        warnings = answer.headers.getall("Warning")
    assert answer.status == 201
    assert warnings == ['299 - "unknown field \\"a\\""', '299 - "two lines"']


@pytest.mark.parametrize(
    ("size", "encoding", "compressed"),
    [(200_000, "gzip", True), (200_000, "identity", False), (1000, "gzip", False)],
    ids=["large and asked for", "not asked for", "small"],
)
async def test_large_answers_are_compressed(
    http: aiohttp.ClientSession, scripted: ScriptedApi, size: int, encoding: str, compressed: bool
) -> None:
    scripted.answer = Response(body=b'"' + b"x" * size + b'"')
    async with http.get("/api/v1/pods", headers={"Accept-Encoding": encoding}) as answer:
        assert (len(await answer.read()), "Content-Encoding" in answer.headers) == (size + 2, compressed)


POD_LIST = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [POD]}


@pytest.mark.parametrize("document", [POD, POD_LIST], ids=["one", "list"])
async def test_table_is_served_when_accepted(
    http: aiohttp.ClientSession, scripted: ScriptedApi, document: dict[str, Any]
) -> None:
    scripted.says(document)
    async with http.get("/api/v1/pods", headers={"Accept": TABLE}) as answer:
        table = await answer.json()
    assert (table["kind"], table["apiVersion"], table["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": document["metadata"]["resourceVersion"]},
    )
    assert table["rows"][0]["cells"][:3] == ["p", "0/0", "Pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_whole_objects_in_rows_say_their_kind(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.says({"kind": "PodList", "items": [{"metadata": {"name": "p"}}]})
    async with http.get("/api/v1/pods?includeObject=Object", headers={"Accept": TABLE}) as answer:
        (row,) = (await answer.json())["rows"]
    assert row["object"] == {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}


async def test_scale_is_printed_as_its_own_kind(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.says({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "x"}, "spec": {"replicas": 3}})
    async with http.get("/apis/apps/v1/namespaces/d/deployments/x/scale", headers={"Accept": TABLE}) as answer:
        assert (await answer.json())["rows"][0]["cells"][:2] == ["x", 3]


async def test_status_is_not_rendered_as_a_table(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.says({"kind": "Status", "status": "Success"})
    async with http.delete("/api/v1/nodes/n", headers={"Accept": TABLE}) as answer:
        assert (await answer.json())["kind"] == "Status"


async def test_partial_object_metadata_is_served(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.says(POD_LIST)
    accept = (
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    )
    async with http.get("/api/v1/pods", headers={"Accept": accept}) as answer:
        body = await answer.json()
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": POD["metadata"]}
    assert body == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9"},
        "items": [item],
    }


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("application/json", 200),
        ("*/*", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/vnd.kubernetes.protobuf", 406),
        ("text/html", 406),
        ("application/json;as=Chart;g=meta.k8s.io;v=v1", 406),
        ("application/json;q=0", 406),
        ("application/json;q=high", 200),
    ],
)
async def test_accept_header_decides_the_form_of_the_response(
    http: aiohttp.ClientSession, accept: str, code: int
) -> None:
    async with http.get("/api/v1/pods", headers={"Accept": accept}) as answer:
        assert answer.status == code


async def test_a_wrong_include_object_is_a_bad_request(http: aiohttp.ClientSession) -> None:
    async with http.get("/api/v1/pods?includeObject=Half", headers={"Accept": TABLE}) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")


# --- what only a kubelet can answer --------------------------------------------------------------------------------


async def test_pod_log_says_that_no_containers_run(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.says({"metadata": {"namespace": "d", "name": "p"}, "spec": {"containers": [{"name": "a"}]}})
    async with http.get("/api/v1/namespaces/d/pods/p/log?container=a") as answer:
        assert answer.content_type == "text/plain"
        assert await answer.text() == "pod d/p has no logs: the embedded kubelet runs no containers\n"
    async with http.get("/api/v1/namespaces/d/pods/p/log?container=b") as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "container b is not valid for pod p")


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "proxy"])
async def test_exec_and_attach_are_refused_with_the_reason(http: aiohttp.ClientSession, subresource: str) -> None:
    async with http.post(f"/api/v1/namespaces/d/pods/p/{subresource}") as answer:
        assert (answer.status, "runs no containers" in (await answer.json())["message"]) == (400, True)


def _told(error: ApiError) -> dict[str, Any]:
    status = json.loads(msgspec.json.encode(error.status))
    return {key: value for key, value in status.items() if value is not None}
