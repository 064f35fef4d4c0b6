"""The eviction rate limit: when each job may evict, at evictQPS evictions per second with bursts of evictBurst.

Goes in: the UIDs of jobs that want to evict, and the evictions that were sent. Comes out: how long each has to wait.

- Every job that wants to evict gets a turn, which is a time; first come, first served. It keeps the turn until it has
  sent its eviction, has ended, or other numbers are configured.
- A job that is late for its turn may meet jobs whose turn has come by then. So evictions that were sent are limited as
  well as turns that were given; and a job that is later than TURN_EXPIRES_AFTER gets another turn.
- A job whose eviction was refused is put off, longer each time: the API server may allow every dry run and refuse every
  eviction, and the job would use up the turns of others.
- A job may be deleted while it has a turn, so turns that were not used are dropped after a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from restow.client.rate_limit import TokenBucket

_SHORTEST, _LONGEST = 1.0, 30.0
"""Seconds for which a job is put off after a refusal."""
TURN_EXPIRES_AFTER = 5.0
"""Seconds for which a job may be late for its turn. If it were longer, many jobs that were held back until then could
    send their evictions all at once."""
_KEPT = 600.0
"""Seconds after which a turn, or a refusal, that was not followed by anything is dropped."""


class EvictionRateLimit:
    def __init__(self, rate: float, burst: int) -> None:
        self._given = TokenBucket(rate, burst)
        self._sent = TokenBucket(rate, burst)
        self._turns: dict[str, float] = {}
        self._refused: dict[str, tuple[int, float]] = {}
        """How often in a row the eviction of a job was refused, and until when the job is put off; by UID."""

    @property
    def rate(self) -> float:
        return self._given.rate

    def record_earlier_evictions(self, ages: Iterable[float], now: float) -> None:
        """Evictions that another leader sent so many seconds ago count as well."""
        for age in sorted(ages, reverse=True):
            for bucket in (self._given, self._sent):
                bucket.take(now - max(age, 0.0))

    def configure(self, rate: float, burst: int, now: float) -> None:
        """Go by other numbers from now on. Waiting jobs get new turns, in the same order; evictions that were sent
        still count."""
        if (rate, burst) == (self._sent.rate, self._sent.burst):
            return
        self._sent.configure(rate, burst)
        self._given = copy(self._sent)
        waiting = sorted((turn, uid) for uid, turn in self._turns.items() if turn >= now - TURN_EXPIRES_AFTER)
        self._turns = {uid: now + self._given.take(now) for _, uid in waiting}

    def seconds_until_turn(self, uid: str, now: float) -> float:
        """The seconds until a job's turn; the first call gives it one."""
        turn = self._turns.get(uid)
        if turn is None or turn < now - TURN_EXPIRES_AFTER:
            self.give_up_turn(uid)
            self._drop_old(now)
            turn = self._turns[uid] = now + self._given.take(now)
        return max(turn - now, self._sent.delay(now))

    def try_send(self, uid: str, now: float) -> float:
        """Count the eviction that a job is about to send, if the evictions that were sent allow it: then 0. Else the
        seconds until they do."""
        if not self._sent.try_take(now):
            return self._sent.delay(now)
        self.give_up_turn(uid)
        return 0.0

    def give_up_turn(self, uid: str) -> None:
        self._turns.pop(uid, None)

    def record_refusal(self, uid: str, now: float) -> None:
        """The API server refused a job's eviction: put the job off."""
        self._drop_old(now)
        times, _ = self._refused.pop(uid, (0, 0.0))
        self._refused[uid] = times + 1, now + min(_SHORTEST * 2 ** min(times, 10), _LONGEST)

    def refusal_backoff(self, uid: str, now: float) -> float:
        """The seconds for which a job is still put off."""
        _, until = self._refused.get(uid, (0, now))
        return max(until - now, 0.0)

    def forget(self, uid: str) -> None:
        """A job has evicted its pod, or has ended."""
        self.give_up_turn(uid)
        self._refused.pop(uid, None)

    def _drop_old(self, now: float) -> None:
        """Both dicts are nearly in the order of their times, so it is enough to look at the first entries."""
        while self._turns and next(iter(self._turns.values())) + _KEPT < now:
            del self._turns[next(iter(self._turns))]
        while self._refused and next(iter(self._refused.values()))[1] + _KEPT < now:
            del self._refused[next(iter(self._refused))]
