"""Time on the wire: RFC 3339 timestamps and Go duration strings, to and from seconds. No clock is read here."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LONGEST_DURATION = 1000  # characters; no real duration is longer, and numbers of thousands of digits cannot be parsed
MAX_DURATION_SECONDS = (2**63 - 1) // 10**9


class TimeError(ValueError):
    """The text is not a timestamp or a duration; the message quotes it and says what is wrong."""


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float:
    """Seconds since the Unix epoch of an RFC 3339 timestamp."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise TimeError(f"time {text[:40]!r}: expected RFC 3339, such as 2026-01-31T12:00:00Z")
    *numbers, fraction, _, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError as error:
        raise TimeError(f"time {text!r}: {error}") from None
    offset = (int(hours) * 3600 + int(minutes) * 60) * (1 if sign == "+" else -1) if sign else 0
    whole = int(moment.timestamp()) + (second - min(second, 59)) - offset
    return whole + float(f"0.{fraction}") if fraction else float(whole)


def time_of(text: str | None) -> float | None:
    """The same; None where there is none, or none that can be read."""
    try:
        return parse_time(text) if text else None
    except TimeError:
        return None


def format_time(seconds: float) -> str:
    """An RFC 3339 timestamp in UTC with whole seconds, as metav1.Time is written; no later than it can say."""
    return _format_second(min(int(seconds // 1), LAST_SECOND))


LAST_SECOND = 253_402_300_799
"""Of the year 9999, in UTC; west of it that year lasts longer."""


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat() + "Z"


def format_micro_time(seconds: float) -> str:
    """An RFC 3339 timestamp in UTC with microseconds, as metav1.MicroTime (Lease, Event) is written."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> float:
    """Seconds of a Go duration string, such as "600s", "1h30m" or "-1.5h"."""
    if len(text) > _LONGEST_DURATION or _DURATION.fullmatch(text) is None:
        raise TimeError(f"duration {text[:40]!r}: expected numbers with units (ns us ms s m h), such as 600s or 1h30m")
    nanoseconds = sum(_part_nanoseconds(number, unit) for number, unit in _DURATION_PART.findall(text))
    if nanoseconds > MAX_DURATION_SECONDS * 10**9:
        raise TimeError(f"duration {text[:40]!r}: longer than 292 years")
    seconds = nanoseconds / 10**9
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """A Go duration string the way Go prints it: "1h30m0s", "1.5s", "250ms", "0s"."""
    nanoseconds = round(abs(seconds) * 10**9)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds < 10**9:
        return sign + _below_a_second(nanoseconds)
    whole, rest = divmod(nanoseconds, 10**9)
    hours, whole = divmod(whole, 3600)
    minutes, whole = divmod(whole, 60)
    text = f"{whole}{_decimals(rest, 9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _part_nanoseconds(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    scale = _NANOSECONDS[unit]
    return int(whole or "0") * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def _below_a_second(nanoseconds: int) -> str:
    if not nanoseconds:
        return "0s"
    for unit, digits in (("ms", 6), ("µs", 3)):
        if nanoseconds >= 10**digits:
            whole, rest = divmod(nanoseconds, 10**digits)
            return f"{whole}{_decimals(rest, digits)}{unit}"
    return f"{nanoseconds}ns"


def _decimals(rest: int, digits: int) -> str:
    return f".{rest:0{digits}d}".rstrip("0") if rest else ""
