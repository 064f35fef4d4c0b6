"""What a benchmark says: rows of subject and peers, with ratios, and the claims that must hold."""

from __future__ import annotations

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measured subject. `ratio` says how many times the cost (or the rate) of the first row this is."""

    what: str
    figures: dict[str, float]
    ratio: float | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that must be reached: `measured` against `wanted`."""

    what: str
    wanted: float
    measured: float
    at_least: bool = True

    @property
    def holds(self) -> bool:
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one benchmark."""

    name: str
    rows: list[Row]
    claims: list[Claim] = []
