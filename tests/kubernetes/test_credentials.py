"""Identities that expire, over a long time: how often they are fetched, and which requests have to wait."""

from __future__ import annotations

import asyncio

import pytest

from restow.adapters.kubernetes.credentials import ConfigError, Identity, RenewableCredentials
from restow.sim.loop import VirtualClock, run_virtual


class Slow(RenewableCredentials):
    """Every fetch takes 45 seconds; what it brings lasts for `life` seconds more. Some fetches fail."""

    def __init__(self, clock: VirtualClock, life: float, failing: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.clock = clock
        self.life = life
        self.failing = failing
        self.fetches = 0

    async def fetch(self) -> tuple[Identity, float | None]:
        self.fetches += 1
        number = self.fetches
        await asyncio.sleep(45)
        if number in self.failing:
            raise ConfigError("log in again")
        return Identity.bearer(f"t{number}"), self.clock.now() + self.life


def renewals(life: float, failing: frozenset[int] = frozenset()) -> tuple[int, int]:
    """Ask every two seconds for an hour with five seconds' patience, as a leader does; fetches and vain questions."""

    async def story() -> tuple[int, int]:
        clock = VirtualClock()
        source = Slow(clock, life, failing)
        await source.current(clock.now())
        vain = 0
        for _ in range(1800):
            await asyncio.sleep(2)
            try:
                async with asyncio.timeout(5):
                    await source.current(clock.now())
            except TimeoutError:
                vain += 1
        return source.fetches, vain

    return run_virtual(story())


@pytest.mark.parametrize(
    ("life", "failing", "fetches", "vain"),
    [
        pytest.param(900.0, frozenset(), 5, 0, id="no request waits for a slow log-in"),
        pytest.param(10_000.0, frozenset(), 1, 0, id="one that lasts is not fetched again"),
        pytest.param(900.0, frozenset({2}), 6, 6, id="a failed attempt ahead of time is made up for at the end"),
    ],
)
def test_a_leader_is_not_held_up_by_renewals(life: float, failing: frozenset[int], fetches: int, vain: int) -> None:
    assert renewals(life, failing) == (fetches, vain)


def test_a_fetch_that_fails_after_all_have_left_is_noticed_quietly(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        clock = VirtualClock()
        source = Slow(clock, 900, frozenset({1}))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await source.current(clock.now())
        await asyncio.sleep(60)

    with caplog.at_level("INFO"):
        run_virtual(story())
    assert [(record.levelname, record.message) for record in caplog.records] == [("INFO", "credentials not fetched")]
