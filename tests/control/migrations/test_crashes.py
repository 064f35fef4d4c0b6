"""The controller dies after a write, and its successor after one of its own: moves always end the same way.

Every single write is a place to die. Of the pairs of places a sample is tried; RESTOW_CRASHES=all tries every one.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from typing import Any

import pytest

from restow.model import kinds
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import run_virtual
from tests.control.migrations.migration_cluster import MigrationCluster, cluster_with_stub_scheduler, running_controller
from tests.sim.simulated_cluster import is_pod_ready, pass_time

SAMPLE = os.environ.get("RESTOW_CRASHES", "4")

pytestmark = pytest.mark.timeout(0 if SAMPLE == "all" else 120)

USUAL = (kinds.DEPLOYMENT, "ReservationFirst")

Outcome = dict[str, Any]


async def live(it: MigrationCluster, seconds: float, crash: int | None, seed: int) -> FaultyApi:
    """One life of the controller, perhaps cut short."""
    api = FaultyApi(it.api, random.Random(seed), FaultPlan(crash_after=crash))

    async def process() -> None:
        async with running_controller(api, it.clock, seed=seed):
            await asyncio.sleep(seconds)

    await run_until_crash(api, process())
    return api


async def story(
    kind: Any, crashes: tuple[int | None, ...], mode: str = "ReservationFirst"
) -> tuple[Outcome, list[int]]:
    """A move with one life of the controller per crash, and one more; what it comes to, and how much each one wrote."""
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2, kind))[0]
        await it.move(old, mode=mode)
        lives = [await live(it, 12, crash, seed) for seed, crash in enumerate(crashes)]
        lives.append(await live(it, 15, None, len(crashes)))
        await pass_time(5)
        job, pods, reservations = await it.job(), await it.pods(), await it.reservations()
        names = [name for one in lives for name in one.writes.names]
        outcome = {
            "told": (job.status.phase, job.status.reason),
            "conditions": {one.type: (one.status, one.reason) for one in job.status.conditions or ()},
            "successor": bool(job.status.pod_ref),
            "elsewhere": all(one.metadata.uid != old.metadata.uid for one in pods),
            "ready": [is_pod_ready(one) for one in pods],
            "seats": [one.status.state.phase for one in reservations],
            "evictions": sum(name.startswith("evict") for name in names),
            "reserved": sum(name.startswith("create Reservation") for name in names),
        }
        return outcome, [len(one.writes) for one in lives]


def run(kind: Any, *crashes: int | None, mode: str = "ReservationFirst") -> tuple[Outcome, list[int]]:
    return run_virtual(story(kind, crashes, mode))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        USUAL,
        (kinds.STATEFUL_SET, "ReservationFirst"),
        (kinds.DEPLOYMENT, "EvictDirectly"),
    ],
    ids=["Deployment", "StatefulSet", "without a seat"],
)
def test_a_move_succeeds_after_a_crash_at_any_write(kind: Any, mode: str) -> None:
    usual, (writes,) = run(kind, mode=mode)
    assert usual["told"] == ("Succeed", None)
    places: Sequence[int] = range(writes)
    if (kind, mode) != USUAL and SAMPLE != "all":
        places = random.Random(2).sample(places, 4)
    for place in places:
        assert run(kind, place, mode=mode)[0] == usual, place


def test_a_move_succeeds_after_crashes_at_any_two_writes() -> None:
    usual, (writes,) = run(kinds.DEPLOYMENT)
    pairs = [(first, second) for first in range(writes) for second in range(writes - first)]
    if SAMPLE != "all":
        pairs = random.Random(1).sample(pairs, int(SAMPLE))
    for pair in pairs:
        assert run(kinds.DEPLOYMENT, *pair)[0] == usual, pair
    assert usual["evictions"] == usual["reserved"] == 1
