"""Benchmarks that run by themselves come to an end, at sizes at which they measure nothing."""

from __future__ import annotations

import pytest

from bench import reservations


@pytest.mark.parametrize("which", [reservations.PLAIN, reservations.RESERVED])
def test_all_pods_are_bound_and_all_seats_marked(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"RESERVATIONS": 3, "PODS": 3 * reservations.SEATS, "RUNNING_NODES": 5, "SETTLE_SECONDS": 0.1}
    for name, value in (small | {"WAIT_SECONDS": 30.0}).items():
        monkeypatch.setattr(reservations, name, value)
    assert reservations.running(which)()["pods_per_s"] > 0
