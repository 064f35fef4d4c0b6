from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migration.limits import (
    EvictionWindow,
    MigrationLimits,
    max_evicted_in_window,
    max_unavailable,
    too_few_replicas,
)


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
def test_max_unavailable_by_configuration_or_default_ladder(
    replicas: int, configured: int | str | None, most: int
) -> None:
    assert max_unavailable(replicas, configured) == most


@given(st.integers(0, 1000), st.integers(0, 100))
def test_more_replicas_never_allow_fewer_unavailable(replicas: int, percent: int) -> None:
    assert max_unavailable(replicas, f"{percent}%") <= max_unavailable(replicas + 1, f"{percent}%")
    assert max_unavailable(replicas, None) <= max_unavailable(replicas + 1, None)


@pytest.mark.parametrize(
    ("window", "limits", "most"),
    [
        (EvictionWindow(300), MigrationLimits(), 2),
        (EvictionWindow(300), MigrationLimits(per_workload="50%"), 5),
        (EvictionWindow(300, 1), MigrationLimits(per_workload="50%"), 1),
        (EvictionWindow(300, 0), MigrationLimits(per_workload=3), 3),
        (EvictionWindow(300, "0%"), MigrationLimits(per_workload=3), 3),
    ],
)
def test_max_evicted_in_a_window_of_ten_replicas(window: EvictionWindow, limits: MigrationLimits, most: int) -> None:
    assert max_evicted_in_window(10, window, limits) == most


@pytest.mark.parametrize(
    ("replicas", "limits", "reason"),
    [
        (1, MigrationLimits(), None),
        (1, MigrationLimits(refuse_small_workloads=True), "its workload has a single replica"),
        (
            2,
            MigrationLimits(refuse_small_workloads=True, per_workload=2),
            "all 2 replicas of its workload could be unavailable at once: maxMigratingPerWorkload allows 2",
        ),
        (3, MigrationLimits(refuse_small_workloads=True), None),
    ],
)
def test_small_workloads_are_refused_with_the_reason_if_configured(
    replicas: int, limits: MigrationLimits, reason: str | None
) -> None:
    assert too_few_replicas(replicas, limits) == reason
