"""Numbers that may be written as a percentage: 5, or "10%" of something."""

from __future__ import annotations

import re

_PERCENT = re.compile(r"[0-9]{1,9}%", re.ASCII)


def fraction_problem(value: int | str) -> str:
    """What is wrong with it; "" if nothing."""
    if isinstance(value, int):
        return "" if value >= 0 else f"must not be negative, is {value}"
    return "" if _PERCENT.fullmatch(value) else f"expected a number or a percentage such as 25%, got {value!r}"


def fraction(value: int | str | None, of: int, *, up: bool) -> int:
    """A number as it is, or a percentage of `of`, rounded up or down."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-of * percent // 100) if up else of * percent // 100
