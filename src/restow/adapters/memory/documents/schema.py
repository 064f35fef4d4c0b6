"""Custom resources: what the schema of a CustomResourceDefinition says about documents.

In: one entry of `spec.versions`, compiled once. Out: `prune`, `apply_defaults`, `validate` and `unknown_fields` for
documents of that version, and `merge`, how they merge in server-side apply. `validate_definition` decides whether a
definition can be served at all; see `definition_rules`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from restow.adapters.memory.documents.definition_rules import validate_definition
from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.merge_types import DEDUCED, METADATA, SCALAR, MergeTypes
from restow.adapters.memory.documents.metadata_rules import check_metadata, check_metadata_update
from restow.adapters.memory.documents.schema_fast_path import compile_fast_resource_check
from restow.adapters.memory.documents.schema_nodes import ANYTHING, MISSING, SchemaNode
from restow.adapters.memory.documents.schema_rules import check_value
from restow.model.objects import Document
from restow.ports import StatusCause

__all__ = ["CustomSchema", "validate_definition"]

_IMPLICIT = ("apiVersion", "kind", "metadata")


class CustomSchema:
    """One version's compiled schema."""

    def __init__(self, root: SchemaNode) -> None:
        self.root = root
        self.merge = _root_merge(root)
        self._is_settled = compile_fast_resource_check(root, _IMPLICIT)

    @classmethod
    def compile(cls, crd_version: dict[str, Any]) -> CustomSchema:
        """Compile one entry of spec.versions; without a schema everything is preserved and nothing checked."""
        schema = (crd_version.get("schema") or {}).get("openAPIV3Schema")
        return _compiled(msgspec.json.encode(schema)) if schema else cls(ANYTHING)

    def prune(self, doc: Document) -> list[str]:
        """Drop, in place, what the schema does not know; returns what that was, as `unknown_fields` does."""
        return self._find_unknown(doc, drop=True)

    def unknown_fields(self, doc: Document) -> list[str]:
        """`unknown field "spec.x"` for every field `prune` would drop; the document is left alone."""
        return self._find_unknown(doc, drop=False)

    def _find_unknown(self, doc: Document, *, drop: bool) -> list[str]:
        unknown: list[str] = []
        if self._is_settled(doc):
            _prune_metadata(doc["metadata"], "metadata", unknown, drop)
        else:
            _prune_object(doc, self.root, "", unknown, resource=True, drop=drop)
        return unknown

    def apply_defaults(self, doc: Document) -> None:
        """Set, in place, the schema's defaults where nothing is."""
        if not self._is_settled(doc):
            _default(doc, self.root, skip=_IMPLICIT)

    def validate(self, doc: Document, old: Document | None) -> list[StatusCause]:
        """Every violation with its path; parts an update leaves as they were are not held against it."""
        errors = FieldErrors()
        metadata = doc["metadata"]
        if old is None or metadata != old["metadata"]:
            check_metadata(metadata, errors, group="", kind="")
            if old is not None:
                check_metadata_update(metadata, old["metadata"], errors)
        if not self._is_settled(doc):
            check_value(doc, MISSING if old is None else old, self.root, "", errors)
        return errors.causes


# --- pruning ---


def _prune_object(
    value: Document, node: SchemaNode, path: str, unknown: list[str], *, resource: bool = False, drop: bool = True
) -> None:
    for name in list(value):
        place = f"{path}.{name}" if path else name
        if resource and name in _IMPLICIT:
            if name == "metadata" and isinstance(value[name], dict):
                _prune_metadata(value[name], place, unknown, drop)
        elif name in node.properties:
            _prune(value[name], node.properties[name], place, unknown, drop)
        elif node.additional is not None:
            _prune(value[name], node.additional, place, unknown, drop)
        elif not node.preserves:
            unknown.append(f'unknown field "{place}"')
            if drop:
                del value[name]


def _prune_metadata(metadata: Document, path: str, unknown: list[str], drop: bool) -> None:
    for name in [each for each in metadata if each not in METADATA.fields]:
        unknown.append(f'unknown field "{path}.{name}"')
        if drop:
            del metadata[name]


def _prune(value: Any, node: SchemaNode, path: str, unknown: list[str], drop: bool) -> None:
    if isinstance(value, dict):
        _prune_object(value, node, path, unknown, resource=node.embedded, drop=drop)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _prune(item, node.items, f"{path}[{index}]", unknown, drop)


# --- defaulting ---


def _default(value: Any, node: SchemaNode, skip: tuple[str, ...] = ()) -> None:
    """Defaults where nothing is; a null where none may be counts as nothing."""
    if isinstance(value, dict):
        for name in [each for each, member in value.items() if member is None and each not in skip]:
            child = node.properties.get(name, node.additional)
            if child is not None and not child.nullable:
                del value[name]
        if node.holds_defaults:
            for name, child in node.properties.items():
                if child.default is not MISSING and name not in value and name not in skip:
                    value[name] = _copied(child.default)
        for name, member in value.items():
            below = node.properties.get(name, node.additional)
            if below is not None and name not in skip:
                _default(member, below)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            _default(item, node.items)


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, dict | list) else value


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> CustomSchema:
    """Kept by what the schema says, because many simulated clusters begin with the same definitions."""
    return CustomSchema(SchemaNode(msgspec.json.decode(schema)))


# --- merging ---


def _root_merge(root: SchemaNode) -> MergeTypes:
    fields = {name: _merge(child) for name, child in root.properties.items()}
    fields |= {"apiVersion": SCALAR, "kind": SCALAR, "metadata": METADATA}
    return MergeTypes("struct", fields=fields, element=DEDUCED if root.preserves else None)


def _merge(node: SchemaNode) -> MergeTypes:
    if node.int_or_string:
        return SCALAR
    if node.type == "array":
        return _merge_list(node)
    if node.type != "object":
        return SCALAR if node.type else DEDUCED
    if node.additional is not None:
        return MergeTypes("map", element=_merge(node.additional), atomic=node.atomic)
    if node.embedded:
        return MergeTypes("struct", fields=_root_merge(node).fields, element=DEDUCED, atomic=node.atomic)
    fields = {name: _merge(child) for name, child in node.properties.items()}
    if not fields:
        return MergeTypes("map", element=DEDUCED, atomic=node.atomic)
    return MergeTypes("struct", fields=fields, element=DEDUCED if node.preserves else None, atomic=node.atomic)


def _merge_list(node: SchemaNode) -> MergeTypes:
    item = _merge(node.items) if node.items is not None else DEDUCED
    if node.list_type == "map" and node.items is not None:
        defaults = {
            key: child.default
            for key, child in node.items.properties.items()
            if key in node.keys and child.default is not MISSING
        }
        return MergeTypes("list", element=item, keys=node.keys, key_defaults=defaults)
    return MergeTypes("list", element=item, atomic=node.list_type != "set")
