"""Timestamps and durations on the wire."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.times import (
    TimeError,
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    parse_time,
    time_of,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1969-12-31T19:00:00-05:00", 0.0),
        ("2026-01-31t12:00:00z", 1769860800.0),
        ("2016-12-31T23:59:60Z", 1483228800.0),
        ("1970-01-01T00:00:00.123456Z", 0.123456),
    ],
)
def test_timestamps_are_parsed(text: str, seconds: float) -> None:
    assert parse_time(text) == time_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "written"),
    [("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"), ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z")],
    ids=["the first", "the last"],
)
def test_every_year_can_be_formatted(text: str, written: str) -> None:
    assert format_time(parse_time(text)) == written


@pytest.mark.parametrize("text", ["", "now", "2026-01-31", "2026-01-31T12:00:00", "2026-02-30T00:00:00Z", "1e9"])
def test_other_timestamps_are_refused(text: str) -> None:
    with pytest.raises(TimeError, match="time "):
        parse_time(text)
    assert time_of(text) is None


@given(st.integers(0, 2**33))
def test_whole_seconds_survive_a_round_trip(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_microseconds_survive_a_round_trip(moment: datetime) -> None:
    assert abs(parse_time(format_micro_time(moment.timestamp())) - moment.timestamp()) < 2e-6


def test_metadata_times_have_whole_seconds() -> None:
    assert format_time(1769860800.999) == "2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600s", 600), ("1h30m", 5400), ("1.5h", 5400), ("-2m", -120), ("0", 0), ("250ms", 0.25), ("1h0m0.5s", 3600.5)],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5x", "s", "1 h", "1d", "--1s", "9" * 12 + "h", "9" * 5000 + "h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(TimeError, match="duration "):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (600, "10m0s"), (5400, "1h30m0s"), (1.5, "1.5s"), (0.25, "250ms"), (-90, "-1m30s"), (2e-6, "2µs")],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(10**9), 10**9))
def test_durations_survive_a_round_trip(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000
