"""Back-off of pod creation: how long a controller waits that loses its pods right after it created them.

    made ──lost at once──> pause 1 s ──made, lost at once──> 2 s, 4 s, ... LONGEST ──nothing lost for FORGET──> as new

Without a pause such a controller would create pods for ever, and virtual time would stand still.
"""

from __future__ import annotations

import msgspec

FIRST = 1.0
LONGEST = 60.0
FORGET = 600.0


class _Pause(msgspec.Struct, frozen=True):
    seconds: float
    until: float


class CreationBackoff:
    """The controllers that lost pods, and until when each of them pauses."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def record_loss(self, creator: str, now: float) -> None:
        """A pod of this controller was lost. Pods lost together cost one pause."""
        last = self._pauses.get(creator)
        if last is not None and now < last.until:
            return
        for other in [each for each, pause in self._pauses.items() if now >= pause.until + FORGET]:
            del self._pauses[other]
        seconds = min(LONGEST, 2 * last.seconds) if last is not None and creator in self._pauses else FIRST
        self._pauses[creator] = _Pause(seconds, now + seconds)

    def seconds_left(self, creator: str, now: float) -> float:
        """Seconds until this controller should create pods again; 0 if it may now."""
        pause = self._pauses.get(creator)
        return max(0.0, pause.until - now) if pause else 0.0
