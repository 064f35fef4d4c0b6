"""CustomResourceDefinitions of our four kinds, generated from the Structs that read them.

In: only the types. Out: documents that kube-apiserver accepts: structural OpenAPI v3 schemas with
enumerations, formats and list-map keys, a status subresource, printer columns and short names. There are no defaults:
where a value is left out, a configuration decides later, and the object must not claim otherwise.

Parts that users write have the fields that we read and those that upstream has besides: an API server reports any other
field as a mistake. Unknown fields are kept, not pruned, in parts that other programs write: the status of Queue,
PodGroup and PodMigrationJob. In pod templates the known levels (template, spec, containers, resources) are closed,
because a misspelt request would reserve nothing and a misspelt constraint would be ignored; below them unknown fields
are kept.
"""

from __future__ import annotations

import copy
from typing import Any

from msgspec import inspect

from restow.model.crd_descriptions import FIELDS
from restow.model.kinds import OWN_KINDS, POD_GROUP, POD_MIGRATION_JOB, QUEUE, RESERVATION, Kind
from restow.model.objects import (
    ENDED,
    Container,
    DeleteOptions,
    JobPhase,
    ObjectMeta,
    PodGroupSpec,
    PodMigrationJobSpec,
    PodSpec,
    PodTemplate,
    QueueSpec,
    ResourceRequirements,
    TaskSpec,
)
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION

Schema = dict[str, Any]

QUANTITY_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE](\+?0*(1000|[0-9]{1,3})|-[0-9]+))?$"
"""The texts that `Quantity` parses; it sets no limit to negative exponents."""
_KEEP_UNKNOWN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_FOREIGN_KINDS = (QUEUE, POD_GROUP, POD_MIGRATION_JOB)
_OTHERS: dict[type[Any], tuple[str, ...]] = {
    QueueSpec: ("affinity", "dequeueStrategy", "extendClusters", "type"),
    PodGroupSpec: ("networkTopology", "subGroupPolicy"),
    PodMigrationJobSpec: (),
    DeleteOptions: ("apiVersion", "kind"),
    TaskSpec: ("dependsOn", "maxRetry", "minAvailable", "partitionPolicy", "policies", "topologyPolicy"),
    PodTemplate: (),
    PodSpec: (
        *("automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases", "hostIPC"),
        *("hostPID", "hostnameOverride", "imagePullSecrets", "readinessGates", "securityContext", "serviceAccount"),
        *("serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace"),
    ),
    Container: (
        *("args", "command", "env", "envFrom", "imagePullPolicy", "lifecycle", "livenessProbe", "readinessProbe"),
        *("resizePolicy", "securityContext", "startupProbe", "stdin", "stdinOnce", "targetContainerName"),
        *("terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir"),
    ),
    ResourceRequirements: (),
}
"""Structs that users write, with the fields that upstream has besides ours; the content of those fields is kept."""


def _annotation(name: str) -> str:
    """The path of an annotation, in which dots of its name are no steps."""
    return ".metadata.annotations." + name.replace(".", r"\.")


def _immutable_presence_rule(name: str) -> str:
    """The rule that a field cannot be removed once it is set."""
    return f"!has(oldSelf.{name}) || has(self.{name})"


_SATISFIED = '.status.conditions[?(@.type=="GuaranteeSatisfied")]'
_COLUMNS: dict[str, list[tuple[str, str, str]]] = {
    RESERVATION.kind: [
        ("Phase", "string", ".status.state.phase"),
        ("Reason", "string", ".status.state.reason"),
        ("Min", "integer", ".status.minAvailable"),
        ("Pending", "integer", ".status.pending"),
        ("Available", "integer", ".status.available"),
        ("Succeeded", "integer", ".status.succeeded"),
        ("Failed", "integer", ".status.failed"),
        ("Owner", "string", ".status.currentOwner.name"),
        ("Queue", "string", ".spec.queue"),
        ("TTL", "string", ".spec.ttl"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ],
    QUEUE.kind: [
        ("State", "string", ".status.state"),
        ("Weight", "integer", ".spec.weight"),
        ("Parent", "string", ".spec.parent"),
        ("Guarantee", "string", _SATISFIED + ".reason"),
        ("Running", "integer", ".status.running"),
        ("Pending", "integer", ".status.pending"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ],
    POD_GROUP.kind: [
        ("Phase", "string", ".status.phase"),
        ("MinMember", "integer", ".spec.minMember"),
        ("Running", "integer", ".status.running"),
        ("Queue", "string", ".spec.queue"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ],
    POD_MIGRATION_JOB.kind: [
        ("Phase", "string", ".status.phase"),
        ("PodNamespace", "string", ".spec.podRef.namespace"),
        ("Pod", "string", ".spec.podRef.name"),
        ("From", "string", _annotation(MOVED_FROM_ANNOTATION)),
        ("To", "string", ".status.nodeName"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Message", "string", ".status.message"),
    ],
}
_WIDE: dict[str, list[tuple[str, str, str]]] = {
    RESERVATION.kind: [("Message", "string", ".status.state.message")],
    QUEUE.kind: [
        ("Nodes", "string", ".status.reservation.nodes"),
        ("Message", "string", _SATISFIED + ".message"),
    ],
    POD_MIGRATION_JOB.kind: [
        ("Reason", "string", ".status.reason"),
        ("NewPod", "string", ".status.podRef.name"),
        ("Mode", "string", ".spec.mode"),
        ("Reservation", "string", ".spec.reservationOptions.reservationRef.name"),
        ("TTL", "string", ".spec.ttl"),
    ],
}
"""Behind the others, for `-o wide` only."""

_SAME = "self == oldSelf"
_ENDS = [str(phase.value) for phase in JobPhase if phase in ENDED]
_RULES: dict[str, list[tuple[str, str, str]]] = {
    POD_MIGRATION_JOB.kind: [
        ("spec.podRef.namespace", _SAME, "the pod of a job is immutable; create another job"),
        ("spec.podRef.name", _SAME, "the pod of a job is immutable; create another job"),
        ("spec.podRef.uid", f"oldSelf == '' || {_SAME}", "the pod of a job is immutable; create another job"),
        ("spec.podRef", _immutable_presence_rule("uid"), "uid cannot be removed; create another job"),
        ("spec.mode", _SAME, "mode is immutable; create another job"),
        ("spec", _immutable_presence_rule("mode"), "mode cannot be removed; create another job"),
        (
            "status.phase",
            f"!(oldSelf in {_ENDS}) || {_SAME}",
            "the phase of an ended job is immutable; create another job",
        ),
    ],
}
"""Fields that are immutable once they are set: the job was admitted for this pod and this mode."""


def custom_resource_definitions() -> list[dict[str, Any]]:
    """The four CRDs as documents, in the order they are best installed."""
    return [custom_resource_definition(kind) for kind in OWN_KINDS]


def custom_resource_definition(kind: Kind[Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified_name, "labels": {"app.kubernetes.io/part-of": "restow"}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "shortNames": list(kind.short_names),
                "categories": list(kind.categories),
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object_schema(kind)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(kind),
                }
            ],
        },
    }


def _columns(kind: Kind[Any]) -> list[Schema]:
    always = [{"name": name, "type": type, "jsonPath": path} for name, type, path in _COLUMNS[kind.kind]]
    more = _WIDE.get(kind.kind, [])
    return always + [{"name": name, "type": type, "jsonPath": path, "priority": 1} for name, type, path in more]


def _object_schema(kind: Kind[Any]) -> Schema:
    members = _members(kind.type)
    keep = kind in _FOREIGN_KINDS
    properties: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    for member in members:
        if member.name != "metadata":
            properties[member.encode_name] = _schema(member.type, keep=keep, template=False)
    required = [member.encode_name for member in members if member.required]
    schema = {"type": "object", "properties": properties, **_required(required)}
    for path, rule, message in _RULES.get(kind.kind, ()):
        _schema_at(schema, path).setdefault("x-kubernetes-validations", []).append({"rule": rule, "message": message})
    for section, texts in FIELDS[kind.kind].items():
        for path, text in texts.items():
            _schema_at(schema, f"{section}.{path}".rstrip("."))["description"] = text
    return _with_description(kind.type, schema)


def _schema_at(schema: Schema, path: str) -> Schema:
    """The schema of a field; those of a list's items are its own."""
    for name in path.split("."):
        schema = schema.get("items", schema)["properties"][name]
    return schema


def _members(type: type[Any]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(type)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{type} is not a Struct")
    return info.fields


def _schema(info: inspect.Type, *, keep: bool, template: bool) -> Schema:
    """The structural schema of one type; `keep` keeps unknown fields, `template` accepts what built-in types accept."""
    extra: Schema = {}
    given: Schema = {}
    while isinstance(info, inspect.Metadata):
        extra |= info.extra or {}
        given |= info.extra_json_schema or {}
        info = info.type
    if isinstance(info, inspect.UnionType) and any(isinstance(option, inspect.NoneType) for option in info.types):
        return _optional_schema(info, keep=keep, template=template)
    schema = _schema_of_format(extra.get("format"), template) or _plain_schema(info, keep=keep, template=template)
    if "list_map_keys" in extra:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*extra["list_map_keys"]]}
        schema["items"]["required"] = sorted({*schema["items"].get("required", ()), *extra["list_map_keys"]})
    return schema | copy.deepcopy(given)


def _optional_schema(info: inspect.UnionType, *, keep: bool, template: bool) -> Schema:
    """A pointer, list or map that may be null. An enumeration may not: API servers compare null with its values."""
    rest = [option for option in info.types if not isinstance(option, inspect.NoneType)]
    schema = _schema(rest[0] if len(rest) == 1 else inspect.UnionType(tuple(rest)), keep=keep, template=template)
    return schema if "enum" in schema else schema | {"nullable": True}


def _schema_of_format(format_name: str | None, template: bool) -> Schema | None:
    match format_name:
        case "quantity" if template:
            return {**_KEEP_UNKNOWN, "pattern": QUANTITY_PATTERN}
        case "quantity":
            return {**_int_or_string(), "pattern": QUANTITY_PATTERN}
        case "int-or-string":
            return _int_or_string()
        case "date-time" | "duration":
            return {"type": "string", "format": format_name}
        case "int32":
            return {"type": "integer", "format": "int32"}
        case _:
            return None


def _int_or_string() -> Schema:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _plain_schema(info: inspect.Type, *, keep: bool, template: bool) -> Schema:
    match info:
        case inspect.StructType():
            return _struct_schema(info, keep=keep, template=template)
        case inspect.ListType():
            return {"type": "array", "items": _schema(info.item_type, keep=keep, template=template)}
        case inspect.DictType():
            values = _schema(info.value_type, keep=keep, template=template)
            return {"type": "object", "additionalProperties": values}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int64"}
        case inspect.FloatType():
            return {"type": "number", "format": "double"}
        case _:
            raise TypeError(f"no schema for {info}")


def _struct_schema(info: inspect.StructType, *, keep: bool, template: bool) -> Schema:
    if info.cls is ObjectMeta:
        return {"type": "object", **_KEEP_UNKNOWN}
    closed = info.cls in _OTHERS
    template = template or info.cls is PodTemplate
    keep = template or (keep and not closed)
    schema: Schema = {"type": "object"}
    if info.fields:
        ours = {member.encode_name: _schema(member.type, keep=keep, template=template) for member in info.fields}
        schema["properties"] = {name: dict(_KEEP_UNKNOWN) for name in _OTHERS.get(info.cls, ())} | ours
    schema |= _required([member.encode_name for member in info.fields if member.required])
    return _with_description(info.cls, schema | _KEEP_UNKNOWN if keep and not closed else schema)


def _required(names: list[str]) -> Schema:
    return {"required": sorted(names)} if names else {}


def _with_description(type: type[Any], schema: Schema) -> Schema:
    """With the first sentences of the Struct's docstring, for `kubectl explain`."""
    text = (type.__doc__ or "").split("\n\n")[0]
    return {"description": " ".join(text.split()), **schema} if text else schema
