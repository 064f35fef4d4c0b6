"""Versions: is this event news, or late, or a repetition?

One instance per kind remembers the resourceVersion applied last for each object, and for objects that are gone, so that
an event delivered twice or after a newer one changes nothing. Versions are compared as the integers they are in every
API server; objects without one (hand-written files) are always news. Of the gone only the latest thousands are kept.
"""

from __future__ import annotations

from restow.model.cluster.undo_log import UndoLog

_REMEMBERED = 8192
_LONGEST = 40
"""Digits: what is longer, Python may refuse to read as a number."""


class SeenVersions:
    __slots__ = ("_gone", "_live", "_log")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._live: dict[str, int | None] = {}
        self._gone: dict[str, int | None] = {}

    def is_news(self, key: str, version: int | None, *, gone: bool) -> bool:
        """Whether an event about `key` says anything new; if so, it is remembered."""
        known_gone = key in self._gone
        seen = self._gone.get(key) if known_gone else self._live.get(key)
        if version is not None and seen is not None:
            repeats = version == seen and (known_gone or not gone)
            if version < seen or repeats:
                return False
        self._remember(key, version, gone=gone)
        return True

    def is_late(self, key: str, version: int | None) -> bool:
        """Whether something newer than `version` was seen of `key`, or its end."""
        gone = key in self._gone
        seen = self._gone[key] if gone else self._live.get(key)
        return version is not None and seen is not None and (version < seen or (gone and version == seen))

    def is_gone(self, key: str) -> bool:
        """Whether the object was seen and is known to be over."""
        return key in self._gone

    def _remember(self, key: str, version: int | None, *, gone: bool) -> None:
        self._log.drop(self._live if gone else self._gone, key)
        self._log.put(self._gone if gone else self._live, key, version)
        if len(self._gone) > 2 * _REMEMBERED and not self._log.recording:
            for oldest in list(self._gone)[:_REMEMBERED]:
                del self._gone[oldest]


def version_number(text: str) -> int | None:
    """A resourceVersion as a number; None if it is none, or longer than any that a server counts."""
    return int(text) if len(text) < _LONGEST and text.isascii() and text.isdigit() else None
