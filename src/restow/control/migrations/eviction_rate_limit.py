"""Pacing: whose turn it is to evict, at so many per second.

Every job that wants to evict gets a time; whoever comes first is first. Times are given once and kept until the job has
used its own, or gives up, or other numbers are configured. Who comes late may meet those whose time it is by then, so
what was sent counts beside what was given: nobody goes while there were as many as may, and who comes later than that
gets another time. Whoever used it in vain is put off, longer each time: the API server may go on to say yes when it is
only asked, and no when it is told. Who has not come back long after its time is not waited for: its job may have been
deleted on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from restow.client.rate_limit import TokenBucket

_SHORTEST, _LONGEST = 1.0, 30.0
"""Seconds that a job is put off."""
TURN_EXPIRES_AFTER = 5.0
"""Seconds after its time that a job may still come; many that were held up until then would all come at once."""
_KEPT = 600.0
"""Seconds that a time is kept in mind after it has come."""


class EvictionRateLimit:
    def __init__(self, rate: float, burst: int) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._sent = TokenBucket(rate, burst)
        self._turns: dict[str, float] = {}
        self._refused: dict[str, tuple[int, float]] = {}
        """How often in a row a job was refused, and until when it is put off."""

    @property
    def rate(self) -> float:
        return self._bucket.rate

    def record_earlier_evictions(self, ages: Iterable[float], now: float) -> None:
        """Evictions of others before us, so many seconds ago, have used up their share."""
        for age in sorted(ages, reverse=True):
            for bucket in (self._bucket, self._sent):
                bucket.take(now - max(age, 0.0))

    def configure(self, rate: float, burst: int, now: float) -> None:
        """Go by other numbers from now on. Who waits gets another time by them, in the same order; what was sent
        counts."""
        if (rate, burst) == (self._sent.rate, self._sent.burst):
            return
        self._sent.configure(rate, burst)
        self._bucket = copy(self._sent)
        waiting = sorted((turn, uid) for uid, turn in self._turns.items() if turn >= now - TURN_EXPIRES_AFTER)
        self._turns = {uid: now + self._bucket.take(now) for _, uid in waiting}

    def seconds_until_turn(self, uid: str, now: float) -> float:
        """The seconds until it is a job's turn."""
        turn = self._turns.get(uid)
        if turn is None or turn < now - TURN_EXPIRES_AFTER:
            self.give_up_turn(uid)
            self._clear_away(now)
            turn = self._turns[uid] = now + self._bucket.take(now)
        return max(turn - now, self._sent.delay(now))

    def try_send(self, uid: str, now: float) -> float:
        """A job sends its eviction, if as many as were sent allow that; the seconds until then, else 0."""
        if not self._sent.try_take(now):
            return self._sent.delay(now)
        self.give_up_turn(uid)
        return 0.0

    def give_up_turn(self, uid: str) -> None:
        self._turns.pop(uid, None)

    def record_refusal(self, uid: str, now: float) -> None:
        """A job's eviction was refused."""
        self._clear_away(now)
        times, _ = self._refused.pop(uid, (0, 0.0))
        self._refused[uid] = times + 1, now + min(_SHORTEST * 2 ** min(times, 10), _LONGEST)

    def refusal_backoff(self, uid: str, now: float) -> float:
        """The seconds that a job has to wait because it was refused."""
        _, until = self._refused.get(uid, (0, now))
        return max(until - now, 0.0)

    def forget(self, uid: str) -> None:
        """A job has evicted its pod, or has ended."""
        self.give_up_turn(uid)
        self._refused.pop(uid, None)

    def _clear_away(self, now: float) -> None:
        """Both are in the order of their times, or nearly so."""
        while self._turns and next(iter(self._turns.values())) + _KEPT < now:
            del self._turns[next(iter(self._turns))]
        while self._refused and next(iter(self._refused.values()))[1] + _KEPT < now:
            del self._refused[next(iter(self._refused))]
