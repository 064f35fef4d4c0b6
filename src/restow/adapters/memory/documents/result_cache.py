"""What was worked out about a value once, kept for the next equal one.

Pods of one workload have equal specifications, so what validation and ownership find out about one holds for all. Keys
are encoded values, so nothing depends on identity; the oldest half is forgotten when there are too many.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
_ENCODE = msgspec.json.Encoder().encode


class ResultCache(Generic[T]):
    """`of(value, work)` is `work()`, worked out at most once for equal values while it is remembered."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int = 1024) -> None:
        self._known: dict[bytes, T] = {}
        self._limit = limit

    def get_or_compute(self, value: Any, work: Callable[[], T]) -> T:
        key = _ENCODE(value)
        if key in self._known:
            return self._known[key]
        result = work()
        if len(self._known) >= self._limit:
            for old in list(islice(self._known, self._limit // 2)):
                del self._known[old]
        self._known[key] = result
        return result
