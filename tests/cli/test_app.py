"""The embedded cluster as a whole: how quick it is, and what happens when a part of it dies."""

from __future__ import annotations

import asyncio
import random

import pytest

from restow import app
from restow.control.scheduler import Scheduler
from restow.model.kinds import POD
from restow.sim.world import Settings


async def test_a_scheduler_that_dies_takes_the_cluster_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(_: Scheduler) -> None:
        await asyncio.sleep(0.2)
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(Scheduler, "run", die)
    with pytest.raises(app.PartStopped, match="the scheduler stopped: out of ideas"):
        async with app.embedded_cluster(nodes=1, rng=random.Random(1)):
            await asyncio.Event().wait()


def test_pods_start_and_stop_within_a_second() -> None:
    assert app.PACE.start + app.PACE.ready < 1.0
    assert app.PACE.stop < 1.0
    assert isinstance(app.PACE, Settings)


async def test_a_pod_runs_on_the_embedded_cluster() -> None:
    async with app.embedded_cluster(nodes=1, rng=random.Random(1)) as cluster:
        container = {"name": "main", "image": "example.com/app:1"}
        await cluster.client.create(
            POD,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}},
            "default",
        )
        async with asyncio.timeout(10):
            async for event in cluster.client.watch(POD, "default", initial_events=True):
                if event.type != "BOOKMARK" and event.object.status.phase == "Running":
                    assert event.object.spec.node_name == "node-1"
                    return
