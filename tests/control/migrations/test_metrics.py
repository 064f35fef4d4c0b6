"""What happens to jobs, their pods and their seats is counted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from restow.control.migrations import MigrationConfiguration, MigrationController, MigrationMetrics, MigrationSettings
from restow.model import kinds
from restow.ports import Api, ApiError, OutcomeUnknown, Request
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_stub_scheduler,
    migration_arguments,
)
from tests.control.migrations.test_api_refusals import BUDGET, really_evicts
from tests.control.migrations.test_moves import Hasty
from tests.control.scheduler_cluster import FixedErrorApi
from tests.sim.simulated_cluster import on_virtual_time, pass_time, running_component

LOST = OutcomeUnknown.because(504, "Timeout", "no idea")


class Counts:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"restow_migration_{name}", labels)

    def evictions(self) -> dict[str, float]:
        """How many were asked for, by the answer."""
        [found] = [one for one in self.registry.collect() if one.name == "restow_migration_evictions"]
        return {one.labels["result"]: one.value for one in found.samples if one.name.endswith("_total")}


@asynccontextmanager
async def counted(it: MigrationCluster, api: Api | None = None, **section: Any) -> AsyncIterator[Counts]:
    counts = Counts()
    made = MigrationController(
        api or it.api,
        it.clock,
        random.Random(1),
        MigrationConfiguration(migration_arguments(**section)),
        settings=MigrationSettings(garbage_collection_period=30.0),
        metrics=MigrationMetrics(counts.registry),
    )
    async with running_component(made):
        yield counts


@on_virtual_time
async def test_ended_jobs_are_counted_by_phase_and_reason() -> None:
    async with cluster_with_stub_scheduler() as it, counted(it) as counts:
        old = (await it.start())[0]
        await it.move(old)
        await pass_time(30)
        assert counts.evictions() == {"evicted": 1}
        assert counts("jobs_ended_total", phase="Succeed", reason="") == 1
        assert counts("jobs", phase="Succeed") == 1


@on_virtual_time
async def test_durations_of_jobs_are_observed() -> None:
    async with cluster_with_stub_scheduler() as it, counted(it) as counts:
        await it.seek(ttl="1m")
        await pass_time(60)
        assert counts("job_duration_seconds_count", phase="Failed") == 1
        assert counts("job_duration_seconds_sum", phase="Failed") == pytest.approx(60, abs=2)


@on_virtual_time
async def test_the_stop_switch_is_a_gauge() -> None:
    async with cluster_with_stub_scheduler() as it, counted(it) as counts:
        assert counts("stopped") == 0
        await it.stop()
        await asyncio.sleep(1)
        assert counts("stopped") == 1


@on_virtual_time
async def test_collected_reservations_are_counted() -> None:
    async with cluster_with_stub_scheduler() as it, counted(it) as counts:
        await it.seek()
        await it.delete(kinds.POD_MIGRATION_JOB, "move")
        await pass_time(120)
        assert (await it.reservations(), counts("reservations_swept_total")) == ([], 1)


@pytest.mark.parametrize(("answer", "result"), [(BUDGET, "refused"), (LOST, "unknown")])
@on_virtual_time
async def test_evictions_are_counted_by_the_answer(answer: ApiError, result: str) -> None:
    async with cluster_with_stub_scheduler() as it:
        api = FixedErrorApi(it.api, really_evicts, answer)
        async with counted(it, api) as counts:
            await it.move((await it.start())[0])
            await pass_time(10)
            assert counts.evictions() == {result: api.times_raised}
            api.error = None
            await pass_time(60)
            assert counts.evictions() == {result: api.times_raised, "evicted": 1}


@on_virtual_time
async def test_dry_runs_are_counted_as_evictions_of_their_own() -> None:
    async with cluster_with_stub_scheduler() as it, counted(it, dryRun=True) as counts:
        await it.move((await it.start())[0])
        await pass_time(10)
        assert counts.evictions() == {"dry-run": 1}


@on_virtual_time
async def test_the_eviction_of_a_pod_that_is_gone_is_not_counted() -> None:
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start())[0]

        async def be_gone(request: Request) -> None:
            await it.client.delete(kinds.POD, old.metadata.name, "default", grace_seconds=0)

        async with counted(it, Hasty(it.api, be_gone)) as counts:
            await it.move(old)
            await pass_time(30)
            assert ((await it.told())[0], counts.evictions()) == ("Succeed", {})
