"""The signal that something changed. It wakes the scheduling loop and the binding cycles that wait.

Goes in: a call for every change. Comes out: waiting tasks that run again and look for themselves; the signal does not
say what has changed.
"""

from __future__ import annotations

import asyncio


class ChangeSignal:
    def __init__(self) -> None:
        self._loop_wakeup = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []

    def notify_all(self) -> None:
        """An object changed in the API: wake the scheduling loop and all waiting binding cycles."""
        self.wake_scheduling_loop()
        self.wake_binding_cycles()

    # --- the scheduling loop ------------------------------------------------------------------------------------------

    def wake_scheduling_loop(self) -> None:
        """Let the loop look at the queue again, because of something that no event of the API brings."""
        self._loop_wakeup.set()

    def reset(self) -> None:
        """Called by the loop before it looks at the queue, so that it sees every change from now on."""
        self._loop_wakeup.clear()

    async def wait_for_wakeup(self) -> None:
        """Called by the loop when there is nothing to do: wait for the first change since `reset`."""
        await self._loop_wakeup.wait()

    # --- binding cycles -----------------------------------------------------------------------------------------------

    def wake_binding_cycles(self) -> None:
        """Let all binding cycles that wait look again at what they wait for."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_change(self, timeout: float) -> None:
        """Called by a binding cycle: wait for the next change, `timeout` seconds at most."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await asyncio.wait((waiter,), timeout=timeout)
        if not waiter.done():
            self._waiting.remove(waiter)
