"""How fast and how often: a token bucket for steady rates, exponential back-off with full jitter for failures.

Both are told the time or the randomness by their caller; waiting is asyncio's.
"""

from __future__ import annotations

import asyncio
from random import Random

_ROUNDING = 1e-7
"""Tokens: who has waited for one must not find that a trifle of it is missing."""


class TokenBucket:
    """Lets `burst` through at once and `rate` per second after that."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    def configure(self, rate: float, burst: int) -> None:
        """Go by other numbers from now on; what was taken stays taken."""
        self._tokens += burst - self.burst
        self.rate, self.burst = rate, burst

    def take(self, now: float) -> float:
        """Take one token; the seconds to wait until it is really there (0 when it is there already)."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    def try_take(self, now: float) -> bool:
        """Take one token if there is one."""
        self._refill(now)
        if self._tokens < 1 - _ROUNDING:
            return False
        self._tokens -= 1
        return True

    def delay(self, now: float) -> float:
        """The seconds until there is a token, if nobody takes one before."""
        self._refill(now)
        missing = 1 - self._tokens
        return missing / self.rate if missing > _ROUNDING else 0.0

    async def wait(self) -> None:
        """Wait for one's turn."""
        delay = self.take(asyncio.get_running_loop().time())
        if delay > 0:
            await asyncio.sleep(delay)

    def _refill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.rate)
        self._at = now


class JitteredBackoff:
    """Delays drawn from [0, min(cap, base * 2^failures)]: spread out, so that clients do not come back together."""

    def __init__(self, rng: Random, *, base: float = 1.0, cap: float = 30.0) -> None:
        self.base = base
        self.cap = cap
        self.failures = 0
        self._rng = rng

    def next(self) -> float:
        ceiling = min(self.cap, self.base * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return self._rng.uniform(0.0, ceiling)

    def reset(self) -> None:
        self.failures = 0
