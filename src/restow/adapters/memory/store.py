"""The versioned store: what every object is now, and the recent changes that led there.

In go whole documents, out come `Stored` values: the encoded bytes of one version of one object plus the few facts that
lists, watches and garbage collection ask for. An object is encoded once per write; lists join those bytes and all
watchers share them. Nothing is copied on reads, and a reader that needs the document decodes its own copy from the
bytes, so that no reader can change what is stored.

One counter numbers all writes of all collections (the resourceVersion). Each collection keeps its recent changes in a
bounded log. Watches resume from it, and a list at an older version is the present with the later changes undone.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from restow.model.objects import Document

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Document] = msgspec.json.Decoder(dict[str, Any]).decode

_NO_LABELS: Mapping[str, str] = {}

LOG_BYTES = 256 * 1024 * 1024  # what one collection's log may hold, however few changes that is


class Field(msgspec.Struct, frozen=True):
    """A field that selectors may name: its label, the paths to look at (the first that is set counts), the default."""

    label: str
    paths: tuple[tuple[str, ...], ...]
    absent: str = ""

    def read(self, document: Document) -> str:
        for path in self.paths:
            value: Any = document
            for step in path:
                value = value.get(step) if type(value) is dict else None
            if value is not None and value != "":
                return value if type(value) is str else _text(value)
        return self.absent


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One version of one object."""

    namespace: str
    name: str
    uid: str
    version: int
    data: bytes
    labels: Mapping[str, str]
    fields: tuple[str, ...]
    owners: tuple[str, ...]
    deleting: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def document(self) -> Document:
        """A fresh copy, for the caller to keep and to change."""
        return _decode(self.data)


class Change:
    """One write: what was there, what came. For a removal `new` is the last state under the removal's version."""

    __slots__ = ("_frames", "_left", "new", "old", "removed")

    def __init__(self, old: Stored | None, new: Stored, *, removed: bool = False) -> None:
        self.old = old
        self.new = new
        self.removed = removed
        self._left: Stored | None = None
        self._frames: dict[tuple[str, str], bytes] = {}

    @property
    def version(self) -> int:
        return self.new.version

    def seen_by(self, matches: Callable[[Stored], bool]) -> tuple[str, Stored] | None:
        """The event this is for a watcher of a selection: objects enter and leave it as well as change inside it."""
        was = self.old is not None and matches(self.old)
        now = not self.removed and matches(self.new)
        if now:
            return ("MODIFIED" if was else "ADDED"), self.new
        return ("DELETED", self._as_it_was()) if was else None

    def frame(self, event: str, stored: Stored, form: str, render: Callable[[Stored], bytes]) -> bytes:
        """The event as sent, made once for all watchers of the same form (apiVersion)."""
        cached = self._frames.get((event, form))
        if cached is None:
            cached = self._frames[event, form] = event_frame(event, render(stored))
        return cached

    def _as_it_was(self) -> Stored:
        """What a watcher that loses sight of the object is sent: its previous content at this version."""
        if self.removed or self.old is None:
            return self.new
        if self._left is None:
            self._left = _restamped(self.old, self.version)
        return self._left


class Log:
    """The recent changes of one collection, oldest first. Positions count all changes ever made: they never shift."""

    def __init__(self, limit: int, floor: int) -> None:
        self.first = 0
        self.floor = floor  # every change after this version is still here
        self._limit = limit
        self._changes: list[Change] = []
        self._bytes = 0

    @property
    def end(self) -> int:
        return self.first + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._bytes += len(change.new.data)
        if len(self._changes) >= 2 * self._limit:  # forgets in batches, so that appending stays cheap
            self._forget(len(self._changes) - self._limit)
        elif self._bytes > LOG_BYTES:
            self._forget(len(self._changes) // 2)

    def forget_all(self, floor: int) -> None:
        self._forget(len(self._changes))
        self.floor = floor

    def position_after(self, version: int) -> int:
        """Where a reader that has seen `version` continues; only meaningful when version >= floor."""
        return self.first + bisect_right(self._changes, version, key=lambda change: change.version)

    def at(self, position: int) -> Change:
        return self._changes[position - self.first]

    def after(self, version: int) -> list[Change]:
        return self._changes[self.position_after(version) - self.first :]

    def _forget(self, count: int) -> None:
        if count:
            self.floor = self._changes[count - 1].version
            self._bytes -= sum(len(change.new.data) for change in self._changes[:count])
            del self._changes[:count]
            self.first += count


class Slice:
    """Some objects of a collection in order. The keys are fixed; their objects are read when iterated: an older version
    if `then` has one, else the present one."""

    def __init__(self, keys: list[str], objects: Mapping[str, Stored], then: Mapping[str, Stored | None]) -> None:
        self._keys = keys
        self._objects = objects
        self._then = then

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Stored]:
        if not self._then:
            return map(self._objects.__getitem__, self._keys)
        return (self._then.get(key) or self._objects[key] for key in self._keys)


class Collection:
    """All objects of one kind by key `namespace/name` (`/name` when cluster-scoped), ordered as etcd orders them."""

    def __init__(self, name: str, fields: tuple[Field, ...], *, index: str | None, history: int, floor: int) -> None:
        self.name = name
        self.fields = fields
        self.log = Log(history, floor)
        self.closed = False
        self._objects: dict[str, Stored] = {}
        self._keys: list[str] = []
        self._labels = {field.label: number for number, field in enumerate(fields)}
        self._indexed = self._labels[index] if index else None
        self._index: dict[str, set[str]] = {}
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Stored]:
        return (self._objects[key] for key in self._keys)

    def get(self, namespace: str, name: str) -> Stored | None:
        return self._objects.get(f"{namespace}/{name}")

    def field_number(self, label: str) -> int | None:
        return self._labels.get(label)

    def indexed(self, label: str) -> bool:
        return self._indexed is not None and self._labels.get(label) == self._indexed

    def with_index_value(self, value: str) -> list[Stored]:
        return [self._objects[key] for key in sorted(self._index.get(value, ()))]

    def within(self, namespace: str | None, after: str = "") -> Slice:
        """The objects of a namespace, or of all, behind the key `after`."""
        low, high = _range(self._keys, namespace, after)
        return Slice(self._keys[low:high], self._objects, {})

    def within_at(self, version: int, namespace: str | None, after: str = "") -> Slice:
        """The same as of an older version, which the log must still reach."""
        # Newest change first: the oldest one after `version` is written last, and its `old` is the state at `version`.
        then: dict[str, Stored | None] = {}
        for change in reversed(self.log.after(version)):
            then[change.new.key] = change.old
        if not then:
            return self.within(namespace, after)
        low, high = _range(self._keys, namespace, after)
        keys = [key for key in self._keys[low:high] if key not in then]
        past = sorted(key for key, stored in then.items() if stored is not None)
        low, high = _range(past, namespace, after)
        return Slice(sorted(keys + past[low:high]), self._objects, then)

    def count(self, namespace: str) -> int:
        low, high = _range(self._keys, namespace, "")
        return high - low

    def apply(self, change: Change) -> None:
        key = change.new.key
        if change.removed:
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.old is None:
                insort(self._keys, key)
            self._objects[key] = change.new
        self._reindex(key, change)
        # Watches read from the log when they wake, so the change must be in it before.
        self.log.append(change)
        self.wake()

    def close(self) -> None:
        """The kind is no longer served: open watches end."""
        self.closed = True
        self.wake()

    def wake(self) -> None:
        # A dict, not a set: watches wake in the order in which they began to wait, so that runs can be repeated.
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def next_change(self) -> asyncio.Future[None]:
        """Done at the next change; a watcher that gives up cancels it."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        return future

    def forget(self, future: asyncio.Future[None]) -> None:
        self._waiting.pop(future, None)

    def _reindex(self, key: str, change: Change) -> None:
        if self._indexed is None:
            return
        old = change.old.fields[self._indexed] if change.old else None
        new = None if change.removed else change.new.fields[self._indexed]
        if old == new:
            return
        if old is not None:
            self._index[old].discard(key)
            if not self._index[old]:
                del self._index[old]
        if new is not None:
            self._index.setdefault(new, set()).add(key)


class Store:
    """All collections under one version counter. `observers` hear of every change once it is made."""

    def __init__(self, *, history: int) -> None:
        self.version = 1
        self.collections: dict[str, Collection] = {}
        self.observers: list[Callable[[Collection, Change], None]] = []
        self._history = history
        self._dropped: set[str] = set()

    def open(self, name: str, fields: tuple[Field, ...], *, index: str | None = None) -> Collection:
        """The collection of this name, made if need be."""
        collection = self.collections.get(name)
        if collection is None:
            # The history of a collection that never existed is known in full; that of a dropped one is lost.
            floor = self.version if name in self._dropped else 0
            collection = Collection(name, fields, index=index, history=self._history, floor=floor)
            self.collections[name] = collection
        return collection

    def drop(self, name: str) -> None:
        self.collections.pop(name).close()
        self._dropped.add(name)

    def put(self, collection: Collection, document: Document) -> Stored:
        """Write a document the caller gives away, whether its object is new or not."""
        metadata = document["metadata"]
        old = collection.get(metadata.get("namespace", ""), metadata["name"])
        self.version += 1
        new = _stored(document, self.version, collection.fields)
        self._change(collection, Change(old, new))
        return new

    def remove(self, collection: Collection, stored: Stored) -> Stored:
        """Delete; the result is the last state under the version of the deletion."""
        # A deletion has a version of its own, as in etcd: a watch that resumes from the last write must still see it.
        self.version += 1
        last = _restamped(stored, self.version)
        self._change(collection, Change(stored, last, removed=True))
        return last

    def compact(self) -> None:
        """Forget all history. The present gets a new version, so every version handed out before is too old."""
        self.version += 1
        for collection in self.collections.values():
            collection.log.forget_all(self.version)
            collection.wake()

    def _change(self, collection: Collection, change: Change) -> None:
        collection.apply(change)
        for observer in self.observers:
            observer(collection, change)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def event_frame(event: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}' % (event.encode(), data)


def encode_json(value: Any) -> bytes:
    return _encode(value)


def _stored(document: Document, version: int, fields: tuple[Field, ...]) -> Stored:
    metadata = document["metadata"]
    metadata["resourceVersion"] = str(version)
    references = metadata.get("ownerReferences")
    return Stored(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        version=version,
        data=_encode(document),
        labels=metadata.get("labels") or _NO_LABELS,
        fields=tuple([field.read(document) for field in fields]),
        owners=tuple([reference["uid"] for reference in references]) if references else (),
        deleting="deletionTimestamp" in metadata,
    )


def _restamped(stored: Stored, version: int) -> Stored:
    document = stored.document()
    document["metadata"]["resourceVersion"] = str(version)
    return msgspec.structs.replace(stored, version=version, data=_encode(document))


def _range(keys: list[str], namespace: str | None, after: str) -> tuple[int, int]:
    """Where the keys of a namespace lie, behind `after`. "0" is the character that follows "/"."""
    low, high = 0, len(keys)
    if namespace is not None:
        low, high = bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")
    return (max(low, bisect_right(keys, after)), high) if after else (low, high)
