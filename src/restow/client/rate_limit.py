"""A token bucket for steady rates, and exponential back-off with full jitter for failures.

Time and randomness are arguments; waiting uses asyncio.
"""

from __future__ import annotations

import asyncio
from random import Random

_ROUNDING = 1e-7
"""In tokens. After waiting for the returned delay, rounding errors must not make a token unavailable."""


class TokenBucket:
    """Allows `burst` tokens at once and `rate` per second after that."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    def configure(self, rate: float, burst: int) -> None:
        """Change rate and burst; tokens that were taken stay taken."""
        self._tokens += burst - self.burst
        self.rate, self.burst = rate, burst

    def take(self, now: float) -> float:
        """Take one token in advance; returns the seconds to wait until it is available, 0 if it is now."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    def try_take(self, now: float) -> bool:
        """Take one token if one is available."""
        self._refill(now)
        if self._tokens < 1 - _ROUNDING:
            return False
        self._tokens -= 1
        return True

    def delay(self, now: float) -> float:
        """The seconds until a token is available, if none is taken before."""
        self._refill(now)
        missing = 1 - self._tokens
        return missing / self.rate if missing > _ROUNDING else 0.0

    async def wait(self) -> None:
        """Take one token and wait until it is available."""
        delay = self.take(asyncio.get_running_loop().time())
        if delay > 0:
            await asyncio.sleep(delay)

    def _refill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.rate)
        self._at = now


class JitteredBackoff:
    """Random delays from [0, min(cap, base * 2^failures)], so that clients do not retry at the same moment."""

    def __init__(self, rng: Random, *, base: float = 1.0, cap: float = 30.0) -> None:
        self.base = base
        self.cap = cap
        self.failures = 0
        self._rng = rng

    def next_delay(self) -> float:
        ceiling = min(self.cap, self.base * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return self._rng.uniform(0.0, ceiling)

    def reset(self) -> None:
        self.failures = 0
