"""The key of an object among those of its kind."""

from __future__ import annotations

from restow.model.objects import Object

Key = tuple[str, str]


def key_of(item: Object) -> Key:
    """(namespace, name); the namespace of cluster-scoped objects is empty."""
    return item.metadata.namespace or "", item.metadata.name or ""
