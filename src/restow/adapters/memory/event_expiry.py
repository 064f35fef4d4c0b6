"""The expiry of Events: each is removed some time after its last write; in a real cluster that is an hour.

Without it the Events of a cluster that runs for days would fill the memory. Expired ones are removed when the next
Event is written.
"""

from __future__ import annotations

import asyncio
from collections import deque

from restow.adapters.memory.state import State
from restow.adapters.memory.store import Change, Collection, Stored

EVENTS = "events"


class EventExpiry:
    def __init__(self, state: State, seconds: float) -> None:
        self._state = state
        self._seconds = seconds
        self._written: deque[tuple[float, Stored]] = deque()
        """When each state of an Event was written, oldest first."""
        state.store.observers.append(self._observe)

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name == EVENTS and not change.removed:
            self._written.append((self._state.clock.now(), change.new))
            asyncio.get_running_loop().call_soon(self._expire)

    def _expire(self) -> None:
        events, until = self._state.store.collections[EVENTS], self._state.clock.now() - self._seconds
        while self._written and self._written[0][0] <= until:
            _, state = self._written.popleft()
            if events.get(state.namespace, state.name) is state:  # else it is gone, or was written since
                self._state.store.remove(events, state)
