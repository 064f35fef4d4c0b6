"""Turns to evict: at so many per second, also right after a restart."""

from __future__ import annotations

import pytest

from restow.control.migrations.eviction_rate_limit import EvictionRateLimit


def test_everybody_gets_a_turn_and_keeps_it() -> None:
    pacing = EvictionRateLimit(rate=2.0, burst=1)
    assert [pacing.seconds_until_turn(job, 100.0) for job in "abc"] == [0.0, 0.5, 1.0]
    assert pacing.seconds_until_turn("b", 100.25) == 0.25
    pacing.give_up_turn("b")
    assert pacing.seconds_until_turn("b", 100.25) == pytest.approx(1.25)


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
    pacing = EvictionRateLimit(rate=0.1, burst=1)
    pacing.record_earlier_evictions(ages, 1000.0)
    assert pacing.seconds_until_turn("a", 1000.0) == pytest.approx(delay)


def test_who_is_refused_is_put_off_longer_each_time_until_it_evicts() -> None:
    pacing, waits = EvictionRateLimit(10, 1), []
    for now in (0.0, 10.0, 20.0):
        pacing.record_refusal("a", now)
        waits.append(
            (pacing.refusal_backoff("a", now), pacing.refusal_backoff("a", now + 3), pacing.refusal_backoff("b", now))
        )
    assert waits == [(1.0, 0.0, 0.0), (2.0, 0.0, 0.0), (4.0, 1.0, 0.0)]
    pacing.forget("a")
    assert pacing.refusal_backoff("a", 20.0) == 0.0


def test_who_never_comes_back_is_not_kept_in_mind() -> None:
    """Jobs are deleted on the way."""
    pacing = EvictionRateLimit(rate=10.0, burst=1)
    for number in range(1000):
        now = number * 60.0
        pacing.seconds_until_turn(f"{number}", now)
        pacing.record_refusal(f"{number}", now)
    assert (len(pacing._turns), len(pacing._refused)) == (11, 11)
    assert pacing.refusal_backoff("999", now) == 1.0


def test_who_comes_a_little_late_to_its_turn_still_has_it() -> None:
    pacing = EvictionRateLimit(rate=0.01, burst=1)
    for job in "abc":
        pacing.seconds_until_turn(job, 0.0)
    assert pacing.seconds_until_turn("b", 104.0) == 0.0


def test_those_who_were_held_up_beyond_their_turns_get_others() -> None:
    """They would all come at once."""
    pacing = EvictionRateLimit(rate=0.01, burst=1)
    for job in "abc":
        pacing.seconds_until_turn(job, 0.0)
    assert [pacing.seconds_until_turn(job, 500.0) for job in "bca"] == [0.0, 100.0, 200.0]


def test_whose_turn_it_is_waits_for_who_was_late() -> None:
    pacing = EvictionRateLimit(rate=0.1, burst=1)
    assert [pacing.seconds_until_turn(job, 0.0) for job in "ab"] == [0.0, 10.0]
    assert pacing.try_send("a", 4.0) == 0.0
    assert [pacing.seconds_until_turn("b", 10.0), pacing.try_send("b", 10.0)] == pytest.approx([4.0, 4.0])
    assert (pacing.seconds_until_turn("b", 14.0), pacing.try_send("b", 14.0)) == (0.0, 0.0)


def test_other_numbers_give_nobody_a_turn_twice() -> None:
    pacing = EvictionRateLimit(rate=0.1, burst=1)
    assert pacing.seconds_until_turn("a", 1000.0) == 0.0
    pacing.configure(0.1, 1, 1000.0)
    pacing.configure(0.2, 1, 1000.0)
    assert pacing.seconds_until_turn("b", 1000.0) == pytest.approx(5.0)
    pacing.configure(0.2, 3, 1000.0)
    assert [pacing.seconds_until_turn(job, 1000.0) for job in "cd"] == pytest.approx([0.0, 5.0])


def test_other_numbers_are_for_those_who_wait_too_in_their_order() -> None:
    pacing = EvictionRateLimit(rate=0.01, burst=1)
    assert [pacing.seconds_until_turn(job, 0.0) for job in "abcd"] == [0.0, 100.0, 200.0, 300.0]
    assert pacing.try_send("a", 0.0) == 0.0
    pacing.configure(0.1, 1, 5.0)
    assert [pacing.seconds_until_turn(job, 5.0) for job in "dcbe"] == pytest.approx([25.0, 15.0, 5.0, 35.0])
    pacing.configure(0.01, 1, 6.0)
    assert [pacing.seconds_until_turn(job, 6.0) for job in "bc"] == pytest.approx([49.0, 149.0])


def test_those_who_did_not_come_are_not_waited_for_either() -> None:
    pacing = EvictionRateLimit(rate=0.01, burst=1)
    assert [pacing.seconds_until_turn(job, 0.0) for job in "ab"] == [0.0, 100.0]
    pacing.configure(0.1, 1, 50.0)
    assert pacing.seconds_until_turn("b", 50.0) == 0.0
