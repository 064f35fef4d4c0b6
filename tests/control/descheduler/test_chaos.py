"""A sample of the seeded runs of everything at once; `python -m tests.control.descheduler.chaos` has as many as one
likes."""

from __future__ import annotations

import os

import pytest

from restow.sim.loop import run_virtual
from tests.control.descheduler.chaos import run

RUNS = int(os.environ.get("RESTOW_CLAIM_RUNS", "1"))


@pytest.mark.parametrize("seed", range(RUNS))
def test_place_reservations_moves_and_locks_stay_consistent_under_faults(seed: int) -> None:
    assert run_virtual(run(seed))["audits"] > 0
