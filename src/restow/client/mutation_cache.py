"""An informer's objects with our own writes on top, as client-go's MutationCache.

The watch shows a write a moment after the API server has answered it. A controller that decides meanwhile must not
overlook what it has just done itself: so the answers to its writes are recorded here, and whichever is newer, the
recorded object or the cached one, is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from restow.client.cache import Change, is_older
from restow.client.informer import Informer
from restow.model.object_key import Key, key_of
from restow.model.objects import Object
from restow.ports import Clock

T = TypeVar("T", bound=Object)

UNSEEN_SECONDS: Final = 60.0
"""An object that we wrote and the watch has not shown within this time is assumed to be deleted."""


class MutationCache(Generic[T]):
    def __init__(self, informer: Informer[T], clock: Clock) -> None:
        self._informer = informer
        self._clock = clock
        self._written: dict[Key, tuple[T, float]] = {}
        """The object, and when it was recorded."""

    def record_write(self, item: T) -> None:
        """Record an object as an API server has just returned it. The watch may show it later, or may have been
        faster."""
        known, _ = self._written.get(key_of(item), (item, 0.0))
        if not _is_before(item, known):
            self._written[key_of(item)] = item, self._clock.now()

    def observe(self, change: Change[T]) -> None:
        """Forget a recorded object that the watch has reached. To be called with every change of the informer."""
        key = key_of(change.object)
        if change.type == "DELETED" or self._ahead(key) is None:
            self._written.pop(key, None)

    def get(self, name: str, namespace: str | None = None) -> T | None:
        return self._ahead((namespace or "", name)) or self._informer.get(name, namespace)

    def newest(self, seen: T) -> T:
        """The newer one of a cached object and our record of it."""
        return self._ahead(key_of(seen)) or seen

    def find(self, index: str, value: str) -> list[T]:
        """The newest form of the objects that an index has under a value. The index itself knows only the watched
        forms."""
        return [self.newest(seen) for seen in self._informer.find(index, value)]

    def __iter__(self) -> Iterator[T]:
        ahead = {key: item for key in self._written if (item := self._ahead(key)) is not None}
        self._written = {key: self._written[key] for key in ahead}
        return iter(({key_of(item): item for item in self._informer} | ahead).values())

    def _ahead(self, key: Key) -> T | None:
        """The recorded object, if the watch is behind it."""
        written, at = self._written.get(key, (None, 0.0))
        if written is None:
            return None
        namespace, name = key
        seen = self._informer.get(name, namespace)
        if seen is None:
            return written if at > self._clock.now() - UNSEEN_SECONDS else None
        return written if _is_before(seen, written) else None


def _is_before(version: Object, other: Object) -> bool:
    return is_older(version.metadata.resource_version, other.metadata.resource_version)
