"""Token bucket and exponential back-off."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from restow.client.rate_limit import JitteredBackoff, TokenBucket
from restow.sim.loop import run_virtual


@given(st.lists(st.floats(0, 10), max_size=50), st.floats(0.1, 100), st.integers(1, 20))
def test_never_more_than_burst_and_rate_allow(pauses: list[float], rate: float, burst: int) -> None:
    bucket = TokenBucket(rate, burst)
    now, taken = 0.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.try_take(now)
        assert taken <= burst + now * rate + 1e-6


@given(st.floats(0.01, 100), st.integers(1, 5), st.floats(0, 1e6))
def test_token_is_available_after_the_returned_delay(rate: float, burst: int, start: float) -> None:
    bucket = TokenBucket(rate, burst)
    now = start
    for _ in range(burst + 3):
        now += bucket.delay(now)
        assert bucket.try_take(now)
    assert not bucket.try_take(now)


def test_waiters_get_tokens_in_order() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(rate=2, burst=2)

        async def turn() -> float:
            await bucket.wait()
            return loop.time()

        return await asyncio.gather(*(turn() for _ in range(5)))

    assert run_virtual(story()) == [0.0, 0.0, 0.5, 1.0, 1.5]


@given(st.integers())
def test_backoff_grows_to_the_cap_and_restarts_after_reset(seed: int) -> None:
    backoff = JitteredBackoff(Random(seed), base=1, cap=8)
    assert all(0 <= backoff.next_delay() <= ceiling for ceiling in (1, 2, 4, 8, 8, 8))
    backoff.reset()
    assert backoff.next_delay() <= 1
