"""Latest: the objects of a kind as the watch has shown them, or as we wrote them, whichever is newer.

Goes in: an informer, its changes, and what the API server answered to our writes. Comes out: objects. Whoever decides
by them does not overlook what it has just done itself.
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

UNSEEN: Final = 60.0
"""Seconds after which what we wrote and the watch never showed is believed to be gone."""


class MutationCache(Generic[T]):
    def __init__(self, informer: Informer[T], clock: Clock) -> None:
        self._informer = informer
        self._clock = clock
        self._written: dict[Key, tuple[T, float]] = {}
        """And when."""

    def record_write(self, item: T) -> None:
        """An object as we have just written or read it; the watch may show it later, or may have been faster."""
        known, _ = self._written.get(key_of(item), (item, 0.0))
        if not _is_before(item, known):
            self._written[key_of(item)] = item, self._clock.now()

    def observe(self, change: Change[T]) -> None:
        """The watch may have come to what we wrote, or beyond."""
        key = key_of(change.object)
        if change.type == "DELETED" or self._ahead(key) is None:
            self._written.pop(key, None)

    def get(self, name: str, namespace: str | None = None) -> T | None:
        return self._ahead((namespace or "", name)) or self._informer.get(name, namespace)

    def newest(self, seen: T) -> T:
        """An object that the watch has shown, or that object as we wrote it since."""
        return self._ahead(key_of(seen)) or seen

    def find(self, index: str, value: str) -> list[T]:
        """The objects that an index files under a value as the watch has shown them, whatever we wrote since."""
        return [self.newest(seen) for seen in self._informer.find(index, value)]

    def __iter__(self) -> Iterator[T]:
        ahead = {key: found for key in self._written if (found := self._ahead(key)) is not None}
        self._written = {key: self._written[key] for key in ahead}
        return iter(({key_of(one): one for one in self._informer} | ahead).values())

    def _ahead(self, key: Key) -> T | None:
        """What we wrote, as far as the watch is behind it."""
        written, at = self._written.get(key, (None, 0.0))
        if written is None:
            return None
        namespace, name = key
        seen = self._informer.get(name, namespace)
        if seen is None:
            return written if at > self._clock.now() - UNSEEN else None
        return written if _is_before(seen, written) else None


def _is_before(one: Object, other: Object) -> bool:
    return is_older(one.metadata.resource_version, other.metadata.resource_version)
