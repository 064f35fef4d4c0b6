"""What the server says it has: discovery in both forms, OpenAPI, and how a new definition changes them."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve, write_kubeconfig
from restow.adapters.rest.discovery import version_rank
from restow.model.crds import custom_resource_definitions

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
NEW_CLIENT = ",".join([AGGREGATED.format("v2"), AGGREGATED.format("v2beta1"), "application/json"])
OLD_CLIENT = ",".join([AGGREGATED.format("v2beta1"), "application/json"])


@pytest.fixture
async def embedded() -> AsyncIterator[aiohttp.ClientSession]:
    api = MemoryApi(SystemClock(), random.Random(1))
    async with await serve(api) as server, aiohttp.ClientSession(server.url) as session:
        yield session


async def get(http: aiohttp.ClientSession, path: str, accept: str = "application/json") -> dict[str, Any]:
    async with http.get(path, headers={"Accept": accept}) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()  # type: ignore[no-any-return]


async def define(http: aiohttp.ClientSession) -> None:
    for definition in custom_resource_definitions():
        async with http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition) as answer:
            assert answer.status == 201, await answer.text()


@pytest.mark.parametrize(
    ("accept", "version"),
    [(NEW_CLIENT, "v2"), (OLD_CLIENT, "v2beta1")],
    ids=["kubectl from 1.30", "kubectl before 1.30"],
)
async def test_aggregated_discovery_has_the_version_asked_for(
    embedded: aiohttp.ClientSession, accept: str, version: str
) -> None:
    async with embedded.get("/apis", headers={"Accept": accept}) as answer:
        body = await answer.json(content_type=None)
        assert answer.headers["Content-Type"] == AGGREGATED.format(version)
    assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
    apps = next(item for item in body["items"] if item["metadata"]["name"] == "apps")
    deployments = next(each for each in apps["versions"][0]["resources"] if each["resource"] == "deployments")
    scale = next(each for each in deployments["subresources"] if each["subresource"] == "scale")
    assert deployments["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert (deployments["scope"], deployments["shortNames"], deployments["categories"]) == (
        "Namespaced",
        ["deploy"],
        ["all"],
    )
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


async def test_core_group_is_discovered_apart(embedded: aiohttp.ClientSession) -> None:
    core = await get(embedded, "/api", AGGREGATED.format("v2"))
    assert [item["metadata"]["name"] for item in core["items"]] == [""]
    others = await get(embedded, "/apis", AGGREGATED.format("v2"))
    names = [item["metadata"]["name"] for item in others["items"]]
    assert "" not in names and "metrics.k8s.io" not in names


async def test_metrics_group_is_last_when_usage_is_measured() -> None:
    api = MemoryApi(SystemClock(), random.Random(1), measure=lambda plural: [])
    async with await serve(api) as server, aiohttp.ClientSession(server.url) as session:
        assert (await get(session, "/apis"))["groups"][-1]["name"] == "metrics.k8s.io"


async def test_legacy_discovery_lists_groups_and_resources(embedded: aiohttp.ClientSession) -> None:
    assert (await get(embedded, "/api"))["versions"] == ["v1"]
    listed = await get(embedded, "/apis")
    policy = next(each for each in listed["groups"] if each["name"] == "policy")
    assert policy["preferredVersion"] == {"groupVersion": "policy/v1", "version": "v1"}
    assert await get(embedded, "/apis/policy") == {"kind": "APIGroup", "apiVersion": "v1", **policy}
    assert (await get(embedded, "/apis/apps/v1"))["groupVersion"] == "apps/v1"


async def test_drain_finds_the_eviction_subresource(embedded: aiohttp.ClientSession) -> None:
    resources = {each["name"]: each for each in (await get(embedded, "/api/v1"))["resources"]}
    assert resources["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert resources["nodes"]["shortNames"] == ["no"]
    assert "group" not in resources["pods/status"]


async def test_a_definition_extends_everything_at_once(embedded: aiohttp.ClientSession) -> None:
    before = await get(embedded, "/openapi/v3")
    await define(embedded)
    volcano = await get(embedded, "/apis/batch.volcano.sh/v1alpha1")
    (reservation, status) = volcano["resources"]
    assert (reservation["kind"], reservation["shortNames"], status["name"]) == (
        "Reservation",
        ["resv"],
        "reservations/status",
    )
    names = [item["metadata"]["name"] for item in (await get(embedded, "/apis", NEW_CLIENT.split(",")[0]))["items"]]
    assert names.index("batch") < names.index("batch.volcano.sh")
    after = await get(embedded, "/openapi/v3")
    added = after["paths"].keys() - before["paths"].keys()
    assert "apis/batch.volcano.sh/v1alpha1" in added
    assert all(after["paths"][path] == before["paths"][path] for path in before["paths"])


async def test_openapi_documents_are_addressed_by_their_content(embedded: aiohttp.ClientSession) -> None:
    address = (await get(embedded, "/openapi/v3"))["paths"]["apis/apps/v1"]["serverRelativeURL"]
    async with embedded.get(address) as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "public, immutable")
    async with embedded.get("/openapi/v3/apis/apps/v1") as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-cache, private")


async def test_openapi_has_what_kubectl_reads(embedded: aiohttp.ClientSession) -> None:
    document = await get(embedded, "/openapi/v3/apis/apps/v1")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}} in patch["parameters"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert set(_references(document)) <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


async def test_every_openapi_document_is_closed(embedded: aiohttp.ClientSession) -> None:
    await define(embedded)
    for path in (await get(embedded, "/openapi/v3"))["paths"]:
        document = await get(embedded, f"/openapi/v3/{path}")
        schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(_references(document)) <= schemas, path


async def test_custom_resources_have_their_whole_schema(embedded: aiohttp.ClientSession) -> None:
    await define(embedded)
    document = await get(embedded, "/openapi/v3/apis/batch.volcano.sh/v1alpha1")
    schema = document["components"]["schemas"]["sh.volcano.batch.v1alpha1.Reservation"]
    assert schema["properties"]["spec"]["properties"]["tasks"]["type"] == "array"
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Reservation"}
    ]


def test_versions_are_preferred_as_kubernetes_does() -> None:
    versions = ["v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "foo1", "foo10"]
    assert sorted({*versions}, key=version_rank) == versions


def test_a_kubeconfig_is_written_whole_and_private(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "own" / "kubeconfig", "http://127.0.0.1:1")
    write_kubeconfig(path, "http://127.0.0.1:2", namespace="team")
    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:2"}
    assert (document["current-context"], document["contexts"][0]["name"]) == ("restow", "restow")
    assert document["contexts"][0]["context"]["namespace"] == "team"
    assert path.stat().st_mode & 0o077 == 0
    assert [each.name for each in path.parent.iterdir()] == ["kubeconfig"]


def _references(document: Any) -> list[str]:
    text = json.dumps(document)
    return [part.split('"')[0] for part in text.split('"$ref": "')[1:]]
