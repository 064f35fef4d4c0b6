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

from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.metadata_rules import resource_name_problems
from restow.adapters.memory.documents.schema_nodes import MISSING, SchemaNode
from restow.adapters.memory.documents.schema_rules import KNOWN_RULES, check_value
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
    errors = FieldErrors()
    spec = crd.get("spec") or {}
    _check_names(crd, spec, errors)
    _check_versions(spec, errors)
    conversion = spec.get("conversion") or {}
    strategy = conversion.get("strategy", "None")
    if strategy == "Webhook":
        errors.invalid(
            "spec.conversion.strategy", strategy, "this server converts without webhooks; only None is served"
        )
    elif strategy != "None":
        errors.unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if spec.get("preserveUnknownFields"):
        errors.invalid(
            "spec.preserveUnknownFields", True, "cannot set to true, set x-kubernetes-preserve-unknown-fields"
        )
    return errors.causes


def _check_names(crd: Document, spec: Document, errors: FieldErrors) -> None:
    group, names = spec.get("group"), spec.get("names") or {}
    _check_group(group, errors)
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        if spec.get("scope"):
            errors.unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
        else:
            errors.required("spec.scope")
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name)
        if not value:
            errors.required(f"spec.names.{name}")
        elif problems := resource_name_problems(value.lower() if name.endswith("ind") else value):
            errors.all_invalid(f"spec.names.{name}", value, problems)
    for name in ("shortNames", "categories"):
        for index, value in enumerate(names.get(name) or ()):
            errors.all_invalid(f"spec.names.{name}[{index}]", value, resource_name_problems(value))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        errors.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    expected = f"{names.get('plural', '')}.{group or ''}"
    name = crd["metadata"].get("name")
    if name and name != expected:
        errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _check_group(group: str | None, errors: FieldErrors) -> None:
    if not group:
        errors.required("spec.group")
    elif problems := subdomain_problems(group):
        errors.all_invalid("spec.group", group, problems)
    elif "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_versions(spec: Document, errors: FieldErrors) -> None:
    versions = spec.get("versions") or []
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        errors.invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.invalid("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        if problems := resource_name_problems(version.get("name") or ""):
            errors.all_invalid(f"spec.versions[{index}].name", version.get("name") or "", problems)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
    for member, top, check in (
        ("schema", "spec.validation", _check_schema),
        ("additionalPrinterColumns", "spec.additionalPrinterColumns", _check_columns),
        ("subresources", "spec.subresources", _check_subresources),
    ):
        for field, value in _shared_by_versions(versions, member, top):
            if value:
                check(value, field, errors)


def _shared_by_versions(versions: list[Document], member: str, top: str) -> Iterator[tuple[str, Any]]:
    """What all versions share is named as one, at the place upstream keeps it in."""
    values = [version.get(member) for version in versions]
    if values and all(value == values[0] for value in values):
        yield top, values[0]
    else:
        yield from ((f"spec.versions[{index}].{member}", value) for index, value in enumerate(values))


def _check_schema(schema: Document, field: str, errors: FieldErrors) -> None:
    if schema.get("openAPIV3Schema"):
        errors.causes.extend(_schema_causes(msgspec.json.encode(schema["openAPIV3Schema"]), f"{field}.openAPIV3Schema"))


@lru_cache(maxsize=32)
def _schema_causes(written: bytes, field: str) -> tuple[StatusCause, ...]:
    """Kept by what the schema says, because many simulated clusters begin with the same definitions."""
    errors = FieldErrors()
    _check_root(msgspec.json.decode(written), field, errors)
    return tuple(errors.causes)


def _check_columns(columns: list[Document], field: str, errors: FieldErrors) -> None:
    for index, column in enumerate(columns):
        where = f"{field}[{index}]"
        if not column.get("name"):
            errors.required(f"{where}.name")
        if not column.get("jsonPath"):
            errors.required(f"{where}.JSONPath")
        if not column.get("type"):
            errors.required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column["type"] not in _COLUMN_TYPES:
            errors.invalid(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")


def _check_subresources(subresources: Document, field: str, errors: FieldErrors) -> None:
    if subresources.get("scale") is not None:
        _check_scale(subresources["scale"], f"{field}.scale", errors)


def _check_scale(scale: Document, field: str, errors: FieldErrors) -> None:
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(name) or ""
        if not path:
            errors.required(f"{field}.{name}")
        elif not path.startswith(root):
            errors.invalid(f"{field}.{name}", path, f"should be a json path under {root[:-1]}")


def _check_root(schema: Document, field: str, errors: FieldErrors) -> None:
    if schema.get("type") not in (None, "object"):
        errors.invalid(f"{field}.type", schema["type"], "must be object at the root")
    if schema.get("additionalProperties"):
        errors.forbidden(f"{field}.additionalProperties", "must not be used at the root")
    if schema.get("nullable"):
        errors.forbidden(f"{field}.nullable", "nullable cannot be true at the root")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    for name in metadata:
        if name not in ("type", "description", "properties"):
            errors.forbidden(f"{field}.properties[metadata].{name}", "must not be specified in a nested metadata")
    before = len(errors.causes)
    for place, each in _schema_levels(schema, field):
        _check_level(each, place, errors)
    if len(errors.causes) == before:
        _check_defaults(SchemaNode(schema), field, errors)


def _schema_levels(schema: Document, field: str) -> Iterator[tuple[str, Document]]:
    """Every structural level with its path: properties, items and additionalProperties, not what junctors hold."""
    yield field, schema
    for name, child in (schema.get("properties") or {}).items():
        if isinstance(child, dict):
            yield from _schema_levels(child, f"{field}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _schema_levels(schema["items"], f"{field}.items")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema_levels(schema["additionalProperties"], f"{field}.additionalProperties")


def _check_level(schema: Document, field: str, errors: FieldErrors) -> None:
    """The structural rules of one level."""
    kind, free = schema.get("type"), schema.get("x-kubernetes-preserve-unknown-fields")
    _check_type(schema, field, errors)
    for name in _UNSUPPORTED:
        if name in schema:
            errors.forbidden(f"{field}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        errors.forbidden(f"{field}.uniqueItems", "uniqueItems cannot be set to true, it costs quadratic time")
    if schema.get("properties") and schema.get("additionalProperties"):
        errors.forbidden(f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if schema.get("additionalProperties") is False:
        errors.forbidden(f"{field}.additionalProperties", "additionalProperties cannot be set to false")
    if isinstance(schema.get("items"), list):
        errors.forbidden(f"{field}.items", "items must be a schema object and not an array")
    elif kind == "array" and not schema.get("items"):
        errors.required(f"{field}.items", "must be specified")
    if free is False:
        errors.invalid(f"{field}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource"):
        _check_embedded(schema, field, errors)
    _check_pattern(schema, field, errors)
    _check_list_type(schema, field, errors)
    _check_junctor_levels(schema, field, errors)
    _check_rules(schema, field, errors)


def _check_type(schema: Document, field: str, errors: FieldErrors) -> None:
    kind = schema.get("type")
    if not kind:
        if not (schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")):
            subject = "array items" if field.endswith(".items") else "object fields"
            errors.required(f"{field}.type", f"must not be empty for specified {subject}")
    elif kind not in TYPES:
        errors.unsupported(f"{field}.type", kind, TYPES)
    elif schema.get("x-kubernetes-int-or-string"):
        errors.invalid(f"{field}.type", kind, "must be empty if x-kubernetes-int-or-string is true")


def _check_embedded(schema: Document, field: str, errors: FieldErrors) -> None:
    if schema.get("type") not in (None, "object"):
        why = "must be object if x-kubernetes-embedded-resource is true"
        errors.invalid(f"{field}.type", schema["type"], why)
    if schema.get("additionalProperties"):
        why = "must not be used if x-kubernetes-embedded-resource is set"
        errors.forbidden(f"{field}.additionalProperties", why)
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        why = "must not be empty where an embedded resource does not preserve unknown fields"
        errors.required(f"{field}.properties", why)


def _check_pattern(schema: Document, field: str, errors: FieldErrors) -> None:
    try:
        re.compile(schema.get("pattern") or "")
    except re.error as error:
        errors.invalid(f"{field}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}")


def _check_list_type(schema: Document, field: str, errors: FieldErrors) -> None:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if keys and list_type != "map":
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        errors.invalid(f"{field}.x-kubernetes-list-type", list_type or "", why)
    if schema.get("x-kubernetes-map-type") not in (None, "atomic", "granular"):
        errors.unsupported(f"{field}.x-kubernetes-map-type", schema["x-kubernetes-map-type"], ("atomic", "granular"))
    if list_type is None:
        return
    if list_type not in ("atomic", "set", "map"):
        errors.unsupported(f"{field}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if schema.get("type") != "array":
        errors.invalid(f"{field}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    if list_type == "map":
        _check_map_keys(schema.get("items") or {}, keys or [], field, errors)


def _check_map_keys(items: Document, keys: list[str], field: str, errors: FieldErrors) -> None:
    if not keys:
        errors.required(f"{field}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        errors.invalid(f"{field}.items.type", items.get("type", ""), why)
    properties = items.get("properties") or {}
    for key in keys:
        child = properties.get(key)
        where = f"{field}.items.properties[{key}]"
        if child is None:
            errors.invalid(f"{field}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
        elif child.get("type") in ("array", "object"):
            errors.invalid(
                f"{where}.type", child["type"], "must be a scalar type if parent array's x-kubernetes-list-type is map"
            )
        elif "default" not in child and key not in (items.get("required") or ()):
            errors.required(f"{where}.default", "a list-map-key must have a default or be a required property")


def _check_junctor_levels(schema: Document, field: str, errors: FieldErrors) -> None:
    """Below allOf, anyOf, oneOf and not only value checks may stand; at the root, only for properties it has itself."""
    root = field.endswith("openAPIV3Schema")
    for name in _JUNCTORS:
        for index, each in enumerate(schema.get(name) or ()):
            if not (schema.get("x-kubernetes-int-or-string") and each in _INT_OR_STRING):
                _check_below_junctor(each, schema, f"{field}.{name}[{index}]", errors)
                if root:
                    _check_complete(each, schema, field, f"{field}.{name}[{index}]", errors)
    if schema.get("not"):
        _check_below_junctor(schema["not"], schema, f"{field}.not", errors)


def _check_below_junctor(schema: Document, outside: Document, field: str, errors: FieldErrors) -> None:
    integer_or_string = outside.get("x-kubernetes-int-or-string")
    for name in _NOT_IN_JUNCTORS:
        if schema.get(name) and not (name == "type" and integer_or_string):
            errors.forbidden(f"{field}.{name}", "must be empty to be structural")
    for name, child in (schema.get("properties") or {}).items():
        outer = (outside.get("properties") or {}).get(name) or {}
        _check_below_junctor(child, outer, f"{field}.properties[{name}]", errors)
    if isinstance(schema.get("items"), dict):
        _check_below_junctor(schema["items"], outside.get("items") or {}, f"{field}.items", errors)


def _check_complete(schema: Document, outside: Document, field: str, inner: str, errors: FieldErrors) -> None:
    for name, child in (schema.get("properties") or {}).items():
        outer = (outside.get("properties") or {}).get(name)
        where, source = f"{field}.properties[{name}]", f"{inner}.properties[{name}]"
        if outer is None:
            errors.required(where, f"because it is defined in {source}")
        else:
            _check_complete(child, outer, where, source, errors)


def _check_rules(schema: Document, field: str, errors: FieldErrors) -> None:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        text = rule.get("rule") or ""
        where = f"{field}.x-kubernetes-validations[{index}].rule"
        if not text:
            errors.required(where, "rule is not specified")
        elif text.strip() not in KNOWN_RULES:
            known = ", ".join(repr(each) for each in KNOWN_RULES)
            errors.invalid(where, text, f"this server does not evaluate this CEL rule; the rules it knows are: {known}")


def _check_defaults(node: SchemaNode, field: str, errors: FieldErrors) -> None:
    """A default must itself be valid."""
    below = [(f"{field}.properties[{name}]", child) for name, child in node.properties.items()]
    below += [
        (f"{field}.{name}", child)
        for name, child in (("items", node.items), ("additionalProperties", node.additional))
        if child
    ]
    for where, child in below:
        if child.default is not MISSING:
            trial = FieldErrors()
            check_value(child.default, MISSING, child, "", trial)
            errors.causes += [
                StatusCause(reason=cause.reason, message=cause.message, field=f"{where}.default")
                for cause in trial.causes
            ]
        _check_defaults(child, where, errors)
