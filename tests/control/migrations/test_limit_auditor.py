"""The limit auditor itself: what it blames, and what it excuses because no controller can know it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document, Pod
from restow.model.times import format_time
from restow.sim.loop import VirtualLoop
from tests.control.migrations.limit_auditor import LimitAuditor
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_stub_scheduler,
    migration_arguments,
)
from tests.control.migrations.test_unavailable_replicas import spoil
from tests.sim.simulated_cluster import on_virtual_time, pass_time

SLOWLY: Document = {"evictQPS": 0.1, "evictBurst": 1}
A_MINUTE: Document = {"objectLimiters": {"workload": {"duration": "60s", "maxMigrating": 1}}}


async def _admit(it: MigrationCluster, pod: Pod, name: str) -> None:
    await it.move(pod, name)
    await it.set_status(name, phase="Running", conditions=[{"type": "Admitted", "status": "True"}])


async def _evict(it: MigrationCluster, pod: Pod, name: str) -> None:
    """As the controller does: it is written down before."""
    now = format_time(it.clock.now())
    asked = {"type": "Eviction", "status": "False", "reason": "Evicting", "lastProbeTime": now}
    await it.set_status(name, phase="Running", conditions=[{"type": "Admitted", "status": "True"}, asked])
    await it.client.evict("default", pod.metadata.name, uid=pod.metadata.uid)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({}, None),
        ({"maxMigratingGlobally": 1}, "2 in all"),
        ({"maxMigratingPerNamespace": 1}, "2 of its namespace"),
        ({"maxMigratingPerNode": 1}, "2 from its node"),
        ({"maxMigratingPerWorkload": 1}, "2 of its workload are under way"),
        ({"maxUnavailablePerWorkload": 1}, "2 of its workload are unavailable"),
    ],
    ids=lambda one: str(one) if isinstance(one, str) else None,
)
@pytest.mark.parametrize("alone", [True, False])
@on_virtual_time
async def test_the_limit_auditor_blames_admissions_beyond_a_limit(
    section: dict[str, Any], told: str | None, alone: bool
) -> None:
    """Two of three pods on one node; the first breaks no limit."""
    async with cluster_with_stub_scheduler(nodes=1) as it:
        pods = await it.start(3)
        limits = LimitAuditor(it.api, migration_arguments(**section), alone=alone)
        await _admit(it, pods[0], "a")
        assert limits.faults == []
        await _admit(it, pods[1], "b")
        assert [told in fault for fault in limits.faults if told] == ([True] if told and alone else [])


@on_virtual_time
async def test_the_limit_auditor_blames_two_jobs_for_one_pod() -> None:
    async with cluster_with_stub_scheduler(nodes=1) as it:
        pods = await it.start(3)
        limits = LimitAuditor(it.api, migration_arguments())
        await _admit(it, pods[0], "a")
        await _admit(it, pods[0], "b")
        [fault] = limits.faults
        assert "2 of its pod are under way, 1 may be" in fault


@pytest.mark.parametrize(("least", "faults"), [(1, 0), (2, 1)])
@on_virtual_time
async def test_the_limit_auditor_charges_admitted_jobs_to_budgets(least: int, faults: int) -> None:
    async with cluster_with_stub_scheduler() as it:
        pods = await it.start(3)
        limits = LimitAuditor(it.api, migration_arguments())
        await it.budget(least)
        await pass_time(100)  # before there was a budget it allowed nothing
        for number, pod in enumerate(pods[:2]):
            await _admit(it, pod, f"move-{number}")
        assert ["are to go" in fault for fault in limits.faults] == [True] * faults


@pytest.mark.parametrize(
    ("section", "pause", "told"),
    [
        (SLOWLY, 10.0, None),
        (SLOWLY, 9.9, "2 within 9.900 s at 0.1 per second"),
        (SLOWLY | {"evictBurst": 2}, 0.0, None),
        (A_MINUTE, 60.0, None),
        (A_MINUTE, 58.0, "2 of its workload within 60 s, 1 may"),
    ],
)
@on_virtual_time
async def test_the_limit_auditor_blames_evictions_too_close_to_each_other(
    section: Document, pause: float, told: str | None
) -> None:
    async with cluster_with_stub_scheduler() as it:
        pods = await it.start(3)
        limits = LimitAuditor(it.api, migration_arguments(**section))
        for number, pod in enumerate(pods[:2]):
            await it.move(pod, f"move-{number}")
            await _evict(it, pod, f"move-{number}")
            await pass_time(pause)
        assert (limits.evictions, [told in fault for fault in limits.faults if told]) == (2, [True] if told else [])


@pytest.mark.parametrize(("what", "faults"), [("", 2), ("deleted", 1), ("clock", 1), ("clock and leader", 0)])
@on_virtual_time
async def test_the_limit_auditor_excuses_evictions_that_no_job_remembers(what: str, faults: int) -> None:
    """Windows go by jobs and clocks; a rate by what a leader did itself, else by the same."""
    async with cluster_with_stub_scheduler() as it:
        pods = await it.start(3)
        limits = LimitAuditor(it.api, migration_arguments(**SLOWLY, **A_MINUTE))
        await it.move(pods[0], "first")
        await _evict(it, pods[0], "first")
        if what == "deleted":
            await it.delete(kinds.POD_MIGRATION_JOB, "first")
        if what.startswith("clock"):
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.start += 20
        if what.endswith("leader"):
            limits.life += 1
        await pass_time(5)
        await it.move(pods[1], "second")
        await _evict(it, pods[1], "second")
        assert len(limits.faults) == faults, limits.faults


@on_virtual_time
async def test_the_limit_auditor_blames_evictions_recorded_long_before() -> None:
    async with cluster_with_stub_scheduler() as it:
        [pod, _] = await it.start(2)
        limits = LimitAuditor(it.api, migration_arguments())
        await it.move(pod)
        asked = {"type": "Eviction", "status": "False", "reason": "Evicting"}
        told = asked | {"lastProbeTime": format_time(it.clock.now())}
        await it.set_status("move", phase="Running", conditions=[told])
        await pass_time(60)
        await it.client.evict("default", pod.metadata.name, uid=pod.metadata.uid)
        [fault] = limits.faults
        assert "written down 60.000 s before" in fault


@pytest.mark.parametrize("by_us", [True, False])
@on_virtual_time
async def test_the_limit_auditor_blames_evictions_below_a_budget(by_us: bool) -> None:
    """Its controller has miscounted. What other clients do at the same moment it cannot have seen."""
    async with cluster_with_stub_scheduler() as it:
        pods = await it.start(3)
        limits = LimitAuditor(it.api, migration_arguments())
        await it.budget(2)
        forged = {"status": {"disruptionsAllowed": 2}}
        await it.client.patch(kinds.POD_DISRUPTION_BUDGET, "web", forged, "default", subresource="status")
        if by_us:
            await it.client.evict("default", pods[1].metadata.name, uid=pods[1].metadata.uid)
        else:
            await it.delete(kinds.POD, pods[1].metadata.name)
        await it.client.evict("default", pods[0].metadata.name, uid=pods[0].metadata.uid)
        assert ["1 of web are Ready, 2 have to be" in fault for fault in limits.faults] == [True] * by_us


@pytest.mark.parametrize(("lost", "blamed"), [(59.0, False), (61.0, True)], ids=["too late to be seen", "long ago"])
@on_virtual_time
async def test_the_limit_auditor_blames_evictions_beside_lost_pods(lost: float, blamed: bool) -> None:
    async with cluster_with_stub_scheduler() as it:
        limits = LimitAuditor(it.api, migration_arguments(maxUnavailablePerWorkload=1))
        pods = await it.start(3)
        await _admit(it, pods[0], "a")
        await spoil(it, pods[1])
        await pass_time(lost)
        await _evict(it, pods[0], "a")
        assert ["2 of its workload are unavailable" in fault for fault in limits.faults] == [True] * blamed
