"""Requests that are wrong: one clear message, the paths of the wrong fields, and nothing changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.ports import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ApiError, Invalid, NotFound, Request, Resource
from tests.conformance.documents import config_map, deployment, pod
from tests.conformance.server import Server


def code_and_reason(error: ApiError) -> tuple[int, str]:
    return error.status.code, error.status.reason


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"metadata": {"name": "a"}} trailing', b"[]", b'"text"', b"\xff\xfe"],
    ids=["cut off", "trailing words", "a list", "a string", "not UTF-8"],
)
async def test_broken_json_is_a_bad_request(server: Server, body: bytes) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("configmaps", body)
    assert code_and_reason(refused.value) == (400, "BadRequest")
    assert refused.value.status.message


async def test_missing_body_is_a_bad_request(server: Server) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("configmaps", b"")
    assert refused.value.status.code in (400, 422)
    assert refused.value.status.message


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, "Pod"),
        ({"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "apps/v1"),
        ({"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "a"}}, "Nonsense"),
    ],
    ids=["another kind", "another group", "no such kind"],
)
async def test_a_wrong_kind_is_a_bad_request(server: Server, document: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        await server.create("configmaps", document)
    assert code_and_reason(refused.value) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"metadata": {"name": "a"}, "data": {"n": 1}}, "data"),
        ({"metadata": {"name": "a", "labels": ["x"]}}, "metadata.labels"),
        ({"metadata": "a"}, "metadata"),
    ],
    ids=["a number for a string", "a list for a map", "a string for an object"],
)
async def test_a_wrong_type_is_a_bad_request_that_names_the_field(server: Server, document: Any, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("configmaps", document)
    assert refused.value.status.code == 400
    assert path in refused.value.status.message


async def test_huge_request_body_is_too_large(server: Server) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("configmaps", config_map("a", {"a": "x" * (3 * 1024 * 1024 + 1)}))
    assert code_and_reason(refused.value) == (413, "RequestEntityTooLarge")
    with pytest.raises(NotFound):
        await server.get("configmaps", "a")


@pytest.mark.parametrize(
    "resource",
    [Resource("", "v1", "nonsenses"), Resource("apps", "v9", "deployments"), Resource("no.such.group", "v1", "things")],
    ids=["plural", "version", "group"],
)
async def test_an_unknown_resource_is_not_found(server: Server, resource: Resource) -> None:
    request = Request(verb="list", resource=resource, namespace=server.namespace)
    with pytest.raises(NotFound) as refused:
        await server.api.call(request)
    assert refused.value.status.code == 404


async def test_an_unknown_subresource_is_not_found(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(NotFound):
        await server.get("configmaps", "a", sub="status")


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", JSON])
async def test_a_patch_of_unknown_type_is_unsupported(server: Server, content_type: str) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Invalid) as refused:
        await server.patch("configmaps", "a", content_type, {})
    assert code_and_reason(refused.value) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("content_type", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH])
async def test_a_broken_patch_is_a_bad_request(server: Server, content_type: str) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Invalid) as refused:
        await server.patch("configmaps", "a", content_type, b"{")
    assert refused.value.status.code == 400


async def test_a_collection_cannot_be_replaced(server: Server) -> None:
    with pytest.raises(Invalid) as refused:
        await server.call("replace", "configmaps", None, config_map("a"))
    assert code_and_reason(refused.value) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "name", ["Upper", "a_b", "-a", "a" * 254], ids=["upper case", "underscore", "leading dash", "too long"]
)
async def test_object_with_a_bad_name_is_invalid(server: Server, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("configmaps", config_map(name))
    status = refused.value.status
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.message.startswith(f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": ')
    assert status.details is not None
    (cause,) = status.details.causes or []
    assert (cause.field, cause.reason) == ("metadata.name", "FieldValueInvalid")


async def test_object_without_a_name_is_invalid(server: Server) -> None:
    with pytest.raises(Invalid, match="name or generateName is required") as refused:
        await server.create("configmaps", {"data": {}})
    assert refused.value.status.code == 422


async def test_all_validation_causes_are_reported_at_once(server: Server) -> None:
    document = pod("a", labels={"bad key!": "x"}, spec={"containers": [{"name": "Main"}], "restartPolicy": "Perhaps"})
    with pytest.raises(Invalid) as refused:
        await server.create("pods", document)
    details = refused.value.status.details
    assert details is not None
    assert (details.name, details.kind) == ("a", "Pod")
    fields = {cause.field for cause in details.causes or []}
    assert fields >= {"metadata.labels", "spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"}


async def test_an_invalid_message_reads_as_a_sentence(server: Server) -> None:
    document = deployment("web", spec={"replicas": -1})
    with pytest.raises(Invalid) as refused:
        await server.create("deployments", document)
    assert refused.value.status.message == (
        'Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


async def test_an_unknown_field_is_dropped_unless_strict(server: Server) -> None:
    document = {**config_map("a"), "nonsense": 1}
    created = await server.create("configmaps", document, fieldValidation="Ignore")
    assert "nonsense" not in created


async def test_an_unknown_field_warns_by_default(server: Server) -> None:
    body = msgspec.json.encode({**config_map("a"), "nonsense": 1})
    response = await server.api.call(server.request("create", "configmaps", body=body))
    assert any('unknown field "nonsense"' in warning for warning in response.warnings)


async def test_every_unknown_field_is_named_when_strict(server: Server) -> None:
    document = pod("a")
    document["spec"]["containers"][0]["imagee"] = "x"
    document["spec"]["replicas"] = 1
    with pytest.raises(Invalid) as refused:
        await server.create("pods", document, fieldValidation="Strict")
    assert refused.value.status.code == 400
    message = refused.value.status.message
    assert "strict decoding error: " in message
    assert 'unknown field "spec.containers[0].imagee"' in message
    assert 'unknown field "spec.replicas"' in message


async def test_a_repeated_field_is_refused_when_strict(server: Server) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
    with pytest.raises(Invalid, match="duplicate field"):
        await server.create("configmaps", body, fieldValidation="Strict")


async def test_an_unknown_field_validation_is_invalid(server: Server) -> None:
    with pytest.raises(Invalid, match="fieldValidation") as refused:
        await server.create("configmaps", config_map("a"), fieldValidation="Perhaps")
    assert refused.value.status.code == 422


async def test_an_unknown_dry_run_is_invalid(server: Server) -> None:
    with pytest.raises(Invalid, match="dryRun") as refused:
        await server.create("configmaps", config_map("a"), dryRun="Some")
    assert refused.value.status.code == 422
