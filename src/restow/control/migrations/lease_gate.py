"""The lease gate: while a leader may not write, because its Lease was not renewed in time, it does not read in vain.

A leader is late with its Lease when it is overloaded, and more reads would delay the renewal further. So after a write
that was refused on our side (`Fenced`), all workers pause for a moment. The gate is only that pause: what keeps the
write from being sent is `client.fenced_api`.
"""

from __future__ import annotations

import asyncio

from restow.client.fenced_api import Fenced

CLOSED_SECONDS = 1.0
"""Seconds for which the gate stays closed after a refused write."""


class LeaseGate:
    def __init__(self) -> None:
        self._until = 0.0

    def record_error(self, error: Exception) -> None:
        """Close the gate if an error is that of a write that was not sent."""
        if isinstance(error, Fenced):
            self._until = asyncio.get_running_loop().time() + CLOSED_SECONDS

    @property
    def is_closed(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    async def wait_until_open(self) -> None:
        """Wait until a write may be tried again."""
        while self.is_closed:
            await asyncio.sleep(self._until - asyncio.get_running_loop().time())
