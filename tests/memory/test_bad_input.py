"""Bad input of any shape: a Status is the answer, never a crash, and what is refused changes nothing."""

from __future__ import annotations

import asyncio
import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.objects import Document
from restow.ports import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ApiError, Invalid
from tests.memory.cluster import WIDGETS, Cluster, budget, config_map, definition, deployment, namespace, pod, widget

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "A b", "-1", "é", "1e999", "2026-13-01T00:00:00Z"]),
    st.lists(st.sampled_from([None, 0, "x", {}, []]), max_size=2),
    st.dictionaries(st.sampled_from(["name", "uid", "x", ""]), st.sampled_from([None, 1, "x", {}]), max_size=2),
)

RICH = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "string", "enum": ["x"], "default": "x", "maxLength": 3},
                "b": {"type": "array", "items": {"type": "integer", "minimum": 1}, "x-kubernetes-list-type": "set"},
                "c": {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True},
                "d": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            },
        }
    },
}
SHOWN: Document = {
    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
}
owned = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
SEEDS: dict[str, tuple[str | Any, str | None, Document]] = {
    "pod": ("pods", None, pod(labels={"a": "b"}, finalizers=["a/b"], ownerReferences=owned, generateName="x-")),
    "deployment": ("deployments", None, deployment()),
    "budget": ("poddisruptionbudgets", None, budget()),
    "namespace": ("namespaces", None, namespace("n")),
    "custom resource": (WIDGETS, None, widget(spec={"size": 1}, status={"x": 1})),
    "definition": (
        "customresourcedefinitions",
        None,
        definition("gadgets", schema={"openAPIV3Schema": RICH}, selectableFields=[{"jsonPath": ".spec.a"}], **SHOWN),
    ),
    "binding": ("pods", "binding", {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"name": "n"}}),
    "eviction": (
        "pods",
        "eviction",
        {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "u"}, "dryRun": ["All"]}},
    ),
    "scale": ("deployments", "scale", {"metadata": {"name": "d"}, "spec": {"replicas": 2}}),
    "options": ("configmaps", "delete", {"gracePeriodSeconds": 1, "preconditions": {"uid": "u"}, "dryRun": ["All"]}),
}


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for name, member in members for each in paths(member, (*path, name)))]


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


async def filled() -> Cluster:
    cluster = Cluster()
    await cluster.create("customresourcedefinitions", definition(subresources={"status": {}}))
    await cluster.create(WIDGETS, widget("p"))
    await cluster.create("pods", pod("p"))
    await cluster.create("configmaps", config_map("p"))
    await cluster.create("deployments", deployment())
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_body_with_anything_anywhere(seed: str, data: st.DataObject) -> None:
    resource, sub, body = SEEDS[seed]
    broken = changed(body, data.draw(st.sampled_from(paths(body))), data.draw(ODD))

    async def story() -> None:
        cluster = await filled()
        version = cluster.api.version
        try:
            await send(cluster, resource, sub, broken)
        except ApiError as error:
            assert error.status.code >= 400
            assert error.status.message
            assert cluster.api.version == version
        await asyncio.sleep(0)

    asyncio.run(story())


async def send(cluster: Cluster, resource: Any, sub: str | None, body: Any) -> None:
    if sub == "delete":
        await cluster.delete(resource, "p", body)
    elif sub == "scale":
        await cluster.call("replace", resource, "d", body, sub=sub)
    elif sub is not None:
        await cluster.call("create", resource, "p", body, sub=sub)
    else:
        await cluster.create(resource, body)


@pytest.mark.parametrize("resource", ["pods", "configmaps", WIDGETS], ids=["pods", "configmaps", "widgets"])
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_patch_or_replacement_with_anything_anywhere(resource: Any, data: st.DataObject) -> None:
    content_type = data.draw(st.sampled_from([JSON, MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH]))
    sub = data.draw(st.sampled_from([None, "status"]))

    async def story() -> None:
        cluster = await filled()
        present = await cluster.get(resource, "p")
        path, value = data.draw(st.sampled_from(paths(present))), data.draw(ODD)
        body: Any = changed(present, path, value)
        if content_type == JSON_PATCH:
            pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
            body = [{"op": data.draw(st.sampled_from(["add", "replace", "remove", "test"])), "path": pointer}]
            body[0]["value"] = value
        verb: Any = "replace" if content_type == JSON else "patch"
        try:
            await cluster.call(verb, resource, "p", body, sub=sub, content_type=content_type)
        except ApiError as error:
            assert error.status.message
            assert await cluster.get(resource, "p") == present

    asyncio.run(story())


QUERY_NAMES = ["limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch"]
QUERY_NAMES += ["sendInitialEvents", "timeoutSeconds", "allowWatchBookmarks", "dryRun", "fieldValidation", "force"]
VALUES = st.one_of(st.text(max_size=6), st.sampled_from(["-1", "0", "1", "true", "Exact", "NotOlderThan", "a=b", "!a"]))


@given(query=st.dictionaries(st.sampled_from(QUERY_NAMES), VALUES, max_size=4))
@settings(max_examples=40, deadline=None)
def test_random_queries_are_answered_with_a_status(query: dict[str, str]) -> None:
    async def story() -> None:
        cluster = await filled()
        requests: list[tuple[Any, str | None]] = [("list", None), ("get", "p"), ("delete", "p")]
        for verb, name in requests:
            try:
                await cluster.call(verb, "configmaps", name, **query)
            except ApiError as error:
                assert error.status.message
        with suppress(ApiError, TimeoutError, StopAsyncIteration):
            await asyncio.wait_for(anext(cluster.events("pods", **query)), 0.001)

    asyncio.run(story())


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 400, str(2**63), "1_000", " 5", "٣", "²", "--1", "+"])
async def test_numbers_in_queries_that_are_none(cluster: Cluster, text: str) -> None:
    for name in ("resourceVersion", "limit", "timeoutSeconds"):
        with pytest.raises(ApiError) as refused:
            if name == "timeoutSeconds":
                await anext(cluster.events("pods", **{name: text}))
            else:
                await cluster.call("list", "pods", **{name: text})
        assert refused.value.status.code == 400


async def test_numbers_beyond_int64_are_refused(cluster: Cluster) -> None:
    with pytest.raises(Invalid, match=r"spec\.terminationGracePeriodSeconds: json: cannot unmarshal number"):
        await cluster.create("pods", pod(spec={"terminationGracePeriodSeconds": 2**63}))


async def test_bodies_that_are_nested_too_deeply(cluster: Cluster) -> None:
    body = b'{"metadata":' * 50_000 + b"{}" + b"}" * 50_000
    await cluster.create("pods", pod("p"))
    for sub in ("binding", "eviction"):
        with pytest.raises(Invalid, match="nested too deeply"):
            await cluster.call("create", "pods", "p", body, sub=sub)
    with pytest.raises(Invalid, match="nested too deeply"):
        await cluster.call("create", "configmaps", None, body)
    with pytest.raises(Invalid, match="nested too deeply"):
        await cluster.call("patch", "pods", "p", body, content_type=MERGE_PATCH)
    with pytest.raises(Invalid, match="nested too deeply"):
        await cluster.delete("pods", "p", body)
