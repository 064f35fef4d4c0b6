"""Packing, cooling and balancing at once, in one cluster and on intervals of their own: they come to rest, and no pod
comes back to where it was.

RESTOW_TOGETHER_RUNS says how many clusters are tried (by default three).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterable
from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document, PodMigrationJob
from restow.ports import Api
from restow.sim.loop import run_virtual
from tests.control.descheduler.chaos import Lives
from tests.control.descheduler.descheduler_fixture import (
    DESCHEDULER_FAULTS,
    QUICKLY,
    MeteringApi,
    ScatteredCluster,
    descheduler,
)
from tests.control.descheduler.return_auditor import COOL_DOWN, ReturnAuditor
from tests.control.migrations.migration_cluster import cluster_with_scheduler, running_controller
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.sim.simulated_cluster import is_pod_ready, pass_time, running_component, template, workload

RUNS = int(os.environ.get("RESTOW_TOGETHER_RUNS", "0"))
TRIED = [(seed, cool_down) for seed in range(RUNS) for cool_down in (0, 120)] or [(2, 120), (3, 0), (7, 0)]
"""Seeds and seconds; in these three all of them have something to do."""
NODES = 8
APPS = 8
INTERVAL = 30.0
SETTLED = 25
"""Cycles after which everything is where it stays; then come ten more."""
ARGUMENTS: dict[str, Document] = {
    "Defragmentation": {"lowThresholds": {"cpu": 40}, "defragmentThresholds": {"cpu": 55}},
    "LoadAware": {"thresholds": {"cpu": 45}, "targetThresholds": {"cpu": 65}},
    "NodeResourceBalance": {"maxThreshold": 0.1},
}


def section(*, cool_down: int) -> Document:
    """A profile for each of them; only packing says how long nodes rest."""
    profiles = []
    for name, arguments in ARGUMENTS.items():
        args = {**arguments, **({"coolDownTime": cool_down} if name == "Defragmentation" else {})}
        enabled = {"balance": {"enabled": [name]}}
        config = [{"name": name, "args": args}]
        profiles.append({"name": name.lower(), "interval": f"{INTERVAL}s", "plugins": enabled, "pluginConfig": config})
    return {"profiles": profiles}


def app(name: str, rng: random.Random) -> Document:
    """A Deployment that asks for some cpu and some memory, mostly not in the same measure as nodes have it."""
    pods = template(f"{rng.randint(2, 9)}00m", app=name)
    pods["spec"]["containers"][0]["resources"]["requests"]["memory"] = f"{rng.choice((64, 512, 4096))}Mi"
    return workload(name, rng.randint(2, 4), pods=pods)


async def scatter(it: ScatteredCluster, rng: random.Random) -> None:
    """Pods are wherever there was room when they came: nodes were closed now and then."""
    names = [f"n{number}" for number in range(1, NODES + 1)]
    for number in range(APPS):
        shut = rng.sample(names, 5)
        for name in names:
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": name in shut}})
        await it.create(kinds.DEPLOYMENT, app(f"app{number}", rng))
        await pass_time(3)
    for name in names:
        await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
    await pass_time(30)


def journeys(jobs: Iterable[PodMigrationJob]) -> list[list[str]]:
    """The nodes that each pod was on, with all of its successors."""
    by_pod = {job.spec.pod_ref.uid: job for job in jobs if job.status.phase == "Succeed"}
    after = {job.status.pod_ref.uid for job in by_pod.values() if job.status.pod_ref}
    found = []
    for uid in by_pod.keys() - after:
        way, job = [(by_pod[uid].metadata.annotations or {})["restow.sh/moved-from"]], by_pod.get(uid)
        while job is not None:
            way.append(job.status.node_name or "")
            job = by_pod.get(job.status.pod_ref.uid if job.status.pod_ref else None)
        found.append(way)
    return sorted(found)


async def _together(seed: int, cool_down: int) -> int:
    """Comes out how many pods moved."""
    rng = random.Random(seed)
    cores: dict[str, Any] = {f"app{number}": round(rng.uniform(0.05, 1.2), 2) for number in range(APPS)}
    async with cluster_with_scheduler(nodes=NODES, seed=seed) as base:
        it = ScatteredCluster(base.api, base.world, base.clock)
        await scatter(it, rng)
        api = MeteringApi(it, 0.0, **cores)
        async with (
            running_controller(it.api, it.clock, **QUICKLY),
            running_component(descheduler(it, section(cool_down=cool_down), api=api)),
        ):
            await pass_time(SETTLED * INTERVAL + 3 * cool_down)
            places, jobs = await it.nodes_of_pods(), await it.jobs()
            await pass_time(10 * INTERVAL + cool_down)
            assert (await it.nodes_of_pods(), await it.jobs()) == (places, jobs)
        assert {job.status.phase for job in jobs} <= {"Succeed"}, [
            (job.status.reason, job.status.message) for job in jobs
        ]
        ways = journeys(jobs)
        assert all(len(way) == len(set(way)) for way in ways), ways
        assert all(map(is_pod_ready, await it.pods()))
        await assert_nothing_overcommitted(it)
        return len(jobs)


@pytest.mark.parametrize(("seed", "cool_down"), TRIED)
def test_profiles_with_different_aims_come_to_rest(seed: int, cool_down: int, caplog: pytest.LogCaptureFixture) -> None:
    assert run_virtual(_together(seed, cool_down)) > 0
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []


async def _troubled(seed: int) -> int:
    """Pods use now this much, now that much; the descheduler misreads, dies and is replaced. Comes out how many pods
    moved."""
    rng = random.Random(seed)
    cores = {f"app{number}": rng.uniform(0.05, 1.2) for number in range(APPS)}
    faults: list[str] = []
    async with cluster_with_scheduler(nodes=NODES, seed=seed) as base:
        it = ScatteredCluster(base.api, base.world, base.clock)
        await scatter(it, rng)

        async def deschedule(api: Api, number: int) -> None:
            measuring = MeteringApi(it, 0.0, api=ReturnAuditor(it, api, faults))
            measuring.by_app = cores
            async with running_component(
                descheduler(it, section(cool_down=int(COOL_DOWN)), api=measuring, seed=number)
            ):
                await asyncio.sleep(10_000)

        lives = asyncio.create_task(Lives(it, rng, DESCHEDULER_FAULTS, deschedule, it.api).run())
        async with running_controller(it.api, it.clock, **QUICKLY):
            for _ in range(40):
                cores[f"app{rng.randrange(APPS)}"] = rng.uniform(0.05, 1.5)
                await pass_time(rng.choice((5.0, 20.0, 60.0)))
                assert not faults, faults
        assert not lives.done(), lives
        lives.cancel()
        await asyncio.gather(lives, return_exceptions=True)
        await assert_nothing_overcommitted(it)
        return len(await it.jobs())


@pytest.mark.parametrize("seed", range(max(RUNS, 1)))
def test_no_pod_moves_twice_within_the_cool_down_under_faults(seed: int) -> None:
    assert run_virtual(_troubled(seed)) > 0
