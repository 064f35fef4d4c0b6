from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migration.limits import Limits, Window, most_evicted, most_missing, smallness


@pytest.mark.parametrize(
    ("replicas", "configured", "most"),
    [
        (0, None, 1),
        (1, None, 1),
        (3, None, 1),
        (4, None, 2),
        (10, None, 2),
        (11, None, 2),
        (20, None, 2),
        (21, None, 3),
        (100, None, 10),
        (6, "80%", 5),
        (6, "10%", 1),
        (6, "0%", 0),
        (6, "150%", 9),
        (6, 5, 5),
        (6, 0, 0),
    ],
)
def test_how_many_may_be_missing(replicas: int, configured: int | str | None, most: int) -> None:
    assert most_missing(replicas, configured) == most


@given(st.integers(0, 1000), st.integers(0, 100))
def test_more_replicas_never_mean_fewer_missing(replicas: int, percent: int) -> None:
    assert most_missing(replicas, f"{percent}%") <= most_missing(replicas + 1, f"{percent}%")
    assert most_missing(replicas, None) <= most_missing(replicas + 1, None)


@pytest.mark.parametrize(
    ("window", "limits", "most"),
    [
        (Window(300), Limits(), 2),
        (Window(300), Limits(migrating="50%"), 5),
        (Window(300, 1), Limits(migrating="50%"), 1),
        (Window(300, 0), Limits(migrating=3), 3),
        (Window(300, "0%"), Limits(migrating=3), 3),
    ],
)
def test_how_many_of_ten_may_be_evicted_within_a_window(window: Window, limits: Limits, most: int) -> None:
    assert most_evicted(10, window, limits) == most


@pytest.mark.parametrize(
    ("replicas", "limits", "reason"),
    [
        (1, Limits(), None),
        (1, Limits(spare_small=True), "its workload has a single replica"),
        (
            2,
            Limits(spare_small=True, migrating=2),
            "all 2 replicas of its workload could be missing at once: maxMigratingPerWorkload allows 2",
        ),
        (3, Limits(spare_small=True), None),
    ],
)
def test_small_workloads_are_spared_on_request(replicas: int, limits: Limits, reason: str | None) -> None:
    assert smallness(replicas, limits) == reason
