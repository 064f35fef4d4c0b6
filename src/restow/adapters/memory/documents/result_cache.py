"""A cache of results by value.

Pods of one workload have equal specifications, so the result of validating one, or of working out its managedFields,
holds for all. Keys are encoded values, so nothing depends on identity; the oldest half goes when the cache is full.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
_ENCODE = msgspec.json.Encoder().encode


class ResultCache(Generic[T]):
    """`get_or_compute(value, compute)` is `compute()`, called once for equal values while the result is cached."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int = 1024) -> None:
        self._known: dict[bytes, T] = {}
        self._limit = limit

    def get_or_compute(self, value: Any, compute: Callable[[], T]) -> T:
        key = _ENCODE(value)
        if key in self._known:
            return self._known[key]
        result = compute()
        if len(self._known) >= self._limit:
            for old in list(islice(self._known, self._limit // 2)):
                del self._known[old]
        self._known[key] = result
        return result
