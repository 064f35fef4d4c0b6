"""The fence: while a leader may not write, because its Lease was not renewed in time, it does not read for nothing.

Whoever is overloaded renews its Lease late; going on as if nothing were would keep it from doing so. After a write that
was not sent everybody waits for a moment.
"""

from __future__ import annotations

import asyncio

from restow.client.fenced_api import Fenced

CLOSED_SECONDS = 1.0
"""Seconds."""


class LeaseGate:
    def __init__(self) -> None:
        self._until = 0.0

    def record_error(self, error: Exception) -> None:
        """What became of a write."""
        if isinstance(error, Fenced):
            self._until = asyncio.get_running_loop().time() + CLOSED_SECONDS

    @property
    def is_closed(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    async def wait_until_open(self) -> None:
        """Wait until it is worth trying again."""
        while self.is_closed:
            await asyncio.sleep(self._until - asyncio.get_running_loop().time())
