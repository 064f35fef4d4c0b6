"""Whether a CustomResourceDefinition can be served: its names, its versions, and structural schemas.

In: the definition, defaults applied. Out: every cause for refusing it. What upstream accepts and this server does not
carry out (webhook conversion, CEL rules it does not know) is refused by name instead of being ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from restow.adapters.memory.documents.findings import Findings
from restow.adapters.memory.documents.metadatarules import resource_name_problems
from restow.adapters.memory.documents.schemanodes import MISSING, SchemaNode
from restow.adapters.memory.documents.schemarules import KNOWN_RULES, check_value
from restow.model.names import subdomain_problems
from restow.model.objects import Document
from restow.ports import StatusCause

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_UNSUPPORTED = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_NOT_IN_JUNCTORS = (
    "type",
    "default",
    "additionalProperties",
    "nullable",
    "description",
    "title",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def validate_definition(crd: Document) -> list[StatusCause]:
    """Why a CustomResourceDefinition cannot be served; empty when it can."""
    found = Findings()
    spec = crd.get("spec") or {}
    _check_names(crd, spec, found)
    _check_versions(spec, found)
    conversion = spec.get("conversion") or {}
    strategy = conversion.get("strategy", "None")
    if strategy == "Webhook":
        found.invalid(
            "spec.conversion.strategy", strategy, "this server converts without webhooks; only None is served"
        )
    elif strategy != "None":
        found.unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if spec.get("preserveUnknownFields"):
        found.invalid(
            "spec.preserveUnknownFields", True, "cannot set to true, set x-kubernetes-preserve-unknown-fields"
        )
    return found.causes


def _check_names(crd: Document, spec: Document, found: Findings) -> None:
    group, names = spec.get("group"), spec.get("names") or {}
    if not group:
        found.required("spec.group")
    elif problems := subdomain_problems(group):
        found.all_invalid("spec.group", group, problems)
    elif "." not in group:
        found.invalid("spec.group", group, "should be a domain with at least one dot")
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        if spec.get("scope"):
            found.unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
        else:
            found.required("spec.scope")
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name)
        if not value:
            found.required(f"spec.names.{name}")
        elif problems := resource_name_problems(value.lower() if name.endswith("ind") else value):
            found.all_invalid(f"spec.names.{name}", value, problems)
    for name in ("shortNames", "categories"):
        for index, value in enumerate(names.get(name) or ()):
            found.all_invalid(f"spec.names.{name}[{index}]", value, resource_name_problems(value))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        found.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    expected = f"{names.get('plural', '')}.{group or ''}"
    name = crd["metadata"].get("name")
    if name and name != expected:
        found.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _check_versions(spec: Document, found: Findings) -> None:
    versions = spec.get("versions") or []
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        found.invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        found.invalid("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        if problems := resource_name_problems(version.get("name") or ""):
            found.all_invalid(f"spec.versions[{index}].name", version.get("name") or "", problems)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            found.required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
    for member, top, check in (
        ("schema", "spec.validation", _check_schema),
        ("additionalPrinterColumns", "spec.additionalPrinterColumns", _check_columns),
        ("subresources", "spec.subresources", _check_subresources),
    ):
        for field, value in _hoisted(versions, member, top):
            if value:
                check(value, field, found)


def _hoisted(versions: list[Document], member: str, top: str) -> Iterator[tuple[str, Any]]:
    """What all versions share is named as one, at the place upstream keeps it in."""
    values = [version.get(member) for version in versions]
    if values and all(value == values[0] for value in values):
        yield top, values[0]
    else:
        yield from ((f"spec.versions[{index}].{member}", value) for index, value in enumerate(values))


def _check_schema(schema: Document, field: str, found: Findings) -> None:
    if schema.get("openAPIV3Schema"):
        found.causes.extend(_schema_causes(msgspec.json.encode(schema["openAPIV3Schema"]), f"{field}.openAPIV3Schema"))


@lru_cache(maxsize=32)
def _schema_causes(written: bytes, field: str) -> tuple[StatusCause, ...]:
    """Kept by what the schema says, because many simulated clusters begin with the same definitions."""
    found = Findings()
    _check_root(msgspec.json.decode(written), field, found)
    return tuple(found.causes)


def _check_columns(columns: list[Document], field: str, found: Findings) -> None:
    for index, column in enumerate(columns):
        where = f"{field}[{index}]"
        if not column.get("name"):
            found.required(f"{where}.name")
        if not column.get("jsonPath"):
            found.required(f"{where}.JSONPath")
        if not column.get("type"):
            found.required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column["type"] not in _COLUMN_TYPES:
            found.invalid(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")


def _check_subresources(subresources: Document, field: str, found: Findings) -> None:
    if subresources.get("scale") is not None:
        _check_scale(subresources["scale"], f"{field}.scale", found)


def _check_scale(scale: Document, field: str, found: Findings) -> None:
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(name) or ""
        if not path:
            found.required(f"{field}.{name}")
        elif not path.startswith(root):
            found.invalid(f"{field}.{name}", path, f"should be a json path under {root[:-1]}")


def _check_root(schema: Document, field: str, found: Findings) -> None:
    if schema.get("type") not in (None, "object"):
        found.invalid(f"{field}.type", schema["type"], "must be object at the root")
    if schema.get("additionalProperties"):
        found.forbidden(f"{field}.additionalProperties", "must not be used at the root")
    if schema.get("nullable"):
        found.forbidden(f"{field}.nullable", "nullable cannot be true at the root")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    for name in metadata:
        if name not in ("type", "description", "properties"):
            found.forbidden(f"{field}.properties[metadata].{name}", "must not be specified in a nested metadata")
    before = len(found.causes)
    for place, each in _levels(schema, field):
        _check_level(each, place, found)
    if len(found.causes) == before:
        _check_defaults(SchemaNode(schema), field, found)


def _levels(schema: Document, field: str) -> Iterator[tuple[str, Document]]:
    """Every structural level with its path: properties, items and additionalProperties, not what junctors hold."""
    yield field, schema
    for name, child in (schema.get("properties") or {}).items():
        if isinstance(child, dict):
            yield from _levels(child, f"{field}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _levels(schema["items"], f"{field}.items")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _levels(schema["additionalProperties"], f"{field}.additionalProperties")


def _check_level(schema: Document, field: str, found: Findings) -> None:
    """The structural rules of one level."""
    kind, free = schema.get("type"), schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind:
        if not schema.get("x-kubernetes-int-or-string") and not free:
            what = "array items" if field.endswith(".items") else "object fields"
            found.required(f"{field}.type", f"must not be empty for specified {what}")
    elif kind not in TYPES:
        found.unsupported(f"{field}.type", kind, TYPES)
    elif schema.get("x-kubernetes-int-or-string"):
        found.invalid(f"{field}.type", kind, "must be empty if x-kubernetes-int-or-string is true")
    for name in _UNSUPPORTED:
        if name in schema:
            found.forbidden(f"{field}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        found.forbidden(f"{field}.uniqueItems", "uniqueItems cannot be set to true, it costs quadratic time")
    if schema.get("properties") and schema.get("additionalProperties"):
        found.forbidden(f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if schema.get("additionalProperties") is False:
        found.forbidden(f"{field}.additionalProperties", "additionalProperties cannot be set to false")
    if isinstance(schema.get("items"), list):
        found.forbidden(f"{field}.items", "items must be a schema object and not an array")
    elif kind == "array" and not schema.get("items"):
        found.required(f"{field}.items", "must be specified")
    if free is False:
        found.invalid(f"{field}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource"):
        _check_embedded(schema, field, found)
    _check_pattern(schema, field, found)
    _check_list_type(schema, field, found)
    _check_junctor_levels(schema, field, found)
    _check_rules(schema, field, found)


def _check_embedded(schema: Document, field: str, found: Findings) -> None:
    if schema.get("type") not in (None, "object"):
        why = "must be object if x-kubernetes-embedded-resource is true"
        found.invalid(f"{field}.type", schema["type"], why)
    if schema.get("additionalProperties"):
        why = "must not be used if x-kubernetes-embedded-resource is set"
        found.forbidden(f"{field}.additionalProperties", why)
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        why = "must not be empty where an embedded resource does not preserve unknown fields"
        found.required(f"{field}.properties", why)


def _check_pattern(schema: Document, field: str, found: Findings) -> None:
    try:
        re.compile(schema.get("pattern") or "")
    except re.error as error:
        found.invalid(f"{field}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}")


def _check_list_type(schema: Document, field: str, found: Findings) -> None:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if keys and list_type != "map":
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        found.invalid(f"{field}.x-kubernetes-list-type", list_type or "", why)
    if schema.get("x-kubernetes-map-type") not in (None, "atomic", "granular"):
        found.unsupported(f"{field}.x-kubernetes-map-type", schema["x-kubernetes-map-type"], ("atomic", "granular"))
    if list_type is None:
        return
    if list_type not in ("atomic", "set", "map"):
        found.unsupported(f"{field}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if schema.get("type") != "array":
        found.invalid(f"{field}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    if list_type == "map":
        _check_map_keys(schema.get("items") or {}, keys or [], field, found)


def _check_map_keys(items: Document, keys: list[str], field: str, found: Findings) -> None:
    if not keys:
        found.required(f"{field}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        found.invalid(f"{field}.items.type", items.get("type", ""), why)
    properties = items.get("properties") or {}
    for key in keys:
        child = properties.get(key)
        where = f"{field}.items.properties[{key}]"
        if child is None:
            found.invalid(f"{field}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
        elif child.get("type") in ("array", "object"):
            found.invalid(
                f"{where}.type", child["type"], "must be a scalar type if parent array's x-kubernetes-list-type is map"
            )
        elif "default" not in child and key not in (items.get("required") or ()):
            found.required(f"{where}.default", "a list-map-key must have a default or be a required property")


def _check_junctor_levels(schema: Document, field: str, found: Findings) -> None:
    """Below allOf, anyOf, oneOf and not only value checks may stand; at the root, only for properties it has itself."""
    root = field.endswith("openAPIV3Schema")
    for name in _JUNCTORS:
        for index, each in enumerate(schema.get(name) or ()):
            if not (schema.get("x-kubernetes-int-or-string") and each in _INT_OR_STRING):
                _check_below_junctor(each, schema, f"{field}.{name}[{index}]", found)
                if root:
                    _check_complete(each, schema, field, f"{field}.{name}[{index}]", found)
    if schema.get("not"):
        _check_below_junctor(schema["not"], schema, f"{field}.not", found)


def _check_below_junctor(schema: Document, outside: Document, field: str, found: Findings) -> None:
    integer_or_string = outside.get("x-kubernetes-int-or-string")
    for name in _NOT_IN_JUNCTORS:
        if schema.get(name) and not (name == "type" and integer_or_string):
            found.forbidden(f"{field}.{name}", "must be empty to be structural")
    for name, child in (schema.get("properties") or {}).items():
        outer = (outside.get("properties") or {}).get(name) or {}
        _check_below_junctor(child, outer, f"{field}.properties[{name}]", found)
    if isinstance(schema.get("items"), dict):
        _check_below_junctor(schema["items"], outside.get("items") or {}, f"{field}.items", found)


def _check_complete(schema: Document, outside: Document, field: str, inner: str, found: Findings) -> None:
    for name, child in (schema.get("properties") or {}).items():
        outer = (outside.get("properties") or {}).get(name)
        where, source = f"{field}.properties[{name}]", f"{inner}.properties[{name}]"
        if outer is None:
            found.required(where, f"because it is defined in {source}")
        else:
            _check_complete(child, outer, where, source, found)


def _check_rules(schema: Document, field: str, found: Findings) -> None:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        text = rule.get("rule") or ""
        where = f"{field}.x-kubernetes-validations[{index}].rule"
        if not text:
            found.required(where, "rule is not specified")
        elif text.strip() not in KNOWN_RULES:
            known = ", ".join(repr(each) for each in KNOWN_RULES)
            found.invalid(where, text, f"this server does not evaluate this CEL rule; the rules it knows are: {known}")


def _check_defaults(node: SchemaNode, field: str, found: Findings) -> None:
    """A default must itself be valid."""
    below = [(f"{field}.properties[{name}]", child) for name, child in node.properties.items()]
    below += [
        (f"{field}.{name}", child)
        for name, child in (("items", node.items), ("additionalProperties", node.additional))
        if child
    ]
    for where, child in below:
        if child.default is not MISSING:
            trial = Findings()
            check_value(child.default, MISSING, child, "", trial)
            found.causes += [
                StatusCause(reason=cause.reason, message=cause.message, field=f"{where}.default")
                for cause in trial.causes
            ]
        _check_defaults(child, where, found)
