"""Seeded runs of queues behind faults; `python -m tests.control.queues.chaos` has more of them."""

from __future__ import annotations

import os

import pytest

from tests.control.queues.chaos import run
from tests.sim.simulated_cluster import on_virtual_time

RUNS = int(os.environ.get("RESTOW_QUEUE_RUNS", "3"))


@pytest.mark.parametrize("seed", range(RUNS))
@on_virtual_time
async def test_every_lock_is_within_the_rights_of_its_queue_under_faults(seed: int) -> None:
    await run(seed)
