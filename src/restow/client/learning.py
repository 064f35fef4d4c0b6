"""Learning from events: one object that cannot be read must not stop the news of all others.

Goes in: a change, and who makes something of it. What that raises is told once about each object, however often the
object changes, until it can be read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from restow.client.cache import Change

log = logging.getLogger(__name__)

Handler = Callable[[Change[Any]], None]


class Learner:
    def __init__(self) -> None:
        self._unread: set[str] = set()

    def learn(self, handler: Handler, change: Change[Any]) -> None:
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
