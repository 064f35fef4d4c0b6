"""An event loop on virtual time: waiting costs nothing, and the same program runs the same way every time.

In: a coroutine. Out: its result. While anything is ready the loop runs it and time stands still; when nothing is ready,
time jumps to the next timer. When there is no timer either, no task can ever run again, and the run ends with a
`Deadlock` that names the waiting tasks. File descriptors are polled but never waited for: a simulated world does no
real I/O.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Deadlock(RuntimeError):
    """Nothing is ready, nothing is scheduled: the waiting tasks wait for ever."""


class VirtualSelector(selectors.BaseSelector):
    """Replaces the blocking wait of the loop: returns at once and advances the loop's time instead."""

    def __init__(self) -> None:
        self.time = 0.0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready:
            return ready
        if timeout is None:
            raise Deadlock(_deadlock_message(self.loop))
        self.time = _advance(self.time, max(timeout, 0.0))
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that starts at time 0, which is `start` on the wall clock."""

    def __init__(self, start: float = EPOCH) -> None:
        self.start = start
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)
        self._virtual.loop = self

    def time(self) -> float:
        return self._virtual.time

    @property
    def _clock_resolution(self) -> float:
        """asyncio runs timers early by this much, because real clocks are coarse. On virtual time that would loop for
        ever: a task that checks the time and sleeps for the rest would wake up at once, again and again."""
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """asyncio sets what the real clock has."""


class VirtualClock:
    """ports.Clock on a virtual loop: wall time is the loop's start plus the time it has jumped over."""

    def __init__(self, loop: VirtualLoop | None = None) -> None:
        running = loop or asyncio.get_running_loop()
        if not isinstance(running, VirtualLoop):
            raise TypeError("VirtualClock needs a VirtualLoop: start the program with run_virtual")
        self._loop = running

    def now(self) -> float:
        return self._loop.start + self._loop.time()


def run_virtual(main: Coroutine[Any, Any, T], *, start: float = EPOCH) -> T:
    """Run `main` to its end on a virtual loop and return its result; tasks it leaves behind are cancelled."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(main)


def _advance(time: float, seconds: float) -> float:
    """The time so many seconds later, never rounded down: no timer comes early."""
    later = time + seconds
    return math.nextafter(later, math.inf) if later - time < seconds else later


def _deadlock_message(loop: asyncio.AbstractEventLoop | None) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()) if loop else []
    named = "; ".join(f"{task.get_name()} in {_task_position(task)}" for task in tasks) or "none"
    when = loop.time() if loop else 0.0
    return f"deadlock at {when:g}s: nothing is ready and nothing is scheduled; waiting tasks: {named}"


def _task_position(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    if not frames:
        return "an unknown place"
    return f"{frames[-1].f_code.co_qualname}:{frames[-1].f_lineno}"
