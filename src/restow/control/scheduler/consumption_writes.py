"""Consumption writes in batches: when the status of a reservation records which pods consumed its seats.

Goes in: reservations with seats that pods have consumed. Comes out: each of these reservations when its turn has come.

Such a write costs the API server as much as several Bindings, and hardly anything depends on it: the annotations of the
pods say the same, and a new leader reads it there. (Consumptions that something does depend on do not come here, see
`reservation_work_queue`.) So

    - pods of one reservation that come together are recorded by one write: a request waits for a moment
    - bindings that wait for their turn go first, though not longer than `consumption_patience`
    - few of these writes are under way at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from restow.client.workqueue import WorkQueue
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.settings import SchedulerSettings
from restow.model.object_key import Key

_RETRY_SECONDS = 0.1
"""How often to look whether bindings still wait."""


class ConsumptionWrites:
    def __init__(self, settings: SchedulerSettings, binding_slots: asyncio.Semaphore) -> None:
        """`binding_slots` are the writes that binding cycles may have under way at once."""
        self._binding_slots = binding_slots
        self._patience = settings.consumption_patience
        self._slots = asyncio.Semaphore(settings.consumption_writers)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._requested: dict[Key, float] = {}
        """When a write was first requested that has not begun."""
        self._under_way: set[Key] = set()
        self._again: set[Key] = set()
        """Reservations for which another turn came while a write of theirs was under way."""

    def request(self, key: Key, delay: float) -> None:
        """Let consumed seats of a reservation be recorded, after `delay` seconds or later."""
        self._requested.setdefault(key, monotonic_time())
        self._queue.add_after(key, delay)

    async def run(self, reconcile: Callable[[Key], None]) -> None:
        """Call `reconcile` with one reservation after the other, until cancelled."""
        while True:
            async with self._queue.next() as key:
                if key in self._under_way:
                    self._again.add(key)
                    continue
                await self._slots.acquire()
                await self._let_bindings_go_first(key)
                if key in self._requested:
                    self._under_way.add(key)
                    reconcile(key)
                else:  # reconciled meanwhile for another reason, which recorded these seats as well
                    self._slots.release()

    def write_begins(self, key: Key) -> None:
        """The status is computed now: it records all seats that were consumed until now, for whatever reason it is
        written."""
        self._requested.pop(key, None)

    def write_ended(self, key: Key) -> None:
        """The write has succeeded or failed; a failed one is retried by the work queue."""
        if key in self._under_way:
            self._under_way.discard(key)
            self._slots.release()
        if key in self._again:
            self._again.discard(key)
            self._queue.add(key)

    async def _let_bindings_go_first(self, key: Key) -> None:
        while self._binding_slots.locked() and monotonic_time() < self._requested.get(key, 0.0) + self._patience:
            await asyncio.sleep(_RETRY_SECONDS)
