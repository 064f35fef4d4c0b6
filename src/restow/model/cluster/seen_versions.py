"""The versions that were seen of each object: is this event new, or late, or a repetition?

One instance per kind remembers the resourceVersion applied last for each object, and for objects that were deleted, so
that an event delivered twice or after a newer one changes nothing. Versions are compared as integers, which they are in
every API server; objects without one (hand-written files) are always new. Of deleted objects only the latest thousands
are kept.
"""

from __future__ import annotations

from restow.model.cluster.undo_log import UndoLog

_MAX_DELETED = 8192
_MAX_DIGITS = 40
"""Digits: Python may refuse to parse a longer number."""


class SeenVersions:
    __slots__ = ("_gone", "_live", "_log")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._live: dict[str, int | None] = {}
        self._gone: dict[str, int | None] = {}

    def is_news(self, key: str, version: int | None, *, gone: bool) -> bool:
        """Whether an event about the object `key` is new; if so, its version is remembered. `gone`: it was deleted."""
        known_gone = key in self._gone
        seen = self._gone.get(key) if known_gone else self._live.get(key)
        if version is not None and seen is not None:
            # A deletion may carry the version of the last update, so an equal version is new if it is the deletion.
            repeats = version == seen and (known_gone or not gone)
            if version < seen or repeats:
                return False
        self._remember(key, version, gone=gone)
        return True

    def is_late(self, key: str, version: int | None) -> bool:
        """Whether a version newer than `version` was seen of the object `key`, or its deletion."""
        gone = key in self._gone
        seen = self._gone[key] if gone else self._live.get(key)
        return version is not None and seen is not None and (version < seen or (gone and version == seen))

    def is_gone(self, key: str) -> bool:
        """Whether the object was seen and is known to be deleted, or a finished pod."""
        return key in self._gone

    def _remember(self, key: str, version: int | None, *, gone: bool) -> None:
        self._log.drop(self._live if gone else self._gone, key)
        self._log.put(self._gone if gone else self._live, key, version)
        if len(self._gone) > 2 * _MAX_DELETED and not self._log.recording:
            for oldest in list(self._gone)[:_MAX_DELETED]:
                del self._gone[oldest]


def version_number(text: str) -> int | None:
    """A resourceVersion as a number; None if it is not one, or longer than any that an API server makes."""
    return int(text) if len(text) < _MAX_DIGITS and text.isascii() and text.isdigit() else None
