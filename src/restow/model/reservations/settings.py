"""The `reservations` section of the configuration.

Goes in: the section as a map. Comes out: `ReservationSettings`, checked; all mistakes are reported at once, with their
paths.

    reservations:
      expiryCheck: 1s        between two checks of reservations that may have expired
      gcPeriod: 1m           between two checks of reservations that have ended
      gcDuration: 24h        how long one that has ended is kept
      namespaceShare: 50     how much of the cluster one namespace may hold, in percent of every resource
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from restow.model.objects import Duration
from restow.model.problems import Problem
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable

SECTION: Final = "reservations"
SHORTEST_PERIOD: Final = 0.1
_PERIODS = ("expiryCheck", "gcPeriod")


class ReservationsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The section as written."""

    expiry_check: Duration = "1s"
    gc_period: Duration = "1m"
    gc_duration: Duration = "24h"
    namespace_share: int = 50


class ReservationSettings(msgspec.Struct, frozen=True):
    """Times in seconds, the share in percent."""

    expiry_check: float
    gc_period: float
    gc_duration: float
    namespace_share: int


def read_reservation_settings(section: Mapping[str, Any]) -> ReservationSettings:
    """Parse and check the section. Raises WireError."""
    written, problems = convert_readable(ReservationsSection, section, SECTION)
    problems += _problems(written)
    if problems:
        raise WireError(SECTION, problems)
    return ReservationSettings(
        parse_duration(written.expiry_check),
        parse_duration(written.gc_period),
        parse_duration(written.gc_duration),
        written.namespace_share,
    )


def _problems(written: ReservationsSection) -> Iterator[Problem]:
    for name, text in zip(_PERIODS, (written.expiry_check, written.gc_period), strict=True):
        if parse_duration(text) < SHORTEST_PERIOD:
            yield Problem(name, f"{text} is shorter than 100ms")
    if parse_duration(written.gc_duration) < 0:
        yield Problem("gcDuration", f"{written.gc_duration} is negative")
    if not 0 <= written.namespace_share <= 100:
        yield Problem("namespaceShare", f"{written.namespace_share} is not between 0 and 100")
