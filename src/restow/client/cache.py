"""The cache of an informer: the objects of one kind with their indexes, and the rules by which lists and events change
it.

Takes lists and watch events, returns the changes that they really made. The cache never goes back in time: an event is
ignored if it is older than the cached object, if the object is known to be deleted since, or if a list is newer.
Versions are compared as numbers, which Kubernetes guarantees for its own API server; versions that are not numbers
cannot be compared and count as newer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, Literal, TypeVar

import msgspec

from restow.client.verbs import WatchEvent
from restow.model.cluster.seen_versions import version_number
from restow.model.object_key import Key, key_of
from restow.model.objects import Object, Pod

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

REMEMBERED_DELETIONS = 20_000


T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]


class Change(msgspec.Struct, Generic[T], frozen=True):
    """A change of one object: `object` is the present form (the last known one if DELETED), `old` the one before."""

    type: ChangeType
    object: T
    old: T | None = None


def by_namespace(item: Object) -> Iterable[str]:
    return (item.metadata.namespace or "",)


def by_node(pod: Pod) -> Iterable[str]:
    """The node of a pod; the empty name for pods that are not bound."""
    return (pod.spec.node_name or "",)


def is_older(version: str | None, than: str | None, *, or_same: bool = False) -> bool:
    """Whether `version` is certainly older than `than`; False if they cannot be compared."""
    if version is None or than is None:
        return False
    if or_same and version == than:
        return True
    number, other = version_number(version), version_number(than)
    return number is not None and other is not None and number < other


class Cache(Generic[T]):
    """Objects by (namespace, name) and by any number of indexes. The module describes which events are ignored."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self.version: str | None = None
        self._objects: dict[Key, T] = {}
        self._functions: dict[str, IndexFunction[T]] = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._functions}
        self._deleted: OrderedDict[str, str | None] = OrderedDict()
        """Versions at which objects were deleted, by UID; the oldest are forgotten."""
        self._listed: str | None = None
        """The version of the last list."""

    # ---- reading

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def find(self, index: str, value: str) -> list[T]:
        """The objects that an index has under a value, in the order in which they were added to it."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index over all objects, present and future; `function` returns the values for an object."""
        if self._functions.setdefault(name, function) is not function:
            raise ValueError(f"index {name} already exists with another function")
        if name not in self._indexes:
            entries = self._indexes[name] = {}
            for key, item in self._objects.items():
                _add_to_index(entries, key, function(item))

    # ---- changing

    def replace(
        self, items: Iterable[T], version: str | None, *, keep: Collection[Key] = (), reset: bool = False
    ) -> list[Change[T]]:
        """Make the cache equal to a list; `keep` has the keys of listed objects that could not be decoded.

        Objects that are cached in a version newer than the list stay, listed or not. With `reset` they do not: the
        history of the server started anew, and versions from before mean nothing.
        """
        if reset:
            self.version = self._listed = None
            self._deleted.clear()
        changes: list[Change[T]] = []
        listed: set[Key] = set(keep)
        for item in items:
            listed.add(key_of(item))
            if not is_older(version, self._deleted.get(item.metadata.uid)):
                changes += self._put(item, reset=reset)
        for key in [key for key in self._objects if key not in listed]:
            vanished = self._objects[key]
            # A cached object that is newer than the list was created after the list began.
            if reset or not is_older(version, vanished.metadata.resource_version):
                changes.append(self._remove(key, vanished, version))
        self._listed = version
        self.advance(version)
        return changes

    def apply(self, event: WatchEvent[T]) -> list[Change[T]]:
        """The changes by a watch event: none if it is outdated, two if another object has taken the name of a cached
        one."""
        meta = event.object.metadata
        is_outdated = is_older(meta.resource_version, self._listed, or_same=True)
        self.advance(meta.resource_version)
        if event.type == "BOOKMARK":
            return []
        if event.type == "DELETED":
            return self._delete(event.object)
        deleted_at = self._deleted.get(meta.uid)
        if is_outdated or is_older(meta.resource_version, deleted_at, or_same=True):
            return []
        return self._put(event.object)

    def advance(self, version: str | None) -> None:
        """Note that everything up to `version` has been seen."""
        if version and not is_older(version, self.version):
            self.version = version

    def _put(self, item: T, *, reset: bool = False) -> list[Change[T]]:
        meta = item.metadata
        key = key_of(item)
        old = self._objects.get(key)
        if old is None:
            self._store(key, item, None)
            return [Change("ADDED", item)]
        same = old.metadata.uid == meta.uid
        if same and old.metadata.resource_version == meta.resource_version:
            return []
        if not reset and is_older(meta.resource_version, old.metadata.resource_version):
            return []
        if same:
            self._store(key, item, old)
            return [Change("MODIFIED", item, old)]
        removed = self._remove(key, old, meta.resource_version)
        self._store(key, item, None)
        return [removed, Change("ADDED", item)]

    def _delete(self, item: T) -> list[Change[T]]:
        version = item.metadata.resource_version
        self._note_deletion(item.metadata.uid, version)
        key = key_of(item)
        old = self._objects.get(key)
        if old is None or is_older(version, old.metadata.resource_version):
            return []
        self._remove(key, old, version)
        return [Change("DELETED", item if old.metadata.uid == item.metadata.uid else old, old)]

    def _remove(self, key: Key, old: T, version: str | None) -> Change[T]:
        del self._objects[key]
        self._unindex(key, old)
        self._note_deletion(old.metadata.uid, version)
        return Change("DELETED", old, old)

    def _note_deletion(self, uid: str | None, version: str | None) -> None:
        """Remember at which version an object was deleted, or left the selection. It may enter the selection again
        later."""
        if not uid or is_older(version, self._deleted.get(uid)):
            return
        self._deleted[uid] = version
        self._deleted.move_to_end(uid)
        if len(self._deleted) > REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)

    def _store(self, key: Key, item: T, old: T | None) -> None:
        self._objects[key] = item
        if old is not None:
            self._unindex(key, old)
        for name, function in self._functions.items():
            _add_to_index(self._indexes[name], key, function(item))

    def _unindex(self, key: Key, old: T) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                entries = index.get(value)
                if entries is None:
                    continue
                entries.pop(key, None)
                if not entries:
                    del index[value]


def _add_to_index(index: dict[str, dict[Key, None]], key: Key, values: Iterable[str]) -> None:
    for value in values:
        index.setdefault(value, {})[key] = None
