"""A structural schema, compiled: one node per level, with what its keywords mean worked out once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>", "__bool__": lambda self: False})()


class SchemaNode:
    """One level of a schema. Junctors (allOf, anyOf, oneOf, not) hold nodes that only add checks to this level."""

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "atomic",
        "default",
        "embedded",
        "enum",
        "excluded",
        "format",
        "holds_defaults",
        "int_or_string",
        "items",
        "keys",
        "limits",
        "list_type",
        "nullable",
        "one_of",
        "pattern",
        "preserves",
        "properties",
        "required",
        "rules",
        "type",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.type: str = schema.get("type", "")
        self.nullable: bool = schema.get("nullable", False)
        self.default: Any = schema.get("default", MISSING)
        self.int_or_string: bool = schema.get("x-kubernetes-int-or-string", False)
        self.embedded: bool = schema.get("x-kubernetes-embedded-resource", False)
        self.preserves: bool = schema.get("x-kubernetes-preserve-unknown-fields", False)
        self.atomic: bool = schema.get("x-kubernetes-map-type") == "atomic"
        self.list_type: str = schema.get("x-kubernetes-list-type", "atomic")
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.required: tuple[str, ...] = tuple(schema.get("required") or ())
        self.enum: list[Any] | None = schema.get("enum")
        self.pattern: re.Pattern[str] | None = re.compile(schema["pattern"]) if schema.get("pattern") else None
        self.format: str = schema.get("format", "")
        self.limits: dict[str, Any] = {name: schema[name] for name in _LIMITS if schema.get(name) is not None}
        self.properties: dict[str, SchemaNode] = {
            name: SchemaNode(child) for name, child in (schema.get("properties") or {}).items()
        }
        self.items: SchemaNode | None = SchemaNode(schema["items"]) if isinstance(schema.get("items"), dict) else None
        self.additional: SchemaNode | None = _additional(schema.get("additionalProperties"))
        self.all_of: list[SchemaNode] = [SchemaNode(each) for each in schema.get("allOf") or ()]
        self.any_of: list[SchemaNode] = [SchemaNode(each) for each in schema.get("anyOf") or ()]
        self.one_of: list[SchemaNode] = [SchemaNode(each) for each in schema.get("oneOf") or ()]
        self.excluded: SchemaNode | None = SchemaNode(schema["not"]) if schema.get("not") else None
        self.rules: tuple[Mapping[str, Any], ...] = tuple(schema.get("x-kubernetes-validations") or ())
        below = [*self.properties.values(), *(each for each in (self.items, self.additional) if each)]
        self.holds_defaults: bool = any(each.default is not MISSING or each.holds_defaults for each in below)


_LIMITS = (
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)


def _additional(schema: Any) -> SchemaNode | None:
    """`true` admits anything, a schema admits what it describes, absence or `false` nothing."""
    if schema is True:
        return SchemaNode({"x-kubernetes-preserve-unknown-fields": True})
    return SchemaNode(schema) if isinstance(schema, dict) else None


ANYTHING = SchemaNode({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
