"""A sample of the seeded runs; `python -m tests.control.migrations.chaos` has as many as one likes."""

from __future__ import annotations

import os

import pytest

from restow.sim.loop import run_virtual
from tests.control.migrations.chaos import run

RUNS = int(os.environ.get("RESTOW_MIGRATION_RUNS", "2"))


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_seeded_fault_run_breaks_no_promise(seed: int) -> None:
    ends = run_virtual(run(seed))
    assert ends["Succeed"] > 0


def test_the_same_seed_gives_the_same_fault_run() -> None:
    assert run_virtual(run(7)) == run_virtual(run(7))
