"""The event loop of commands that talk to a cluster for long: uvloop's where it is installed, which the extra `speed`
does, else asyncio's. With TLS a call costs about a third less of our CPU time on it; nothing else differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`."""
    with asyncio.Runner(loop_factory=fastest()) as runner:
        return runner.run(work)


def fastest() -> LoopFactory:
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    from uvloop import new_event_loop

    return new_event_loop
