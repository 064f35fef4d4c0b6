"""Learning from events: one object that cannot be read must not stop the news of all others.

Goes in: a change, and who makes something of it. What that raises is told once about each object, however often the
object changes, until it can be read again. While somebody decides (`held`) news waits, so that a decision is about one
state of the cluster.
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
        self._unread: set[str] = set()
        self._holders = 0
        self._waiting: deque[tuple[Handler, Change[Any]]] = deque()

    @property
    def has_delivered_all(self) -> bool:
        """Whether no news waits."""
        return not self._waiting

    @contextmanager
    def paused(self) -> Iterator[None]:
        """News waits until this ends."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            while self._waiting and not self._holders:
                self._learn(*self._waiting.popleft())

    def dispatch(self, handler: Handler, change: Change[Any]) -> None:
        if self._holders:
            self._waiting.append((handler, change))
        else:
            self._learn(handler, change)

    def _learn(self, handler: Handler, change: Change[Any]) -> None:
        meta = change.object.metadata
        try:
            handler(change)
        except Exception as error:  # whatever somebody may write into an object
            if meta.uid not in self._unread:
                self._unread.add(meta.uid)
                facts = {"namespace": meta.namespace, "object": meta.name, "err": f"{type(error).__name__}: {error}"}
                log.error("object cannot be read", extra=facts)
        else:
            self._unread.discard(meta.uid)
        if change.type == "DELETED":
            self._unread.discard(meta.uid)


def upsert_or_delete(change: Change[Any], put: Callable[[Any], object], drop: Callable[[Any], object]) -> None:
    """Hand an object to whoever keeps it, or to whoever lets go of it."""
    if change.type == "DELETED":
        drop(change.object)
    else:
        put(change.object)
