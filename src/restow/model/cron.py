"""Cron schedules: five fields (or @hourly and its like) and a time zone in, the times before and after a moment out.

The dialect is the one Kubernetes reads: lists, ranges, steps and names; day of month and day of week are both demanded
if one of them is `*`, and either is enough otherwise. A time that clocks skip when they are put forward does not come,
one that they show twice when they are put back comes twice: what runs every hour runs every hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

_MONTHS = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FARTHEST = 366 * 8 + 1  # days from one 29 February to the next, at most


class CronError(ValueError):
    """The text is not a schedule or not a time zone; the message says what is wrong."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    minutes: list[int]
    hours: list[int]
    days: list[int]
    months: list[int]
    weekdays: list[int]
    either_day: bool  # one of day of month and day of week is enough
    zone: tzinfo

    def after(self, moment: float) -> float | None:
        """The first time later than the moment; None if there is none, as on 30 February."""
        return next((time for time in self._times(moment, 1) if time > moment), None)

    def until(self, moment: float) -> float | None:
        """The last time that is not later than the moment."""
        return next((time for time in self._times(moment, -1) if time <= moment), None)

    def _times(self, moment: float, direction: int) -> Iterator[float]:
        today = datetime.fromtimestamp(moment, self.zone).date()
        for number in range(_FARTHEST):
            day = today + timedelta(days=direction * number)
            if self._falls_on(day):
                times = self._times_on(day, direction)
                if self._is_long_or_short(day):
                    yield from sorted(_shown(times), reverse=direction < 0)
                else:
                    yield from (time.timestamp() for time in times)

    def _times_on(self, day: date, direction: int) -> Iterator[datetime]:
        for hour in self.hours[::direction]:
            for minute in self.minutes[::direction]:
                yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)

    def _is_long_or_short(self, day: date) -> bool:
        """Whether clocks are put forward or back on a day."""
        begins = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        return begins.utcoffset() != (begins + timedelta(days=1)).utcoffset()

    def _falls_on(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (of_month or of_week if self.either_day else of_month and of_week)


def _shown(times: Iterable[datetime]) -> set[float]:
    """When clocks show these times: once, twice or never."""
    both = (time.replace(fold=fold) for time in times for fold in (0, 1))
    return {time.timestamp() for time in both if datetime.fromtimestamp(time.timestamp(), time.tzinfo) == time}


def parse_schedule(text: str, zone: str | None = None) -> Schedule:
    """Raises CronError."""
    fields = _SHORT.get(text, text).split()
    if len(fields) != 5:
        raise CronError(f"schedule {text!r}: expected five fields or one of {', '.join(_SHORT)}")
    return Schedule(
        minutes=_numbers(fields[0], range(60)),
        hours=_numbers(fields[1], range(24)),
        days=_numbers(fields[2], range(1, 32)),
        months=_numbers(fields[3], range(1, 13), _MONTHS),
        weekdays=_numbers(fields[4], range(7), _WEEKDAYS),
        either_day=not {"*", "?"} & {*fields[2].split(","), *fields[4].split(",")},
        zone=parse_zone(zone),
    )


def parse_zone(name: str | None) -> tzinfo:
    """The time zone of this name; UTC without one. Raises CronError."""
    try:
        return ZoneInfo(name) if name else UTC
    except (LookupError, ValueError, OSError):
        raise CronError(f"time zone {name!r} is not known") from None


def _numbers(field: str, possible: range, names: list[str] | None = None) -> list[int]:
    """Every number that a field stands for."""

    def place(text: str) -> int:
        return possible.index(names.index(text.lower()) if names and text.lower() in names else int(text))

    values: set[int] = set()
    try:
        for part in field.split(","):
            span, stepped, step = part.partition("/")
            first, ranged, last = span.partition("-")
            every = span in ("*", "?")
            start = 0 if every else place(first)
            end = place(last) if ranged else len(possible) - 1 if every or stepped else start
            numbers = possible[start : end + 1 : int(step) if stepped else 1]
            if not numbers:
                raise ValueError(part)
            values.update(numbers)
    except ValueError:
        raise CronError(f"{field!r}: expected numbers from {possible[0]} to {possible[-1]}, ranges, steps") from None
    return sorted(values)
