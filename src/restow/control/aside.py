"""How a controller computes something that takes a while: where it is, or beside the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

T = TypeVar("T")


class Aside(Protocol):
    """How something is computed that takes a while."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


async def at_once(work: Callable[[], T], /) -> T:
    return work()


def to_its_end(aside: Aside) -> Aside:
    """The same, also for those who are cancelled meanwhile: no thread can be stopped, and what it works on is nobody
    else's until it has ended."""

    async def whole(work: Callable[[], T], /) -> T:
        begun = asyncio.ensure_future(aside(work))
        try:
            return await asyncio.shield(begun)
        finally:
            while not begun.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((begun,))

    return whole
