"""Lateness: whatever can take long asks again and again whether time is up, and ends with what it has."""

from __future__ import annotations

from collections.abc import Callable

Late = Callable[[], bool]
"""Whether time is up."""


def never() -> bool:
    return False
