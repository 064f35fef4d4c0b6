"""The parts of requests: resource paths, selectors, query parameters, and bodies of writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from restow.model.kinds import Kind
from restow.model.objects import Document
from restow.ports import JSON_PATCH, Resource

Selector = str | Mapping[str, str] | None
Propagation = Literal["Foreground", "Background", "Orphan"]


def resource_of(kind: Kind[Any]) -> Resource:
    return Resource(kind.group, kind.version, kind.plural)


def selector_text(selector: Selector) -> str | None:
    """A selector as text; a mapping means equality of every entry."""
    if selector is None or isinstance(selector, str):
        return selector or None
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or None


def query_of(**parameters: str | int | bool | None) -> dict[str, str]:
    """Query parameters as strings, without those that are None or False."""
    texts: dict[str, str] = {}
    for key, value in parameters.items():
        if value is None or value is False:
            continue
        texts[key] = "true" if value is True else str(value)
    return texts


def dry(dry_run: bool) -> str | None:
    return "All" if dry_run else None


def complete(kind: Kind[Any], document: Mapping[str, Any]) -> Document:
    """The document with apiVersion and kind added."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **document}


def namespace_of(document: Document) -> str | None:
    namespace: str | None = document["metadata"].get("namespace")
    return namespace


def delete_options(
    uid: str | None, resource_version: str | None, grace_seconds: int | None, propagation: Propagation | None
) -> Document:
    options: Document = {}
    preconditions = {
        key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value is not None
    }
    if preconditions:
        options["preconditions"] = preconditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation is not None:
        options["propagationPolicy"] = propagation
    return options


def guarded(
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]], type: str, resource_version: str | None
) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
    """The patch with a precondition on the resourceVersion; the server answers Conflict if the object has another."""
    if resource_version is None:
        return patch
    if type == JSON_PATCH:
        operations = cast("Sequence[Mapping[str, Any]]", patch)
        guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}
        return [guard, *operations]
    changes = cast("Mapping[str, Any]", patch)
    return {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": resource_version}}
