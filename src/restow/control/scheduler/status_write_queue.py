"""Status writes in the background: a limited number at once, each tried until it succeeds or is pointless.

Goes in: which pod or PodGroup has a status to write, with the writer of its kind. Comes out: calls of that writer,
never two at once for one object. Scheduling never waits for a status.
"""

from __future__ import annotations

import logging
from typing import Protocol

from restow.client.workqueue import WorkQueue
from restow.model.object_key import Key
from restow.model.wire import WireError
from restow.ports import ApiError, Forbidden, Invalid, NotFound

log = logging.getLogger(__name__)


class StatusWriter(Protocol):
    """Writes the status of one kind of objects, which it knows by UID or by key."""

    async def write(self, key: str | Key) -> None:
        """Compute the status from the object as it is now, and write it if it differs."""

    def drop(self, key: str | Key) -> None:
        """Forget what was to be written: the object is gone, or the server refuses it for good."""


class StatusWriteQueue:
    def __init__(self) -> None:
        self._queue: WorkQueue[tuple[StatusWriter, str | Key]] = WorkQueue(base=0.1, cap=10.0)

    def add(self, writer: StatusWriter, key: str | Key) -> None:
        self._queue.add((writer, key))

    async def run(self) -> None:
        """Write until cancelled; as many writes at once as there are tasks that run this."""
        while True:
            async with self._queue.next() as item:
                await self._write(*item)

    async def _write(self, writer: StatusWriter, key: str | Key) -> None:
        try:
            await writer.write(key)
        except NotFound:
            writer.drop(key)
        except (Invalid, Forbidden) as error:
            log.error("status not written", extra={"about": key, "err": str(error)})
            writer.drop(key)
        except (ApiError, WireError):  # also a conflict: then the status is computed from the new version
            self._queue.retry((writer, key))
            return
        self._queue.forget((writer, key))
