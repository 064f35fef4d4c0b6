"""Marks: when it is written down who took the seats of a reservation.

Goes in: reservations of which seats were taken. Comes out: each of them, when its turn to be written has come.

A mark costs the API server as much as several bindings, and hardly anybody waits for it (who does is not put off, see
`holding`; nor is who may, for what a small pod leaves of its seat): what it says, the annotations of the pods say
already, and whoever takes over reads it there. So pods of a
reservation that come together are marked by one write, bindings that wait for their turn go before marks, though not
for ever, and few marks are under way at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from restow.client.workqueue import WorkQueue
from restow.control.scheduler.settings import SchedulerSettings
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.model.cluster.names import Key

_LOOK_AGAIN = 0.1
"""Seconds, while bindings wait."""


class ConsumptionWrites:
    def __init__(self, settings: SchedulerSettings) -> None:
        self.must_wait: Callable[[], bool] = lambda: False
        """Whether there is more urgent work for the API server."""
        self._patience = settings.mark_patience
        self._slots = asyncio.Semaphore(settings.mark_writers)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._since: dict[Key, float] = {}
        """When a mark was first asked for that nobody has begun to write."""
        self._under_way: set[Key] = set()
        self._next: set[Key] = set()
        """Those whose turn came while they were under way."""

    def ask(self, key: Key, delay: float) -> None:
        """Let seats of a reservation be marked, after so many seconds or later."""
        self._since.setdefault(key, monotonic_time())
        self._queue.add_after(key, delay)

    async def run(self, write: Callable[[Key], None]) -> None:
        """Have marks written one after the other, until cancelled."""
        while True:
            async with self._queue.next() as key:
                if key in self._under_way:
                    self._next.add(key)
                    continue
                await self._slots.acquire()
                await self._wait(key)
                if key in self._since:  # else somebody has looked at it meanwhile
                    self._under_way.add(key)
                    write(key)
                else:
                    self._slots.release()

    def begun(self, key: Key) -> None:
        """All seats that were taken until now are being marked."""
        self._since.pop(key, None)

    def ended(self, key: Key) -> None:
        """And have been, or it did not work out."""
        if key in self._under_way:
            self._under_way.discard(key)
            self._slots.release()
        if key in self._next:
            self._next.discard(key)
            self._queue.add(key)

    async def _wait(self, key: Key) -> None:
        while self.must_wait() and monotonic_time() < self._since.get(key, 0.0) + self._patience:
            await asyncio.sleep(_LOOK_AGAIN)
