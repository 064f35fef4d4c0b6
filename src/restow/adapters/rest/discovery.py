"""Discovery: which groups, versions and resources this server has.

In: the served `ResourceType`s. Out: the documents of `/api`, `/apis` and below, in the legacy form that names one group
version per request and in the aggregated form that lists everything at once. Nothing is cached, so a new
CustomResourceDefinition is visible to the next request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from restow.adapters.memory.resources import ResourceType, Subresource
from restow.model.objects import Document

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: stable before beta before alpha, newer first, odd names last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)


def served_groups(types: Iterable[ResourceType]) -> dict[str, dict[str, list[ResourceType]]]:
    """group -> version -> resources. Built-in groups come first, so that short names resolve to them."""
    by_group: dict[str, dict[str, list[ResourceType]]] = {}
    for each in sorted(types, key=_rank):
        by_group.setdefault(each.group, {}).setdefault(each.version, []).append(each)
    return by_group


def _rank(served: ResourceType) -> tuple[bool, str, tuple[int, int, int, str], str]:
    # metrics.k8s.io serves plurals that exist in the core group, and stands for an aggregated server.
    late = served.definition is not None or served.group == "metrics.k8s.io"
    return (late, served.group, version_rank(served.version), served.plural)


# --- the legacy form -----------------------------------------------------------------------------------------------


def core_versions(host: str) -> Document:
    """`/api`"""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group_list(types: Iterable[ResourceType]) -> Document:
    """`/apis`"""
    named = [_group(group, list(versions)) for group, versions in served_groups(types).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}


def group_document(types: Iterable[ResourceType], group: str) -> Document | None:
    """`/apis/{group}`"""
    versions = served_groups(types).get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, list(versions))} if versions else None


def _group(group: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def resource_list(types: Iterable[ResourceType], group: str, version: str) -> Document | None:
    """`/api/v1` and `/apis/{group}/{version}`"""
    served = served_groups(types).get(group, {}).get(version)
    if not served:
        return None
    entries = []
    for each in served:
        entries.append(_resource(each))
        entries += [_subresource(each, sub) for sub in _subresources(each)]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _resource(served: ResourceType) -> Document:
    return {
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": list(served.verbs),
        **_names(served),
    }


def _names(served: ResourceType) -> Document:
    names = {"shortNames": list(served.short_names), "categories": list(served.categories)}
    return {key: value for key, value in names.items() if value}


def _subresources(served: ResourceType) -> list[Subresource]:
    return sorted(served.subresources, key=lambda sub: sub.name)


def _subresource(served: ResourceType, sub: Subresource) -> Document:
    foreign = {"group": sub.group, "version": sub.version} if sub.version else {}
    return {
        "name": f"{served.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.namespaced,
        **foreign,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }


# --- the aggregated form -------------------------------------------------------------------------------------------


def aggregated_discovery(types: Iterable[ResourceType], *, core: bool, version: str) -> Document:
    """`/api` (the core group) or `/apis` (all others) as an APIGroupDiscoveryList of apidiscovery.k8s.io."""
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [_version(*each) for each in versions.items()],
        }
        for group, versions in served_groups(types).items()
        if (group == "") is core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _version(version: str, served: list[ResourceType]) -> Document:
    return {"version": version, "resources": [_aggregated_resource(each) for each in served], "freshness": "Current"}


def _aggregated_resource(served: ResourceType) -> Document:
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": _kind(sub.group if sub.version else served.group, sub.version or served.version, sub.kind),
            "verbs": list(sub.verbs),
        }
        for sub in _subresources(served)
    ]
    return {
        "resource": served.plural,
        "responseKind": _kind(served.group, served.version, served.kind),
        "scope": "Namespaced" if served.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(served.verbs),
        **_names(served),
        **({"subresources": subresources} if subresources else {}),
    }


def _kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}
