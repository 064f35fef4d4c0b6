"""The scale subresource: any scalable object seen as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory import errors, request_bodies, writes
from restow.adapters.memory.documents.patching import patched_document
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.adapters.memory.listing import existing_object
from restow.adapters.memory.resources import ResourceType, ScalePaths
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Stored, encode_json
from restow.model.objects import Document
from restow.model.selectors import SelectorError, label_selector
from restow.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response

_API_VERSION = "autoscaling/v1"
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get_scale(state: State, served: ResourceType, request: Request) -> Response:
    stored = existing_object(state.collection(served), served, request)
    return Response(body=encode_json(_scale(served, stored.document())))


def replace_scale(state: State, served: ResourceType, request: Request) -> Response:
    stored = existing_object(state.collection(served), served, request)
    return _write(state, served, request, stored, request_bodies.decode_body(request.body, "Scale"))


def patch_scale(state: State, served: ResourceType, request: Request) -> Response:
    stored = existing_object(state.collection(served), served, request)
    scale = _scale(served, stored.document())
    if request.content_type in (APPLY_PATCH, STRATEGIC_PATCH):  # a Scale has no lists: both are plain merges here
        wanted = patched_document(MERGE_PATCH, scale, request.body, kind="Scale", group="autoscaling")
    elif request.content_type in (JSON_PATCH, MERGE_PATCH):
        wanted = patched_document(request.content_type, scale, request.body, kind="Scale", group="autoscaling")
    else:
        raise errors.unsupported_media((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH))
    return _write(state, served, request, stored, wanted)


def _write(state: State, served: ResourceType, request: Request, stored: Stored, scale: Document) -> Response:
    scale = conform_to_kind(scale, group="autoscaling", kind="Scale").document
    _check(request, scale)
    metadata = scale["metadata"]
    writes.check_version(served, stored, metadata.get("resourceVersion"))
    old = stored.document()
    new = stored.document()
    paths = served.scale or ScalePaths()
    if not _put(new, paths.replicas, scale["spec"].get("replicas", 0)):
        why = "cannot be set: something on its way is not an object"
        cause = errors.invalid_value(".".join(paths.replicas), scale["spec"].get("replicas", 0), why)
        raise errors.invalid_object(served.group, served.kind, stored.name, [cause])
    body = writes.update_object(writes.Write.of(state, served, request), stored, old, new)
    return Response(body=encode_json(_scale(served, request_bodies.decode_body(body, served.kind))))


def _check(request: Request, scale: Document) -> None:
    if scale.get("apiVersion", _API_VERSION) != _API_VERSION or scale.get("kind", "Scale") != "Scale":
        given = f"{scale.get('apiVersion')} {scale.get('kind')}"
        raise errors.bad_request(f"the scale subresource takes an {_API_VERSION} Scale, not {given}")
    name = scale["metadata"].get("name")
    if name and name != request.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
    replicas = scale["spec"].get("replicas", 0)
    if replicas < 0:
        cause = errors.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid_object("autoscaling", "Scale", request.name or "", [cause])


def _scale(served: ResourceType, document: Document) -> Document:
    paths = served.scale or ScalePaths()
    metadata = document["metadata"]
    status: Document = {"replicas": _at(document, paths.status_replicas) or 0}
    selector = _selector_text(_at(document, paths.selector) if paths.selector else None)
    if selector:
        status["selector"] = selector
    replicas = _at(document, paths.replicas)
    return {
        "kind": "Scale",
        "apiVersion": _API_VERSION,
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    """Custom resources keep the text itself, replication controllers a plain map, the others a label selector."""
    if isinstance(selector, str) or not selector:
        return selector or ""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        selector = {"matchLabels": selector}
    try:
        return str(label_selector(selector))
    except SelectorError:
        return ""


def _at(document: Document, path: tuple[str, ...]) -> Any:
    value: Any = document
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _put(document: Document, path: tuple[str, ...], value: Any) -> bool:
    """Whether the value has its place; custom resources may have anything on the way there."""
    for step in path[:-1]:
        inner = document.setdefault(step, {})
        if inner is None:
            inner = document[step] = {}
        if not isinstance(inner, dict):
            return False
        document = inner
    document[path[-1]] = value
    return True
