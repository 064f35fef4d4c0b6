"""Create, replace, patch: what the server sets, keeps, counts and refuses."""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import Any

import pytest

from restow.adapters.memory import MemoryApi
from restow.model.objects import Document
from restow.ports import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Request,
    Resource,
)
from tests.memory.cluster import RESOURCES, Cluster, SetClock, config_map, deployment, pod


async def test_server_sets_uid_and_creation_timestamp(cluster: Cluster) -> None:
    sent = config_map(uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp="2001-01-01T00:00:00Z")
    metadata = (await cluster.create("configmaps", sent))["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert "deletionTimestamp" not in metadata
    assert metadata["resourceVersion"] == str(cluster.api.version)


async def test_the_same_seed_makes_the_same_cluster() -> None:
    async def story() -> list[bytes]:
        api = MemoryApi(SetClock(), random.Random(3))
        body = json.dumps(pod(generateName="web-") | {"metadata": {"generateName": "web-"}}).encode()
        create = Request(verb="create", resource=RESOURCES["pods"], namespace="default", body=body)
        return [(await api.call(create)).body for _ in range(3)]

    assert await story() == await story()


async def test_generate_name_gets_a_suffix(cluster: Cluster) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x" * 80}}
    name = (await cluster.create("configmaps", body))["metadata"]["name"]
    assert re.fullmatch(r"x{58}[bcdfghjklmnpqrstvwxz2456789]{5}", name)


async def test_a_generated_name_that_is_taken_is_tried_again(cluster: Cluster) -> None:
    class Stuck(random.Random):
        def choices(self, *args: Any, **options: Any) -> Any:
            return "bbbbb"

    api = MemoryApi(SetClock(), Stuck(1))
    body = json.dumps({"metadata": {"generateName": "x-"}}).encode()
    create = Request(verb="create", resource=RESOURCES["configmaps"], namespace="default", body=body)
    await api.call(create)
    with pytest.raises(AlreadyExists, match="was not able to generate a unique name"):
        await api.call(create)


@pytest.mark.parametrize(
    ("body", "error", "code", "words"),
    [
        (config_map("taken"), AlreadyExists, 409, 'configmaps "taken" already exists'),
        (config_map(resourceVersion="1"), OutcomeUnknown, 500, "resourceVersion should not be set"),
        (config_map(namespace="kube-system"), Invalid, 400, "does not match the namespace sent on the request"),
        ({"metadata": {}}, Invalid, 422, r"metadata.name: Required value: name or generateName is required"),
        ({**config_map(), "kind": "Secret"}, Invalid, 400, 'Secret in version "v1" cannot be handled as a ConfigMap'),
        ({**config_map(), "apiVersion": "v2"}, Invalid, 400, r"the API version in the data \(v2\) does not match"),
        ({"metadata": 3}, Invalid, 400, "metadata: expected an object"),
        (b"{", Invalid, 400, "not the JSON of a ConfigMap"),
        (b"[]", Invalid, 400, "expected an object, got list"),
        (b'{"a":"%s"}' % (b"x" * 3 * 1024 * 1024), Invalid, 413, "Request entity too large: limit is 3145728"),
    ],
    ids=[
        *("taken", "with a version", "another namespace", "nameless", "another kind", "another version"),
        *("metadata is a number", "cut off", "a list", "huge"),
    ],
)
async def test_a_bad_create_is_refused_and_changes_nothing(
    cluster: Cluster, body: Any, error: type[ApiError], code: int, words: str
) -> None:
    await cluster.create("configmaps", config_map("taken"))
    version = cluster.api.version
    with pytest.raises(error, match=words) as refused:
        await cluster.create("configmaps", body)
    assert refused.value.status.code == code
    assert cluster.api.version == version


async def test_every_wrong_field_is_named(cluster: Cluster) -> None:
    body = pod(labels={"bad label": "x"}, spec={"containers": [{"image": "i"}]})
    with pytest.raises(Invalid) as refused:
        await cluster.create("pods", body)
    details = refused.value.status.details
    assert details is not None and details.causes is not None
    fields = {cause.field for cause in details.causes}
    assert {"metadata.labels", "spec.containers[0].name"} <= fields


@pytest.mark.parametrize(
    ("metadata", "error", "words"),
    [
        ({"resourceVersion": "1"}, Conflict, "the object has been modified; please apply your changes to the latest"),
        ({"uid": "another"}, Conflict, "Precondition failed: UID in precondition: another, UID in object meta: "),
        ({"creationTimestamp": "2001-01-01T00:00:00Z"}, Invalid, "metadata.creationTimestamp: Invalid value"),
        ({"name": "b"}, Invalid, r"the name of the object \(b\) does not match the name on the URL \(a\)"),
        ({"name": ""}, Invalid, "name must be provided"),
        ({"namespace": "kube-system"}, Invalid, r"does not match the namespace on the request \(default\)"),
    ],
    ids=["stale", "another object", "another birthday", "another name", "nameless", "another namespace"],
)
async def test_a_bad_replacement_is_refused(cluster: Cluster, metadata: Any, error: Any, words: str) -> None:
    await cluster.create("configmaps", config_map())
    version = cluster.api.version
    with pytest.raises(error, match=words):
        await cluster.call("replace", "configmaps", "a", config_map(**{"name": "a", **metadata}) | {"data": {"x": "1"}})
    assert cluster.api.version == version


async def test_a_replacement_without_a_version_wins(cluster: Cluster) -> None:
    created = await cluster.create("configmaps", config_map())
    replaced = await cluster.call("replace", "configmaps", "a", config_map() | {"data": {"x": "1"}})
    assert replaced["data"] == {"x": "1"}
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]


async def test_missing_object_cannot_be_replaced_unless_the_kind_allows_it(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await cluster.call("replace", "configmaps", "a", config_map())
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    assert (await cluster.call("replace", "leases", "a", lease))["metadata"]["uid"]
    with pytest.raises(Invalid, match="must be specified for an update"):
        await cluster.call("replace", "leases", "a", lease)


async def test_a_write_that_changes_nothing_writes_nothing(cluster: Cluster) -> None:
    created = await cluster.create("pods", pod())
    version = cluster.api.version
    assert await cluster.call("replace", "pods", "a", created) == created
    for content_type, body in (
        (MERGE_PATCH, b"{}"),
        (STRATEGIC_PATCH, b'{"spec":{"containers":[{"name":"main","image":"img"}]}}'),
        (JSON_PATCH, b"[]"),
    ):
        await cluster.call("patch", "pods", "a", body, content_type=content_type)
    assert cluster.api.version == version


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        ({"spec": {"replicas": 2}}, 2),
        ({"metadata": {"labels": {"x": "1"}}}, 1),
        ({"metadata": {"annotations": {"x": "1"}}}, 2),
        ({"status": {"replicas": 1}}, 1),
    ],
    ids=["spec", "label", "annotation, which deployments count", "status, which is ignored"],
)
async def test_generations_count_changes_of_spec(cluster: Cluster, change: Document, generation: int) -> None:
    await cluster.create("deployments", deployment())
    patched = await cluster.call("patch", "deployments", "d", change, content_type=MERGE_PATCH)
    assert patched["metadata"]["generation"] == generation
    assert "replicas" not in patched["status"]


async def test_status_and_the_rest_are_written_apart(cluster: Cluster) -> None:
    await cluster.create("deployments", deployment())
    written = await cluster.set_status("deployments", "d", {"replicas": 1})
    assert written["metadata"]["generation"] == 1
    body = {**written, "spec": {**written["spec"], "replicas": 5}}
    assert (await cluster.call("replace", "deployments", "d", body, sub="status"))["spec"]["replicas"] == 1
    body = {**(await cluster.get("deployments", "d")), "status": {}}
    assert (await cluster.call("replace", "deployments", "d", body))["status"] == {"replicas": 1}


@pytest.mark.parametrize(
    ("metadata", "error", "words"),
    [
        ({"resourceVersion": "1"}, Conflict, "the object has been modified"),
        ({"uid": "another"}, Invalid, 'metadata.uid: Invalid value: "another": field is immutable'),
    ],
    ids=["stale", "another object"],
)
async def test_a_patch_may_carry_its_precondition(cluster: Cluster, metadata: Any, error: Any, words: str) -> None:
    await cluster.create("configmaps", config_map())
    change = {"metadata": metadata, "data": {"x": "1"}}
    with pytest.raises(error, match=words):
        await cluster.call("patch", "configmaps", "a", change, content_type=MERGE_PATCH)


async def test_patch_cannot_change_the_name(cluster: Cluster) -> None:
    await cluster.create("configmaps", config_map())
    with pytest.raises(Invalid, match="does not match the name on the URL"):
        await cluster.call("patch", "configmaps", "a", {"metadata": {"name": "b"}}, content_type=MERGE_PATCH)


async def test_apply_creates_and_then_updates(cluster: Cluster) -> None:
    body = config_map() | {"data": {"x": "1"}}
    options: Any = {"content_type": APPLY_PATCH, "fieldManager": "m"}
    first = await cluster.call("patch", "configmaps", "a", body, **options)
    body["data"] = {"y": "2"}
    second = await cluster.call("patch", "configmaps", "a", body, **options)
    assert (first["data"], second["data"]) == ({"x": "1"}, {"y": "2"})
    assert second["metadata"]["uid"] == first["metadata"]["uid"]


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "delete"])
async def test_a_dry_run_answers_and_writes_nothing(cluster: Cluster, verb: Any) -> None:
    await cluster.create("configmaps", config_map())
    version = cluster.api.version
    name, body = (None, config_map("b")) if verb == "create" else ("a", config_map() | {"data": {"x": "1"}})
    if verb == "delete":
        body = {"dryRun": ["All"]}
    content_type = MERGE_PATCH if verb == "patch" else "application/json"
    answer = await cluster.call(verb, "configmaps", name, body, content_type=content_type, dryRun="All")
    assert answer["kind"] in ("ConfigMap", "Status")
    assert cluster.api.version == version
    assert await cluster.names("configmaps") == ["a"]


async def test_concurrent_writers_never_lose_an_update(cluster: Cluster) -> None:
    await cluster.create("configmaps", config_map() | {"data": {"n": "0"}})

    async def add_one() -> None:
        while True:
            config_map = await cluster.get("configmaps", "a")
            config_map["data"]["n"] = str(int(config_map["data"]["n"]) + 1)
            await asyncio.sleep(0)
            try:
                await cluster.call("replace", "configmaps", "a", config_map)
                return
            except Conflict:
                continue

    await asyncio.gather(*(add_one() for _ in range(20)))
    assert (await cluster.get("configmaps", "a"))["data"]["n"] == "20"


@pytest.mark.parametrize(
    ("request_", "error", "code"),
    [
        (Request(verb="list", resource=Resource("", "v1", "unheard")), NotFound, 404),
        (
            Request(verb="get", resource=RESOURCES["pods"], namespace="default", name="a", subresource="x"),
            NotFound,
            404,
        ),
        (Request(verb="deletecollection", resource=RESOURCES["namespaces"]), Invalid, 405),
        (Request(verb="get", resource=RESOURCES["nodes"], namespace="default", name="n"), NotFound, 404),
        (Request(verb="get", resource=RESOURCES["pods"], name="a"), Invalid, 400),
        (Request(verb="delete", resource=RESOURCES["pods"], namespace="default"), Invalid, 405),
        (Request(verb="list", resource=RESOURCES["selfsubjectreviews"]), Invalid, 405),
    ],
    ids=["resource", "subresource", "verb", "namespace too many", "namespace missing", "no name", "reviews"],
)
async def test_unserved_resources_and_verbs_are_refused(
    cluster: Cluster, request_: Request, error: Any, code: int
) -> None:
    with pytest.raises(error) as refused:
        await cluster.api.call(request_)
    assert refused.value.status.code == code


async def test_unknown_fields_are_warned_about(cluster: Cluster) -> None:
    body = pod(spec={"unheard": 1})
    response = await cluster.api.call(cluster.request("create", "pods", None, body))
    assert response.warnings == ('unknown field "spec.unheard"',)
    assert "unheard" not in json.loads(response.body)["spec"]
