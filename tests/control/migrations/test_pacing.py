"""Turns to evict: at so many per second, also right after a restart."""

from __future__ import annotations

import pytest

from restow.control.migrations.pacing import Pacing


def test_everybody_gets_a_turn_and_keeps_it() -> None:
    pacing = Pacing(rate=2.0, burst=1)
    assert [pacing.delay(job, 100.0) for job in "abc"] == [0.0, 0.5, 1.0]
    assert pacing.delay("b", 100.25) == 0.25
    pacing.used("b")
    assert pacing.delay("b", 100.25) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("ages", "delay"),
    [
        ([], 0.0),
        ([60.0, 50.0], 0.0),
        ([2.0], 8.0),
        ([12.0, 2.0], 8.0),
        ([2.0, 2.0], 18.0),
        ([-3.0], 10.0),
    ],
    ids=["nobody", "long ago", "just now", "one after the other", "two at once", "by a clock that is ahead"],
)
def test_what_was_evicted_before_a_restart_counts(ages: list[float], delay: float) -> None:
    pacing = Pacing(rate=0.1, burst=1)
    pacing.remember(ages, 1000.0)
    assert pacing.delay("a", 1000.0) == pytest.approx(delay)
