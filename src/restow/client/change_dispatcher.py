"""Calls handlers with changes so that one broken object does not stop all others.

Users can write anything into objects, and a handler may raise on it. The exception is logged once for each object,
until a change of the object is handled again. While `paused`, changes wait, so that a decision sees one state of the
cluster.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from restow.client.cache import Change

log = logging.getLogger(__name__)

Handler = Callable[[Change[Any]], None]


class ChangeDispatcher:
    def __init__(self) -> None:
        self._failing: set[str] = set()
        self._pauses = 0
        self._waiting: deque[tuple[Handler, Change[Any]]] = deque()

    @property
    def has_delivered_all(self) -> bool:
        """Whether no change waits."""
        return not self._waiting

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let changes wait until the context ends. Contexts may be nested."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            while self._waiting and not self._pauses:
                self._call(*self._waiting.popleft())

    def dispatch(self, handler: Handler, change: Change[Any]) -> None:
        if self._pauses:
            self._waiting.append((handler, change))
        else:
            self._call(handler, change)

    def _call(self, handler: Handler, change: Change[Any]) -> None:
        meta = change.object.metadata
        try:
            handler(change)
        except Exception as error:  # any exception: objects contain whatever users write
            if meta.uid not in self._failing:
                self._failing.add(meta.uid)
                facts = {"namespace": meta.namespace, "object": meta.name, "err": f"{type(error).__name__}: {error}"}
                log.error("object cannot be read", extra=facts)
        else:
            self._failing.discard(meta.uid)
        if change.type == "DELETED":
            self._failing.discard(meta.uid)


def upsert_or_delete(change: Change[Any], put: Callable[[Any], object], drop: Callable[[Any], object]) -> None:
    """Pass the object to `put`, or to `drop` if it was deleted."""
    if change.type == "DELETED":
        drop(change.object)
    else:
        put(change.object)
