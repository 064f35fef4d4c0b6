"""CustomResourceDefinitions, and objects of the kinds they define."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, ApiError, Invalid, NotFound, OutcomeUnknown
from tests.conformance.documents import definition
from tests.conformance.server import Server, eventually

SIZE = {"type": "integer", "minimum": 1, "maximum": 10}


def spec_schema(**properties: Any) -> Document:
    required = properties.pop("required", None)
    schema = {"type": "object", "properties": properties}
    return {"spec": {**schema, "required": required} if required else schema}


class Widgets:
    """A fresh custom resource, one per test, so that tests cannot meet."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.group = f"g{uuid.uuid4().hex[:8]}.example.com"
        self.plural = ""

    async def define(self, schema: Document, **more: Any) -> Document:
        document = definition(self.group, schema, **more)
        await self.server.create("customresourcedefinitions", document)
        self.plural = document["metadata"]["name"]
        await self.server.learn(document)
        return await self.server.get("customresourcedefinitions", self.plural)

    def document(self, name: str = "w", **body: Any) -> Document:
        return {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": {"name": name}, **body}

    async def create(self, name: str = "w", query: dict[str, str] | None = None, **body: Any) -> Document:
        return await self.server.create(self.plural, self.document(name, **body), **(query or {}))

    async def patch(self, body: Document, **more: Any) -> Document:
        return await self.server.patch(self.plural, "w", MERGE_PATCH, body, **more)


@pytest.fixture
async def widgets(server: Server) -> Any:
    widgets = Widgets(server)
    yield widgets
    if widgets.plural:
        try:
            await server.delete("customresourcedefinitions", widgets.plural)
        except ApiError as error:
            assert error.status.code == 404, error


async def test_a_definition_is_accepted_and_established(widgets: Widgets) -> None:
    stored = await widgets.define(spec_schema(size=SIZE))
    conditions = {c["type"]: (c["status"], c["reason"]) for c in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    assert stored["status"]["acceptedNames"]["kind"] == "Widget"
    assert stored["status"]["storedVersions"] == ["v1"]
    assert stored["spec"]["conversion"] == {"strategy": "None"}


async def test_custom_objects_support_all_verbs(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE))
    created = await widgets.create(spec={"size": 3})
    assert created["metadata"]["generation"] == 1
    changed = await widgets.patch({"spec": {"size": 4}})
    assert changed["metadata"]["generation"] == 2
    listed = await widgets.server.list(widgets.plural)
    assert (listed["kind"], listed["items"]) == ("WidgetList", [changed])
    await widgets.server.delete(widgets.plural, "w")
    with pytest.raises(NotFound):
        await widgets.server.get(widgets.plural, "w")


async def test_custom_objects_can_be_watched(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE))
    start = (await widgets.server.list(widgets.plural))["metadata"]["resourceVersion"]
    async with widgets.server.watch(widgets.plural, resourceVersion=start) as events:
        created = await widgets.create(spec={"size": 3})
        assert await events.next() == {"type": "ADDED", "object": created}


@pytest.mark.parametrize(
    ("schema", "spec", "fields"),
    [
        (spec_schema(size=SIZE), {"size": 0}, {"spec.size": "should be greater than or equal to 1"}),
        (spec_schema(size=SIZE), {"size": "x"}, {"spec.size": 'must be of type integer: "string"'}),
        (spec_schema(size=SIZE, required=["size"]), {}, {"spec.size": "Required value"}),
        (spec_schema(mode={"type": "string", "enum": ["A", "B"]}), {"mode": "C"}, {"spec.mode": '"A", "B"'}),
        (
            spec_schema(name={"type": "string", "maxLength": 2}),
            {"name": "abc"},
            {"spec.name": "may not be more than 2"},
        ),
        (spec_schema(name={"type": "string", "pattern": "^a+$"}), {"name": "b"}, {"spec.name": "should match '^a+$'"}),
        (
            spec_schema(items={"type": "array", "maxItems": 2, "items": {"type": "string"}}),
            {"items": ["a", "b", "c"]},
            {"spec.items": "must have at most 2 items"},
        ),
        (
            spec_schema(sizes={"type": "array", "items": SIZE}),
            {"sizes": [1, 0, 11]},
            {"spec.sizes[1]": "greater than or equal to 1", "spec.sizes[2]": "less than or equal to 10"},
        ),
        (
            spec_schema(by={"type": "object", "additionalProperties": SIZE}),
            {"by": {"a": 0}},
            {"spec.by.a": "greater than or equal to 1"},
        ),
        (spec_schema(at={"type": "string", "format": "date-time"}), {"at": "now"}, {"spec.at": "date-time"}),
        (
            spec_schema(size={"x-kubernetes-int-or-string": True}),
            {"size": 1.5},
            {"spec.size": "integer,string"},
        ),
    ],
    ids=[
        "minimum",
        "type",
        "required",
        "enum",
        "length",
        "pattern",
        "items",
        "in lists",
        "in maps",
        "date",
        "int-or-string",
    ],
)
async def test_a_schema_is_enforced_with_paths(
    widgets: Widgets, schema: Document, spec: Document, fields: dict[str, str]
) -> None:
    await widgets.define(schema)
    with pytest.raises(Invalid) as refused:
        await widgets.create(spec=spec)
    status = refused.value.status
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.details is not None
    causes = {cause.field: cause.message or "" for cause in status.details.causes or []}
    assert set(causes) == set(fields)
    assert all(words in causes[path] for path, words in fields.items())


async def test_unknown_custom_fields_are_pruned(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE))
    created = await widgets.create(spec={"size": 1, "colour": "red"}, more=1)
    assert created["spec"] == {"size": 1}
    assert "more" not in created


async def test_unknown_custom_fields_are_refused_when_strict(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE))
    with pytest.raises(Invalid, match=r'unknown field "spec\.colour"'):
        await widgets.create(spec={"colour": "red"}, query={"fieldValidation": "Strict"})


async def test_unknown_fields_can_be_preserved(widgets: Widgets) -> None:
    await widgets.define(spec_schema(free={"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    created = await widgets.create(spec={"free": {"deep": {"er": [1, {"x": None}]}}, "gone": 1})
    assert created["spec"] == {"free": {"deep": {"er": [1, {"x": None}]}}}


async def test_preserving_keeps_rules_below(widgets: Widgets) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"size": SIZE}}
    await widgets.define(spec_schema(free=free))
    with pytest.raises(Invalid, match=r"spec\.free\.size"):
        await widgets.create(spec={"free": {"size": 0, "other": 1}})


async def test_defaults_are_filled_in_and_nested(widgets: Widgets) -> None:
    inner = {"type": "object", "default": {}, "properties": {"size": {**SIZE, "default": 7}}}
    await widgets.define(spec_schema(inner=inner, mode={"type": "string", "default": "A"}))
    assert (await widgets.create(spec={}))["spec"] == {"inner": {"size": 7}, "mode": "A"}


async def test_null_for_a_default_is_filled_in(widgets: Widgets) -> None:
    await widgets.define(spec_schema(mode={"type": "string", "default": "A"}))
    assert (await widgets.create(spec={"mode": None}))["spec"] == {"mode": "A"}


async def test_null_is_kept_where_nullable_and_dropped_elsewhere(widgets: Widgets) -> None:
    await widgets.define(spec_schema(a={"type": "string"}, b={"type": "string", "nullable": True}))
    assert (await widgets.create(spec={"a": None, "b": None}))["spec"] == {"b": None}


async def test_without_a_status_subresource_status_is_a_field(widgets: Widgets) -> None:
    await widgets.define({**spec_schema(size=SIZE), "status": {"type": "object", "properties": {"n": SIZE}}})
    created = await widgets.create(spec={}, status={"n": 1})
    assert created["status"] == {"n": 1}
    with pytest.raises(NotFound):
        await widgets.server.get(widgets.plural, "w", sub="status")


async def test_status_subresource_separates_spec_and_status_writes(widgets: Widgets) -> None:
    schema = {**spec_schema(size=SIZE), "status": {"type": "object", "properties": {"n": SIZE}}}
    await widgets.define(schema, subresources={"status": {}})
    created = await widgets.create(spec={"size": 1}, status={"n": 1})
    assert "status" not in created
    reported = await widgets.patch({"spec": {"size": 2}, "status": {"n": 5}}, sub="status")
    assert (reported["spec"], reported["status"]) == ({"size": 1}, {"n": 5})
    assert reported["metadata"]["generation"] == 1
    changed = await widgets.patch({"spec": {"size": 2}, "status": {"n": 6}})
    assert (changed["spec"], changed["status"]) == ({"size": 2}, {"n": 5})
    assert changed["metadata"]["generation"] == 2


async def test_custom_status_is_validated(widgets: Widgets) -> None:
    schema = {**spec_schema(size=SIZE), "status": {"type": "object", "properties": {"n": SIZE}}}
    await widgets.define(schema, subresources={"status": {}})
    await widgets.create(spec={})
    with pytest.raises(Invalid, match=r"status\.n"):
        await widgets.patch({"status": {"n": 0}}, sub="status")


async def test_a_scale_subresource_follows_its_paths(widgets: Widgets) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n"}
    schema = {**spec_schema(size=SIZE), "status": {"type": "object", "properties": {"n": SIZE}}}
    await widgets.define(schema, subresources={"status": {}, "scale": scale})
    await widgets.create(spec={"size": 3})
    shown = await widgets.server.get(widgets.plural, "w", sub="scale")
    assert (shown["kind"], shown["spec"]["replicas"]) == ("Scale", 3)
    await widgets.patch({"spec": {"replicas": 4}}, sub="scale")
    assert (await widgets.server.get(widgets.plural, "w"))["spec"]["size"] == 4


async def test_a_strategic_patch_is_unsupported(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE))
    await widgets.create(spec={"size": 1})
    with pytest.raises(Invalid) as refused:
        await widgets.server.patch(widgets.plural, "w", "application/strategic-merge-patch+json", {"spec": {"size": 2}})
    assert refused.value.status.code == 415


async def test_apply_works_and_merges_lists_by_their_map_keys(widgets: Widgets) -> None:
    item = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "n": SIZE}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    await widgets.define(spec_schema(parts=keyed))
    for manager, part in (("one", "a"), ("two", "b")):
        document = widgets.document(spec={"parts": [{"id": part, "n": 1}]})
        applied = await widgets.server.apply(widgets.plural, document, manager)
    assert [part["id"] for part in applied["spec"]["parts"]] == ["a", "b"]


async def test_a_repeated_map_key_is_invalid(widgets: Widgets) -> None:
    item = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    await widgets.define(spec_schema(parts=keyed))
    with pytest.raises(Invalid, match=r"spec\.parts\[1\]: Duplicate value"):
        await widgets.create(spec={"parts": [{"id": "a"}, {"id": "a"}]})


async def test_cluster_scope_has_no_namespace(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE), scope="Cluster")
    created = await widgets.create(spec={"size": 1})
    assert "namespace" not in created["metadata"]


async def test_a_changed_schema_holds_for_new_writes(widgets: Widgets) -> None:
    stored = await widgets.define(spec_schema(size=SIZE))
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"][
        "maximum"
    ] = 2
    await widgets.server.replace("customresourcedefinitions", stored)

    async def refused() -> bool:
        try:
            await widgets.create(spec={"size": 3}, query={"dryRun": "All"})
        except Invalid:
            return True
        except OutcomeUnknown:  # kube-apiserver answers so while it puts the old schema's storage away
            return False
        return False

    await eventually(refused, "the new schema is in force")


async def test_deleting_the_definition_takes_its_objects(widgets: Widgets) -> None:
    await widgets.define(spec_schema(size=SIZE))
    await widgets.create(spec={"size": 1})
    await widgets.server.delete("customresourcedefinitions", widgets.plural)

    async def gone() -> bool:
        try:
            await widgets.server.list(widgets.plural)
        except NotFound:
            return True
        except OutcomeUnknown:  # as above
            return False
        return False

    await eventually(gone, "the kind is no longer served")
    await widgets.define(spec_schema(size=SIZE))
    assert await widgets.server.names(widgets.plural) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"group": "nodots"}, "spec.group"),
        ({"versions": []}, "spec.versions"),
        ({"names": {"plural": "gadgets", "kind": "Widget"}}, "metadata.name"),
    ],
    ids=["scope", "group", "no versions", "another plural"],
)
async def test_a_bad_definition_is_invalid(widgets: Widgets, change: Document, path: str) -> None:
    document = definition(widgets.group, spec_schema(size=SIZE))
    document["spec"] |= change
    with pytest.raises(Invalid) as refused:
        await widgets.server.create("customresourcedefinitions", document)
    assert refused.value.status.code == 422
    assert refused.value.status.details is not None
    assert path in {cause.field for cause in refused.value.status.details.causes or []}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"spec": {"properties": {"size": SIZE}}}, ".type"),
        ({"spec": {"type": "text"}}, ".type"),
        ({"spec": {"type": "array"}}, ".items"),
    ],
    ids=["an object without a type", "an unknown type", "a list without items"],
)
async def test_a_schema_that_is_not_structural_is_invalid(widgets: Widgets, schema: Document, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        await widgets.server.create("customresourcedefinitions", definition(widgets.group, schema))
    assert f".openAPIV3Schema.properties[spec]{path}: " in refused.value.status.message
