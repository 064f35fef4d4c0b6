"""Schemas of custom resources: pruning, defaults, validation, merging, and which definitions are served."""

# ruff: noqa: E501 - one case, one line

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.builtins import apply_defaults
from restow.adapters.memory.documents.schema import CustomSchema, _default, _prune, validate_definition
from restow.adapters.memory.documents.schema_fast_path import compile_fast_check, compile_fast_resource_check
from restow.adapters.memory.documents.schema_nodes import SchemaNode
from restow.adapters.memory.documents.schema_rules import satisfies_scalar_rules
from restow.adapters.memory.documents.server_side_apply import server_side_apply
from restow.model.crds import custom_resource_definitions
from restow.model.objects import Document
from restow.ports import Conflict

KEEP = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def schema(**properties: Any) -> CustomSchema:
    spec = {"type": "object", "properties": properties}
    return CustomSchema.compile({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})


def resource(**spec: Any) -> Document:
    return {"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


def causes(compiled: CustomSchema, new: Document, old: Document | None = None) -> list[tuple[str, str]]:
    return [(cause.field or "", cause.message or "") for cause in compiled.validate(new, old)]


# --- pruning ---

PRUNED = [
    ("unknown fields go", {"a": {"type": "string"}}, {"a": "1", "b": 2}, {"a": "1"}, ["spec.b"]),
    ("nested ones too", {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}, {"a": {"b": "", "c": 1}}, {"a": {"b": ""}}, ["spec.a.c"]),
    ("in list items", {"a": {"type": "array", "items": {"type": "object"}}}, {"a": [{"b": 1}]}, {"a": [{}]}, ["spec.a[0].b"]),
    ("not where they are preserved", {"a": KEEP}, {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}, []),
    ("but below known ones inside", {"a": {**KEEP, "properties": {"b": {"type": "object"}}}}, {"a": {"b": {"c": 1}, "d": 1}}, {"a": {"b": {}, "d": 1}}, ["spec.a.b.c"]),
    ("maps keep their keys", {"a": {"type": "object", "additionalProperties": {"type": "string"}}}, {"a": {"x": "y"}}, {"a": {"x": "y"}}, []),
    ("embedded objects keep their identity", {"a": {"type": "object", "x-kubernetes-embedded-resource": True}}, {"a": {"kind": "K", "metadata": {"name": "n", "spam": 1}, "z": 1}}, {"a": {"kind": "K", "metadata": {"name": "n"}}}, ["spec.a.metadata.spam", "spec.a.z"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "given_", "expected", "unknown"), [row[1:] for row in PRUNED], ids=[row[0] for row in PRUNED]
)
def test_unknown_fields_are_pruned(
    properties: Document, given_: Document, expected: Document, unknown: list[str]
) -> None:
    document = resource(**copy.deepcopy(given_))
    compiled = schema(**properties)
    assert compiled.unknown_fields(document) == [f'unknown field "{path}"' for path in unknown]
    assert document == resource(**given_)
    compiled.prune(document)
    assert document == resource(**expected)


# --- defaults ---


@pytest.mark.parametrize(
    ("properties", "before", "after"),
    [
        ({"a": {"type": "string", "default": "x"}}, {}, {"a": "x"}),
        ({"a": {"type": "string", "default": "x"}}, {"a": "y"}, {"a": "y"}),
        ({"a": {"type": "string", "default": "x"}}, {"a": None}, {"a": "x"}),
        ({"a": {"type": "string", "default": "x", "nullable": True}}, {"a": None}, {"a": None}),
        ({"a": {"type": "string"}}, {"a": None}, {}),
        ({"a": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}}}, {}, {}),
        (
            {"a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}},
            {},
            {"a": {"b": 1}},
        ),
        (
            {
                "a": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}},
                }
            },
            {"a": [{}]},
            {"a": [{"b": 1}]},
        ),
    ],
    ids=[
        "absent",
        "present",
        "null",
        "nullable null",
        "null without a default",
        "below something absent",
        "below a default",
        "in list items",
    ],
)
def test_schema_defaults_are_applied(properties: Document, before: Document, after: Document) -> None:
    document = resource(**before)
    schema(**properties).apply_defaults(document)
    assert document == resource(**after)


def test_a_default_is_copied_for_every_object() -> None:
    compiled = schema(a={"type": "array", "default": [], "items": {"type": "string"}})
    one, two = resource(), resource()
    compiled.apply_defaults(one)
    one["spec"]["a"].append("x")
    compiled.apply_defaults(two)
    assert two["spec"]["a"] == []


# --- validation ---

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["n"],
    "items": {"type": "object", "required": ["n"], "properties": {"n": STRING}},
}
VIOLATIONS = [
    (STRING, 1, "spec.a", 'Invalid value: "integer": spec.a in body must be of type string: "integer"'),
    (INTEGER, 1.5, "spec.a", "must be of type integer"),
    (INTEGER, True, "spec.a", "must be of type integer"),
    ({"type": "number"}, "1", "spec.a", "must be of type number"),
    (STRING, None, "spec.a", 'must be of type string: "null"'),
    ({"type": "object", "required": ["b"]}, {}, "spec.a.b", "Required value"),
    ({**STRING, "enum": ["x", "y"]}, "z", "spec.a", 'Unsupported value: "z": supported values: "x", "y"'),
    ({**STRING, "pattern": "^x"}, "y", "spec.a", "spec.a in body should match '^x'"),
    ({**STRING, "minLength": 2}, "y", "spec.a", "should be at least 2 chars long"),
    ({**STRING, "maxLength": 2}, "yyy", "spec.a", "Too long: may not be more than 2 bytes"),
    ({**STRING, "format": "date-time"}, "yesterday", "spec.a", "must be of type date-time"),
    ({**STRING, "format": "ipv4"}, "1.2.3", "spec.a", "must be of type ipv4"),
    ({**INTEGER, "format": "int32"}, 2**31, "spec.a", "must be of type int32"),
    ({**INTEGER, "minimum": 0}, -1, "spec.a", "should be greater than or equal to 0"),
    ({**INTEGER, "minimum": 0, "exclusiveMinimum": True}, 0, "spec.a", "should be greater than 0"),
    ({**INTEGER, "maximum": 1}, 2, "spec.a", "should be less than or equal to 1"),
    ({**INTEGER, "multipleOf": 2}, 3, "spec.a", "multiple of 2"),
    ({"type": "array", "items": STRING, "minItems": 1}, [], "spec.a", "should have at least 1 items"),
    ({"type": "array", "items": STRING, "maxItems": 1}, ["a", "b"], "spec.a", "Too many: 2: must have at most 1 item"),
    ({"type": "array", "items": STRING}, ["a", 1], "spec.a[1]", "must be of type string"),
    ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, ["a", "a"], "spec.a[1]", 'Duplicate value: "a"'),
    (MAP, [{"n": "x"}, {"n": "x"}], "spec.a[1]", 'Duplicate value: {"n":"x"}'),
    ({"type": "object", "additionalProperties": STRING}, {"k": 1}, "spec.a.k", "must be of type string"),
    ({"type": "object", "additionalProperties": True, "maxProperties": 0}, {"k": 1}, "spec.a", "Too many"),
    ({"x-kubernetes-int-or-string": True}, [], "spec.a", "must be of type integer,string"),
    ({**INTEGER, "anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, "spec.a", "at least one schema (anyOf)"),
    ({**INTEGER, "oneOf": [{"minimum": 1}, {"maximum": 5}]}, 3, "spec.a", "Found 2 valid alternatives"),
    ({**INTEGER, "allOf": [{"minimum": 5}]}, 3, "spec.a", "greater than or equal to 5"),
    ({**INTEGER, "not": {"minimum": 1}}, 3, "spec.a", "must not validate the schema (not)"),
    ({**KEEP, "x-kubernetes-embedded-resource": True}, {}, "spec.a.kind", "Required value"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "value", "field", "message"), VIOLATIONS, ids=[row[3][:40] for row in VIOLATIONS])
def test_schema_violations_are_reported(node: Document, value: Any, field: str, message: str) -> None:
    problems = causes(schema(a=node), resource(a=value))
    assert any(where == field and message in cause for where, cause in problems), problems


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (INTEGER, 1.0),
        ({**STRING, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "50%"),
        (MAP, [{"n": "x"}, {"n": "y"}]),
        (KEEP, {"a": [1, None]}),
        ({**STRING, "format": "unheard-of"}, "x"),
    ],
    ids=["a whole float", "nullable", "int or string", "list map", "anything", "unknown format"],
)
def test_valid_values_pass_the_schema(node: Document, value: Any) -> None:
    assert causes(schema(a=node), resource(a=value)) == []


def test_update_is_not_refused_for_invalid_values_it_does_not_change() -> None:
    compiled = schema(a={**INTEGER, "maximum": 1}, b=INTEGER)
    assert causes(compiled, resource(a=5, b=2), resource(a=5, b=1)) == []
    assert causes(compiled, resource(a=6), resource(a=5))


def test_the_rule_that_freezes_a_field() -> None:
    compiled = schema(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen"}]})
    assert causes(compiled, resource(a=1)) == []
    assert causes(compiled, resource(a=2), resource(a=1)) == [("spec.a", "Invalid value: 2: frozen")]


def test_rules_of_immutable_fields() -> None:
    rules = ["!has(oldSelf.uid) || has(self.uid)"]
    text = {"type": "string", "x-kubernetes-validations": [{"rule": "oldSelf == '' || self == oldSelf"}]}
    node = {
        "type": "object",
        "properties": {"uid": text},
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    compiled = schema(a=node)
    for old, new, fields in [
        ({}, {"uid": "1"}, []),
        ({"uid": ""}, {"uid": "1"}, []),
        ({"uid": "1"}, {"uid": "2"}, ["spec.a.uid"]),
        ({"uid": "1"}, {}, ["spec.a"]),
    ]:
        assert [field for field, _ in causes(compiled, resource(a=new), resource(a=old))] == fields


# --- merging ---


def test_list_types_of_the_schema_decide_server_side_apply() -> None:
    merge = schema(m=MAP, s={"type": "array", "items": STRING}).merge
    live = server_side_apply(None, resource(m=[{"n": "x"}], s=["1"]), manager="a", force=False, now="t", merge=merge)
    live = server_side_apply(live, resource(m=[{"n": "y"}]), manager="b", force=False, now="t", merge=merge)
    assert [item["n"] for item in live["spec"]["m"]] == ["x", "y"]
    with pytest.raises(Conflict, match=r"\.spec\.s$"):
        server_side_apply(live, resource(s=["2"]), manager="b", force=False, now="t", merge=merge)


def test_free_form_value_that_changes_its_type_changes_owner_with_all_its_members() -> None:
    merge = schema(free=KEEP).merge
    live = server_side_apply(None, resource(free={"a": {"b": 1}}), manager="a", force=False, now="t", merge=merge)
    live = server_side_apply(live, resource(free={"a": 1}), manager="b", force=True, now="t", merge=merge)
    owned = {entry["manager"]: entry["fieldsV1"] for entry in live["metadata"]["managedFields"]}
    assert owned == {"b": {"f:spec": {"f:free": {"f:a": {}}}}}


# --- definitions ---


def definition(version: Document | None = None, **spec: Any) -> Document:
    names = {"plural": "xs", "kind": "X"}
    first = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        **(version or {}),
    }
    crd = {
        "metadata": {"name": "xs.x.io"},
        "spec": {"group": "x.io", "names": names, "scope": "Cluster", "versions": [first], **spec},
    }
    apply_defaults(crd, group="apiextensions.k8s.io", kind="CustomResourceDefinition")
    return crd


def with_property(**node: Any) -> Document:
    return definition({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": node}}}})


A = "spec.validation.openAPIV3Schema.properties[a]"
DEFINITIONS = [
    (definition(group="y.io"), "metadata.name", 'must be spec.names.plural+"."+spec.group'),
    (definition(group="nodot"), "spec.group", "at least one dot"),
    (definition(scope="Galaxy"), "spec.scope", "Unsupported value"),
    (definition(versions=[]), "spec.versions", "exactly one version marked as storage version"),
    (definition({"storage": False}), "spec.versions", "exactly one version marked as storage version"),
    (definition({"schema": {}}), "spec.versions[0].schema.openAPIV3Schema", "Required value"),
    (definition(conversion={"strategy": "Webhook"}), "spec.conversion.strategy", "only None is served"),
    (definition({"additionalPrinterColumns": [{"name": "A", "jsonPath": ".a", "type": "map"}]}), "spec.additionalPrinterColumns[0].type", "must be one of"),
    (definition({"subresources": {"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.y"}}}), "spec.subresources.scale.specReplicasPath", "under .spec"),
    (with_property(), f"{A}.type", "Required value"),
    (with_property(type="thing"), f"{A}.type", "Unsupported value"),
    (with_property(type="array"), f"{A}.items", "Required value"),
    (with_property(type="string", **{"$ref": "#/x"}), f"{A}.$ref", "not supported"),
    (with_property(type="object", properties={"b": STRING}, additionalProperties=STRING), f"{A}.additionalProperties", "mutual exclusive"),
    (with_property(type="string", pattern="("), f"{A}.pattern", "valid regular expression"),
    (with_property(type="string", default=1), f"{A}.default", "must be of type string"),
    (with_property(type="string", **{"x-kubernetes-list-type": "set"}), f"{A}.type", "must be array"),
    (with_property(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"}), f"{A}.x-kubernetes-list-map-keys", "must not be empty"),
    (with_property(type="array", items={"type": "object", "properties": {"n": STRING}}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}), f"{A}.items.properties[n].default", "Required value"),
    (definition({"schema": {"openAPIV3Schema": {"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}}}), "spec.validation.openAPIV3Schema.properties[b]", "because it is defined in"),
    (with_property(type="object", **{"x-kubernetes-embedded-resource": True}), f"{A}.properties", "Required value"),
    (with_property(type="object", oneOf=[{"type": "object"}]), f"{A}.oneOf[0].type", "must be empty to be structural"),
    (with_property(type="integer", **{"x-kubernetes-validations": [{"rule": "self > 3"}]}), f"{A}.x-kubernetes-validations[0].rule", 'Invalid value: "self > 3": this server does not evaluate this CEL rule'),
]  # fmt: skip


@pytest.mark.parametrize(("crd", "field", "message"), DEFINITIONS, ids=[row[2][:40] for row in DEFINITIONS])
def test_definitions_that_are_refused(crd: Document, field: str, message: str) -> None:
    problems = [(cause.field, cause.message or "") for cause in validate_definition(crd)]
    assert any(where == field and message in cause for where, cause in problems), problems


OURS = custom_resource_definitions()


@pytest.mark.parametrize("crd", OURS, ids=[crd["metadata"]["name"] for crd in OURS])
def test_our_own_definitions_are_served(crd: Document) -> None:
    crd = copy.deepcopy(crd)
    apply_defaults(crd, group="apiextensions.k8s.io", kind="CustomResourceDefinition")
    assert validate_definition(crd) == []


# --- laws ---

nodes = st.recursive(
    st.sampled_from(
        [
            STRING,
            INTEGER,
            {"type": "boolean", "default": True},
            {**STRING, "default": "x"},
            {**STRING, "nullable": True},
        ]
    ),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda p: {"type": "object", "properties": p}),
        inner.map(lambda item: {"type": "array", "items": item}),
        inner.map(lambda value: {"type": "object", "additionalProperties": value}),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@given(nodes, values)
def test_pruning_and_defaulting_settle_at_once(node: Document, value: Any) -> None:
    compiled, document = schema(a=node), resource(a=value)
    compiled.prune(document)
    assert compiled.unknown_fields(document) == []
    compiled.apply_defaults(document)
    once = copy.deepcopy(document)
    compiled.prune(document)
    compiled.apply_defaults(document)
    assert document == once


@given(nodes, values)
def test_a_document_is_always_valid_next_to_itself(node: Document, value: Any) -> None:
    assert schema(a=node).validate(resource(a=value), resource(a=value)) == []


@given(nodes, values)
def test_where_a_glance_is_sure_the_rules_find_nothing(node: Document, value: Any) -> None:
    compiled, before = SchemaNode(node), copy.deepcopy(value)
    if compile_fast_check(compiled)(value):
        unknown: list[str] = []
        _prune(value, compiled, "", unknown, drop=True)
        _default(value, compiled)
        assert (unknown, value, satisfies_scalar_rules(value, compiled)) == ([], before, True)


def test_reservation_as_we_write_it_passes_the_fast_check() -> None:
    definition = next(
        definition
        for definition in custom_resource_definitions()
        if definition["spec"]["names"]["kind"] == "Reservation"
    )
    root = SchemaNode(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"tasks": [{"name": "web", "replicas": 1, "template": {"spec": {"containers": [container]}}}]}
    taken = {"task": "web", "index": 0, "nodeName": "n1", "podRef": {"kind": "Pod", "name": "a", "uid": "1"}}
    status = {"state": {"phase": "Available"}, "placements": [taken], "allocated": {"cpu": "1"}, "available": 0}
    look = compile_fast_resource_check(root, ("apiVersion", "kind", "metadata"))
    assert look({"metadata": {"name": "r"}, "spec": spec, "status": status})
    assert not look({"metadata": {"name": "r"}, "spec": spec, "status": {**status, "unknown": 1}})
