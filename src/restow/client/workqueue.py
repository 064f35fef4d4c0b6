"""A work queue, as client-go's: each key is queued at most once, and processed by at most one worker at a time.

    add ──> waiting ──get──> processing ──done──> (gone)
              ^                  │  add while processing: remembered,
              └──────────────────┘  and queued again on done

`add_after` adds a key later. `retry` adds it with a delay that doubles with each failure of the key, until `forget`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """The queue was closed and is empty."""


class WorkQueue(Generic[K]):
    """The states are drawn in the module. `len()` is the number of waiting keys."""

    def __init__(self, *, base: float = 0.005, cap: float = 60.0) -> None:
        self.base = base
        self.cap = cap
        self._waiting: deque[K] = deque()
        self._available = asyncio.Semaphore(0)
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: K, delay: float) -> None:
        """Add the key after `delay` seconds, or earlier if an earlier time was requested before."""
        if self._closed:
            return
        if delay <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        pending = self._timers.get(key)
        if pending is not None:
            if pending.when() <= due:
                return
            pending.cancel()
        self._timers[key] = loop.call_at(due, self._add_delayed, key)

    def retry(self, key: K) -> float:
        """Add the key after its next back-off; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self.cap, self.base * 2.0 ** min(failures, 60))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts with the shortest delay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, which no other worker gets until `done`. Raises QueueClosed when no more will come."""
        await self._available.acquire()
        if not self._waiting:
            self._available.release()
            raise QueueClosed
        key = self._waiting.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        self._processing.discard(key)
        if key in self._dirty:
            self._push(key)

    @asynccontextmanager
    async def next(self) -> AsyncIterator[K]:
        """`async with queue.next() as key`: get, and done even after an exception."""
        key = await self.get()
        try:
            yield key
        finally:
            self.done(key)

    def close(self) -> None:
        """Accept no more keys; the waiting ones are still returned by `get`."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._available.release()

    def _push(self, key: K) -> None:
        self._waiting.append(key)
        self._available.release()

    def _add_delayed(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
