"""How a controller computes something that takes a while: where it is, or beside the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Aside(Protocol):
    """How something is computed that takes a while."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


async def at_once(work: Callable[[], T], /) -> T:
    return work()
