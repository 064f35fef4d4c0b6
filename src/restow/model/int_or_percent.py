"""IntOrString values that are a number or a percentage: 5, or "10%" of a total."""

from __future__ import annotations

import re

_PERCENT = re.compile(r"[0-9]{1,9}%", re.ASCII)


def int_or_percent_problem(value: int | str) -> str:
    """The problem of a value; "" if it is valid."""
    if isinstance(value, int):
        return "" if value >= 0 else f"must not be negative, is {value}"
    return "" if _PERCENT.fullmatch(value) else f"expected a number or a percentage such as 25%, got {value!r}"


def scaled_int_or_percent(value: int | str | None, of: int, *, up: bool) -> int:
    """A number as it is, or a percentage of `of`, rounded up or down."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-of * percent // 100) if up else of * percent // 100
