"""Tables of storage objects: what the API shows of one kind, and what the scheduler assumes ahead of it.

Goes in: objects from events, in any order, repeated or late. Comes out: the latest of each. Data derived from
a table follows every change, also an undone one, by a callback, and so needs no undo of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import ObjectMeta


class Item(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Item)
Changed = Callable[[T | None, T | None], None]
"""Called with the object as it was and as it is; None where it was not there, or is deleted."""


class OutOfSync(Exception):
    """The API shows another version than the one the assumption was made on."""


def key_of(item: Item) -> str:
    return f"{item.metadata.namespace or ''}/{item.metadata.name}"


class ObjectTable(Generic[T]):
    """The objects of one kind by "namespace/name", without a namespace "/name"."""

    def __init__(self, log: UndoLog, changed: Changed[T] | None = None) -> None:
        self._log = log
        self._versions = SeenVersions(log)
        self._shown: dict[str, T] = {}
        self._changed = changed

    def apply(self, item: T) -> None:
        if self._is_news(item, gone=False):
            self._write(key_of(item), item)

    def remove(self, item: T) -> None:
        if self._is_news(item, gone=True):
            self._write(key_of(item), None)

    def shown(self, key: str) -> T | None:
        """The object as the API shows it."""
        return self._shown.get(key)

    def every(self) -> Iterable[T]:
        return self._shown.values()

    def _is_news(self, item: T, *, gone: bool) -> bool:
        return self._versions.is_news(key_of(item), version_number(item.metadata.resource_version), gone=gone)

    def _write(self, key: str, item: T | None) -> None:
        old = self._shown.get(key)
        self._log.record(self._write, key, old)
        _put(self._shown, key, item)
        self._tell(old, item)

    def _tell(self, old: T | None, new: T | None) -> None:
        if self._changed is not None and old is not new:
            self._changed(old, new)


class AssumableTable(ObjectTable[T]):
    """A table of objects that can be assumed changed, until the API shows a newer version or `forget` is called.

            assume (same version)
    shown ------------------------> assumed
      ^                                |
      +--- forget (this very one) -----+
      +--- another version is shown ---+
    """

    def __init__(self, log: UndoLog, changed: Changed[T] | None = None) -> None:
        super().__init__(log, changed)
        self._assumed: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """The object as assumed, or else as shown."""
        return self._assumed.get(key) or self._shown.get(key)

    def assumed(self) -> list[T]:
        """The objects that are assumed and not shown, by key."""
        return [self._assumed[key] for key in sorted(self._assumed)]

    def assume(self, item: T) -> None:
        """Use this object from now on. Raises OutOfSync unless it was made from the version that is shown."""
        key = key_of(item)
        shown = self._shown.get(key)
        if shown is None:
            raise OutOfSync(f"{key.removeprefix('/')!r} is not there any more")
        if shown.metadata.resource_version != item.metadata.resource_version:
            raise OutOfSync(
                f"{key.removeprefix('/')!r} is out of sync (stored: {shown.metadata.resource_version}, "
                f"assume: {item.metadata.resource_version})"
            )
        self._set_assumed(key, item)

    def forget(self, item: T) -> None:
        """Use the object as shown again, if this very object is assumed; otherwise nothing happens."""
        key = key_of(item)
        if self._assumed.get(key) is item:
            self._set_assumed(key, None)

    def _write(self, key: str, item: T | None) -> None:
        if key in self._assumed:
            self._set_assumed(key, None)
        super()._write(key, item)

    def _set_assumed(self, key: str, item: T | None) -> None:
        self._log.record(self._set_assumed, key, self._assumed.get(key))
        before = self.get(key)
        _put(self._assumed, key, item)
        self._tell(before, self.get(key))


def _put(table: dict[str, T], key: str, item: T | None) -> None:
    if item is None:
        table.pop(key, None)
    else:
        table[key] = item
