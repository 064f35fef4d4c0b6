"""Executors: where a controller runs a computation that takes a while, in its event loop or in a background thread.

Goes in: a function without arguments. Comes out: an awaitable of its result. Controllers get their executor as an
argument, because tests on virtual time must compute inline, while `restow run` computes plans in a thread so that
Leases are renewed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

T = TypeVar("T")


class Executor(Protocol):
    """Runs a computation that takes a while and hands back its result."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


async def run_inline(work: Callable[[], T], /) -> T:
    """Run the computation in the event loop; nothing else runs until it has ended."""
    return work()


def uncancellable(executor: Executor) -> Executor:
    """An executor that returns or raises only after the computation has ended, even if its caller is cancelled.

    A thread cannot be stopped, and it works on a snapshot that the event loop must not change under it: so a
    cancelled caller waits for the end of the computation before the cancellation takes effect.
    """

    async def run_to_end(work: Callable[[], T], /) -> T:
        computation = asyncio.ensure_future(executor(work))
        try:
            return await asyncio.shield(computation)
        finally:
            while not computation.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((computation,))

    return run_to_end
