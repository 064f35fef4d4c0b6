"""Pacing: whose turn it is to evict, at so many per second.

Every job that wants to evict gets a time; whoever comes first is first. Times are given once and kept until the job has
used its own, or gives up.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.client.rate import TokenBucket


class Pacing:
    def __init__(self, rate: float, burst: int) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._turns: dict[str, float] = {}

    @property
    def rate(self) -> float:
        return self._bucket.rate

    def remember(self, ages: Iterable[float], now: float) -> None:
        """Evictions of others before us, so many seconds ago, have used up their share."""
        for age in sorted(ages, reverse=True):
            self._bucket.take(now - max(age, 0.0))

    def configure(self, rate: float, burst: int) -> None:
        """Go by other numbers from now on; times that were given stand."""
        if (rate, burst) != (self._bucket.rate, self._bucket.burst):
            self._bucket = TokenBucket(rate, burst)

    def delay(self, uid: str, now: float) -> float:
        """The seconds until it is a job's turn."""
        turn = self._turns.get(uid)
        if turn is None:
            turn = self._turns[uid] = now + self._bucket.take(now)
        return max(turn - now, 0.0)

    def used(self, uid: str) -> None:
        self._turns.pop(uid, None)
