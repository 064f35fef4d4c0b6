"""What an informer holds: the cache, the handlers that are called with its changes, and objects that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from restow.client.cache import Cache, Change, IndexFunction
from restow.client.responses import Unreadable
from restow.client.verbs import WatchEvent
from restow.model.interning import Interner
from restow.model.kinds import Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Object

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]


class InformerStore(Generic[T]):
    """Handlers see changes in order and without gaps: the `old` of each change is the `object` of the one before."""

    def __init__(self, kind: Kind[T], indexes: Mapping[str, IndexFunction[T]] | None) -> None:
        self.cache: Cache[T] = Cache(indexes)
        self.unreadable: dict[Key, str] = {}
        """Objects that exist and could not be decoded, with the error. Their last readable form stays in the cache."""
        self._kind = kind
        self._interner = Interner()
        self._handlers: list[Handler[T]] = []

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call a handler for every cached object as ADDED, then for every change. Returns a function that ends this."""
        for item in self.cache:
            handler(Change("ADDED", item))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def retain(self, item: T) -> T:
        """The object to keep for one that was listed: the cached one if both are the same version, else `item` itself
        with parts that are shared with other objects. So a list of known objects costs no memory."""
        cached = self.cache.get(key_of(item))
        if cached is not None and _identity(cached) == _identity(item):
            return cached
        return self._interner.share(item)

    def replace(self, items: Iterable[T], version: str, *, reset: bool = False) -> list[Change[T]]:
        """Make the cache equal to a list; returns the changes, which the caller announces."""
        return self.cache.replace(items, version, keep=self.unreadable, reset=reset)

    def apply(self, event: WatchEvent[T]) -> None:
        """Apply a watch event and announce what it changes."""
        self._interner.share(event.object)
        self.announce(self.cache.apply(event))

    def announce(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            self.unreadable.pop(key_of(change.object), None)
            for handler in tuple(self._handlers):
                handler(change)

    def report_unreadable(self, item: Unreadable) -> None:
        """Note an object that cannot be decoded. It must not stop the changes of all others."""
        self.unreadable[item.key] = item.error
        log.error("object cannot be decoded", extra={"kind": self._kind.kind, "object": item.key, "err": item.error})


def _identity(item: Object) -> tuple[str, str]:
    return item.metadata.uid, item.metadata.resource_version
