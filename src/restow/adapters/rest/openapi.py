"""OpenAPI v3: an index of group versions and one document for each.

In: the served `ResourceType`s. Out: encoded documents with their hashes. kubectl reads three things from them: that a
kind can be patched with field validation by the server, which kind a path serves, and the fields that `kubectl explain`
prints. Custom resources have the schema of their definition; built-in kinds the names and types of their fields, as far
as the protobuf tables know them. Strategic merge patches are not offered here, because merge keys are not in these
schemas and kubectl has its own for built-in kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from restow.adapters.memory.resources import ResourceType
from restow.adapters.rest.discovery import served_groups
from restow.adapters.rest.protobuf import SPECIAL
from restow.adapters.rest.protobuf_fields import ProtobufField, message_name, message_tables
from restow.adapters.rest.unchecked_documents import mapping
from restow.model.objects import Document
from restow.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

GVK = "x-kubernetes-group-version-kind"
REFERENCE = "#/components/schemas/"

SCALARS: dict[str, Document] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "uint32": {"type": "integer", "format": "int64"},
    "uint64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "resource.Quantity": {"type": "string"},
    "util.intstr.IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "meta.v1.Time": {"type": "string", "format": "date-time"},
    "meta.v1.MicroTime": {"type": "string", "format": "date-time"},
    "meta.v1.FieldsV1": {"type": "object"},
    "runtime.RawExtension": {"type": "object"},
}
STRINGS: Document = {"type": "array", "items": {"type": "string"}}
TYPE_META: Document = {
    "apiVersion": {"type": "string", "description": "The group and version this object is written in."},
    "kind": {"type": "string", "description": "The kind of this object."},
}


class Documents:
    """The documents of the resources served now. Encoded once, until the resources of a group version change."""

    def __init__(self) -> None:
        self._encoded: dict[str, tuple[list[ResourceType], bytes, str]] = {}

    def index(self, types: Iterable[ResourceType]) -> Document:
        """`/openapi/v3`"""
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._encode(path, served)[1]}"}
            for path, served in _by_path(types).items()
        }
        return {"paths": paths}

    def document(self, types: Iterable[ResourceType], path: str) -> tuple[bytes, str] | None:
        """`/openapi/v3/{path}` and its hash."""
        served = _by_path(types).get(path)
        return self._encode(path, served) if served else None

    def _encode(self, path: str, served: list[ResourceType]) -> tuple[bytes, str]:
        known = self._encoded.get(path)
        if (
            known is None
            or len(known[0]) != len(served)
            or any(a is not b for a, b in zip(known[0], served, strict=True))
        ):
            data = msgspec.json.encode(_document(path, served))
            known = served, data, hashlib.sha256(data).hexdigest().upper()
            self._encoded[path] = known
        return known[1], known[2]


def _by_path(types: Iterable[ResourceType]) -> dict[str, list[ResourceType]]:
    return {
        f"apis/{group}/{version}" if group else f"api/{version}": served
        for group, versions in served_groups(types).items()
        for version, served in versions.items()
    }


def _document(path: str, served: list[ResourceType]) -> Document:
    schemas: Document = {}
    paths: Document = {}
    for each in served:
        paths.update(_paths(path, each))
        schemas[_schema_name(each)] = _schema(each, schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Restow embedded cluster", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _kind_extension(served: ResourceType) -> Document:
    return {"group": served.group, "version": served.version, "kind": served.kind}


def _schema_name(served: ResourceType) -> str:
    """The group backwards, as upstream names schemas: sh.volcano.batch.v1alpha1.Reservation."""
    group = ".".join(reversed(served.group.split("."))) if served.group else "core"
    return f"{group}.{served.version}.{served.kind}"


# --- paths ---------------------------------------------------------------------------------------------------------


def _paths(path: str, served: ResourceType) -> Document:
    scope = "/namespaces/{namespace}" if served.namespaced else ""
    collection = f"/{path}{scope}/{served.plural}"
    operations = {"get": _operation(served, "list"), "post": _operation(served, "post")}
    item = {"get": _operation(served, "get"), "patch": _patch(served)}
    return {collection: operations, collection + "/{name}": item}


def _operation(served: ResourceType, action: str) -> Document:
    answer = {
        "description": "OK",
        "content": {"application/json": {"schema": {"$ref": REFERENCE + _schema_name(served)}}},
    }
    return {
        "operationId": f"{action}{served.group}{served.version}{served.kind}",
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        GVK: _kind_extension(served),
    }


def _patch(served: ResourceType) -> Document:
    content = {media_type: {"schema": {"type": "object"}} for media_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)}
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    return {**_operation(served, "patch"), "parameters": parameters, "requestBody": {"content": content}}


# --- schemas -------------------------------------------------------------------------------------------------------


def _schema(served: ResourceType, schemas: Document) -> Document:
    if served.definition is not None:
        schema = mapping(served.definition, "schema", "openAPIV3Schema")
    elif (name := message_name(served.api_version, served.kind)) is not None:
        schema = _message_schema(name, schemas)
    else:
        schema = {}
    properties = {**TYPE_META, "metadata": _type_schema("meta.v1.ObjectMeta", schemas), **mapping(schema, "properties")}
    return {"type": "object", **schema, "properties": properties, GVK: [_kind_extension(served)]}


def _message_schema(name: str, schemas: Document) -> Document:
    properties: Document = {}
    for field in message_tables()[name].values():
        if field.inline:
            properties.update(_message_schema(field.type, schemas)["properties"])
        else:
            properties[field.name] = _field_schema(field, schemas)
    return {"type": "object", "properties": properties}


def _field_schema(field: ProtobufField, schemas: Document) -> Document:
    schema = _type_schema(field.type, schemas)
    if field.shape == "list":
        return {"type": "array", "items": schema}
    return {"type": "object", "additionalProperties": schema} if field.shape == "map" else schema


def _type_schema(type_name: str, schemas: Document) -> Document:
    if type_name in SCALARS:
        return SCALARS[type_name]
    if type_name in SPECIAL:
        return STRINGS
    if type_name not in schemas:
        schemas[type_name] = {}  # claims the name, for messages that contain themselves
        schemas[type_name] = _message_schema(type_name, schemas)
    return {"$ref": REFERENCE + type_name}
