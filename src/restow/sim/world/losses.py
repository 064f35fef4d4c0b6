"""Losses: how long a controller whose pods are lost as soon as it makes them waits before it makes more.

    made ──lost at once──> pause 1 s ──made, lost at once──> 2 s, 4 s, ... LONGEST ──nothing lost for FORGET──> as new

Without a pause such a controller would make pods for ever, and on virtual time not a second would pass.
"""

from __future__ import annotations

import msgspec

FIRST = 1.0
LONGEST = 60.0
FORGET = 600.0


class _Pause(msgspec.Struct, frozen=True):
    seconds: float
    until: float


class Losses:
    """Who lost pods, and until when each of them pauses."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def note(self, who: str, now: float) -> None:
        """A pod was lost. Pods lost together cost one pause."""
        last = self._pauses.get(who)
        if last is not None and now < last.until:
            return
        for other in [each for each, pause in self._pauses.items() if now >= pause.until + FORGET]:
            del self._pauses[other]
        seconds = min(LONGEST, 2 * last.seconds) if last is not None and who in self._pauses else FIRST
        self._pauses[who] = _Pause(seconds, now + seconds)

    def wait(self, who: str, now: float) -> float:
        """Seconds until `who` should make pods again; 0 if it may."""
        pause = self._pauses.get(who)
        return max(0.0, pause.until - now) if pause else 0.0
