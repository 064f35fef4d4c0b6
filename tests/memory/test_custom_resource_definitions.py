"""Custom resources: served as soon as they are defined, gone with their definition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from restow.ports import MERGE_PATCH, STRATEGIC_PATCH, Invalid, NotFound, Resource
from tests.memory.cluster import WIDGETS, Cluster, collect, config_map, definition, namespace, owner, told, widget

DEFINITIONS = "customresourcedefinitions"


async def define(cluster: Cluster, **version: Any) -> None:
    await cluster.create(DEFINITIONS, definition(**version))


async def test_a_definition_is_established_at_once(cluster: Cluster) -> None:
    created = await cluster.create(DEFINITIONS, definition())
    status = created["status"]
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("NamesAccepted", "True"),
        ("Established", "True"),
    ]
    assert status["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert status["storedVersions"] == ["v1"]


async def test_its_objects_are_served_and_listed_with_their_kind(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await cluster.create(WIDGETS, widget())
    await define(cluster)
    created = await cluster.create(WIDGETS, widget(spec={"size": 1}))
    assert created["metadata"]["generation"] == 1
    listed = await cluster.call("list", WIDGETS)
    assert (listed["kind"], listed["items"][0]["kind"]) == ("WidgetList", "Widget")


async def test_served_resource_has_its_printer_columns(cluster: Cluster) -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    await define(cluster, additionalPrinterColumns=columns)
    (served,) = [each for each in cluster.api.resources() if each.resource == WIDGETS]
    assert (served.kind, served.singular, served.namespaced) == ("Widget", "widget", True)
    assert served.columns == columns


@pytest.mark.parametrize(
    ("subresources", "change", "generation", "status"),
    [
        ({}, {"status": {"x": 1}}, 2, {"x": 1}),
        ({"status": {}}, {"status": {"x": 1}}, 1, None),
        ({"status": {}}, {"spec": {"size": 2}}, 2, None),
        ({"status": {}}, {"metadata": {"labels": {"a": "b"}}}, 1, None),
    ],
    ids=["status is a field like others", "status is kept apart", "a change", "a label"],
)
async def test_generation_counts_changes_outside_metadata_and_status(
    cluster: Cluster, subresources: Any, change: Any, generation: int, status: Any
) -> None:
    await define(cluster, subresources=subresources)
    await cluster.create(WIDGETS, widget(spec={"size": 1}))
    patched = await cluster.call("patch", WIDGETS, "w", change, content_type=MERGE_PATCH)
    assert (patched["metadata"]["generation"], patched.get("status")) == (generation, status)


async def test_custom_status_write_changes_only_the_status(cluster: Cluster) -> None:
    await define(cluster, subresources={"status": {}})
    await cluster.create(WIDGETS, widget(spec={"size": 1}, status={"ignored": True}))
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 2}, "status": {"x": 1}}
    patched = await cluster.call("patch", WIDGETS, "w", change, sub="status", content_type=MERGE_PATCH)
    assert (patched["spec"], patched["status"]) == ({"size": 1}, {"x": 1})
    assert "labels" not in patched["metadata"]


async def test_a_replacement_needs_a_version(cluster: Cluster) -> None:
    await define(cluster)
    await cluster.create(WIDGETS, widget())
    with pytest.raises(Invalid, match=r"metadata.resourceVersion: Invalid value: 0.*must be specified for an update"):
        await cluster.call("replace", WIDGETS, "w", widget())


async def test_strategic_patches_are_for_built_ins(cluster: Cluster) -> None:
    await define(cluster)
    await cluster.create(WIDGETS, widget())
    with pytest.raises(Invalid) as refused:
        await cluster.call("patch", WIDGETS, "w", {}, content_type=STRATEGIC_PATCH)
    assert refused.value.status.code == 415


async def test_versions_differ_in_their_name_alone(cluster: Cluster) -> None:
    body = definition()
    (first,) = body["spec"]["versions"]
    body["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    await cluster.create(DEFINITIONS, body)
    second = Resource("example.com", "v2", "widgets")
    await cluster.create(second, widget(spec={"size": 1}) | {"apiVersion": "example.com/v2"})
    for resource in (WIDGETS, second):
        stored = await cluster.get(resource, "w")
        assert (stored["apiVersion"], stored["spec"]) == (resource.api_version, {"size": 1})
    (event,) = await collect(cluster.events(second), 1)
    assert event["object"]["apiVersion"] == "example.com/v2"


async def test_selectable_fields_work_in_field_selectors(cluster: Cluster) -> None:
    await define(cluster, selectableFields=[{"jsonPath": ".spec.color"}])
    for name, color in (("a", "red"), ("b", "blue")):
        await cluster.create(WIDGETS, widget(name, spec={"color": color}))
    assert await cluster.names(WIDGETS, fieldSelector="spec.color=red") == ["a"]


async def test_its_objects_go_first_and_its_watches_end(cluster: Cluster) -> None:
    await define(cluster)
    await cluster.create(WIDGETS, widget("held") | {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
    await cluster.create(WIDGETS, widget("free"))
    watching = asyncio.ensure_future(collect(cluster.events(WIDGETS, resourceVersion=str(cluster.api.version)), 99))
    await cluster.delete(DEFINITIONS, "widgets.example.com")
    assert await cluster.names(WIDGETS) == ["held"]
    with pytest.raises(Invalid) as refused:
        await cluster.create(WIDGETS, widget("late"))
    assert refused.value.status.code == 405
    await cluster.call("patch", WIDGETS, "held", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    assert await cluster.names(DEFINITIONS) == []
    with pytest.raises(NotFound):
        await cluster.names(WIDGETS)
    assert told(await watching) == [("DELETED", "free"), ("MODIFIED", "held"), ("DELETED", "held")]


async def test_a_definition_can_come_back(cluster: Cluster) -> None:
    await define(cluster)
    await cluster.create(WIDGETS, widget())
    version = str(cluster.api.version)
    await cluster.delete(DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(0)
    await define(cluster)
    assert await cluster.names(WIDGETS) == []
    (event,) = await collect(cluster.events(WIDGETS, resourceVersion=version), 1)
    assert event["object"]["code"] == 410  # what happened in between is not known any more


async def test_unserved_definition_is_deleted_without_waiting(cluster: Cluster) -> None:
    await define(cluster)
    await cluster.create("namespaces", namespace("ns"))
    await cluster.create(WIDGETS, widget(), namespace="ns")
    held = await cluster.create("configmaps", config_map("owner"))
    owned = widget("owned")
    owned["metadata"]["ownerReferences"] = [owner(held)]
    await cluster.create(WIDGETS, owned)
    definition_ = await cluster.get(DEFINITIONS, "widgets.example.com")
    definition_["spec"]["versions"][0]["served"] = False
    await cluster.call("replace", DEFINITIONS, "widgets.example.com", definition_)

    await cluster.delete("configmaps", "owner")
    await cluster.delete("namespaces", "ns")
    await asyncio.sleep(0)
    with pytest.raises(NotFound):
        await cluster.get("namespaces", "ns")
    await cluster.delete(DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(0)
    assert await cluster.names(DEFINITIONS) == []


async def test_a_definition_cannot_take_the_place_of_a_built_in(cluster: Cluster) -> None:
    taken = definition("leases", "coordination.k8s.io")
    taken["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/1"}
    with pytest.raises(Invalid, match="served by the API server itself"):
        await cluster.create(DEFINITIONS, taken)
    assert await cluster.names("leases") == []


@pytest.mark.parametrize("spec", ["text", 5, {"a": [1]}, {"a": "text"}])
async def test_scaling_where_there_is_no_place_for_replicas_is_refused(cluster: Cluster, spec: Any) -> None:
    scale = {"specReplicasPath": ".spec.a.n", "statusReplicasPath": ".status.n"}
    await define(cluster, subresources={"status": {}, "scale": scale})
    await cluster.create(WIDGETS, widget(spec=spec))
    with pytest.raises(Invalid, match=r"spec\.a\.n: Invalid value: 3"):
        await cluster.call("patch", WIDGETS, "w", {"spec": {"replicas": 3}}, sub="scale", content_type=MERGE_PATCH)


async def test_null_in_the_labels_of_a_custom_resource_is_the_empty_text(cluster: Cluster) -> None:
    await define(cluster)
    odd = widget()
    odd["metadata"]["labels"] = {"a": None}
    assert (await cluster.create(WIDGETS, odd))["metadata"]["labels"] == {"a": ""}


@pytest.mark.parametrize("fields", ["x", ["x"], [{"operation": "Update", "fieldsV1": {}, "manager": 5}]])
async def test_unreadable_managed_fields_of_a_custom_resource_are_refused(cluster: Cluster, fields: Any) -> None:
    await define(cluster)
    odd = widget()
    odd["metadata"]["managedFields"] = fields
    with pytest.raises(Invalid, match="managedFields"):
        await cluster.create(WIDGETS, odd)
