"""Turns to evict: at so many per second, also right after a restart."""

from __future__ import annotations

import pytest

from restow.control.migrations.eviction_rate_limit import EvictionRateLimit


def test_each_job_gets_a_turn_and_keeps_it() -> None:
    rate_limit = EvictionRateLimit(rate=2.0, burst=1)
    assert [rate_limit.seconds_until_turn(job, 100.0) for job in "abc"] == [0.0, 0.5, 1.0]
    assert rate_limit.seconds_until_turn("b", 100.25) == 0.25
    rate_limit.give_up_turn("b")
    assert rate_limit.seconds_until_turn("b", 100.25) == pytest.approx(1.25)


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
    ids=["none", "long ago", "just now", "one after the other", "two at once", "by a clock that is ahead"],
)
def test_evictions_before_a_restart_count(ages: list[float], delay: float) -> None:
    rate_limit = EvictionRateLimit(rate=0.1, burst=1)
    rate_limit.record_earlier_evictions(ages, 1000.0)
    assert rate_limit.seconds_until_turn("a", 1000.0) == pytest.approx(delay)


def test_a_refused_job_is_put_off_longer_each_time_until_it_evicts() -> None:
    rate_limit, waits = EvictionRateLimit(10, 1), []
    for now in (0.0, 10.0, 20.0):
        rate_limit.record_refusal("a", now)
        waits.append(
            (
                rate_limit.refusal_backoff("a", now),
                rate_limit.refusal_backoff("a", now + 3),
                rate_limit.refusal_backoff("b", now),
            )
        )
    assert waits == [(1.0, 0.0, 0.0), (2.0, 0.0, 0.0), (4.0, 1.0, 0.0)]
    rate_limit.forget("a")
    assert rate_limit.refusal_backoff("a", 20.0) == 0.0


def test_turns_of_jobs_that_never_return_are_dropped() -> None:
    """Jobs are deleted on the way."""
    rate_limit = EvictionRateLimit(rate=10.0, burst=1)
    for number in range(1000):
        now = number * 60.0
        rate_limit.seconds_until_turn(f"{number}", now)
        rate_limit.record_refusal(f"{number}", now)
    assert (len(rate_limit._turns), len(rate_limit._refused)) == (11, 11)
    assert rate_limit.refusal_backoff("999", now) == 1.0


def test_a_job_a_little_late_keeps_its_turn() -> None:
    rate_limit = EvictionRateLimit(rate=0.01, burst=1)
    for job in "abc":
        rate_limit.seconds_until_turn(job, 0.0)
    assert rate_limit.seconds_until_turn("b", 104.0) == 0.0


def test_jobs_held_back_beyond_their_turns_get_new_ones() -> None:
    """They would all come at once."""
    rate_limit = EvictionRateLimit(rate=0.01, burst=1)
    for job in "abc":
        rate_limit.seconds_until_turn(job, 0.0)
    assert [rate_limit.seconds_until_turn(job, 500.0) for job in "bca"] == [0.0, 100.0, 200.0]


def test_a_job_at_its_turn_waits_after_a_late_eviction() -> None:
    rate_limit = EvictionRateLimit(rate=0.1, burst=1)
    assert [rate_limit.seconds_until_turn(job, 0.0) for job in "ab"] == [0.0, 10.0]
    assert rate_limit.try_send("a", 4.0) == 0.0
    assert [rate_limit.seconds_until_turn("b", 10.0), rate_limit.try_send("b", 10.0)] == pytest.approx([4.0, 4.0])
    assert (rate_limit.seconds_until_turn("b", 14.0), rate_limit.try_send("b", 14.0)) == (0.0, 0.0)


def test_a_new_rate_gives_no_job_a_turn_twice() -> None:
    rate_limit = EvictionRateLimit(rate=0.1, burst=1)
    assert rate_limit.seconds_until_turn("a", 1000.0) == 0.0
    rate_limit.configure(0.1, 1, 1000.0)
    rate_limit.configure(0.2, 1, 1000.0)
    assert rate_limit.seconds_until_turn("b", 1000.0) == pytest.approx(5.0)
    rate_limit.configure(0.2, 3, 1000.0)
    assert [rate_limit.seconds_until_turn(job, 1000.0) for job in "cd"] == pytest.approx([0.0, 5.0])


def test_a_new_rate_gives_waiting_jobs_new_turns_in_order() -> None:
    rate_limit = EvictionRateLimit(rate=0.01, burst=1)
    assert [rate_limit.seconds_until_turn(job, 0.0) for job in "abcd"] == [0.0, 100.0, 200.0, 300.0]
    assert rate_limit.try_send("a", 0.0) == 0.0
    rate_limit.configure(0.1, 1, 5.0)
    assert [rate_limit.seconds_until_turn(job, 5.0) for job in "dcbe"] == pytest.approx([25.0, 15.0, 5.0, 35.0])
    rate_limit.configure(0.01, 1, 6.0)
    assert [rate_limit.seconds_until_turn(job, 6.0) for job in "bc"] == pytest.approx([49.0, 149.0])


def test_a_new_rate_drops_turns_that_were_missed() -> None:
    rate_limit = EvictionRateLimit(rate=0.01, burst=1)
    assert [rate_limit.seconds_until_turn(job, 0.0) for job in "ab"] == [0.0, 100.0]
    rate_limit.configure(0.1, 1, 50.0)
    assert rate_limit.seconds_until_turn("b", 50.0) == 0.0
