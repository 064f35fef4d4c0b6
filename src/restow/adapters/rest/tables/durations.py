"""Time spans the way kubectl prints them: two significant units, coarser the longer they are."""

from __future__ import annotations

from restow.model.times import TimeError, parse_time

UNKNOWN = "<unknown>"
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: float) -> str:
    """How long a span is; a second of clock skew counts as now."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        return _two(whole, YEAR, "y", DAY, "d")
    return f"{whole // YEAR}y"


def _two(whole: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def age_since(timestamp: str, now: float) -> str:
    """The age of a timestamp; an absent one is unknown."""
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(timestamp))
    except TimeError:
        return "<invalid>"


def duration_between(start: str, end: str) -> str:
    try:
        return human_duration(parse_time(end) - parse_time(start))
    except TimeError:
        return "<invalid>"
