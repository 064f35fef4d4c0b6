"""From a method and a path to the request it means.

Kubernetes paths are regular, so one reader replaces a route table:

    /api/v1/{plural}[/{name}[/{subresource}]]                                  the core group
    /apis/{group}/{version}/{plural}[/{name}[/{subresource}]]                  every other group
    .../namespaces/{namespace}/{plural}[/{name}[/{subresource}]]               inside a namespace

A path under `namespaces` with at most a name and a subresource of Namespace itself names the namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from restow.ports import ApiError, Invalid, NotFound, Resource, StatusDetails, Verb

NAMESPACE_SUBRESOURCES = ("status", "finalize")
COLLECTION_VERBS: Mapping[str, Verb] = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
OBJECT_VERBS: Mapping[str, Verb] = {"GET": "get", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}


class Target(NamedTuple):
    """The object or collection that a path names."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None


def target_of(path: str) -> Target | None:
    """What a path names; None for paths of another form. Segments may be percent-encoded."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest] if rest:
            return _target("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _target(group, version, rest)
    return None


def _target(group: str, version: str, rest: list[str]) -> Target | None:
    if not all(rest):
        return None
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and not _names_namespace(group, rest):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, None, None)[:3]
    assert plural is not None
    return Target(Resource(group, version, plural), namespace, name, subresource)


def _names_namespace(group: str, rest: list[str]) -> bool:
    return group == "" and len(rest) == 3 and rest[2] in NAMESPACE_SUBRESOURCES


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> Verb:
    """The verb a method means on a target; raises 405 for methods it does not have."""
    watching = query.get("watch", "false").lower() in ("true", "1", "")
    if method == "GET" and watching and target.subresource is None:
        return "watch"
    if method == "POST" and target.subresource is not None:
        return "create"
    verb = (COLLECTION_VERBS if target.name is None else OBJECT_VERBS).get(method)
    if verb is None:
        raise method_not_allowed()
    return verb


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return Invalid.because(405, "MethodNotAllowed", message, StatusDetails())


def no_such_path() -> ApiError:
    return NotFound.because(404, "NotFound", "the server could not find the requested resource", StatusDetails())
