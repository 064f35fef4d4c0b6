"""Many moves at once on a real control plane, audited from its watch events; and how many of them per second."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.audit import SEAT, Audit, audit
from e2e.cluster import add_nodes, deployment, reaches, running, together
from e2e.restow_process import refusals, restow
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT, NAMESPACE, POD_DISRUPTION_BUDGET, POD_MIGRATION_JOB
from restow.model.objects import Pod

NODES = 20
REPLICAS = 4
LEAST = 3
PER_NODE = 2
EVICTIONS_PER_SECOND = 10.0
SCHEDULER = "restow-moves"
BASE = f"""
scheduler: {{schedulerNames: [{SCHEDULER}]}}
reservations: {{gcPeriod: 1s, gcDuration: 5s}}
"""
LIMITS = f"""
migration:
  maxMigratingPerNode: {PER_NODE}
  evictQPS: {EVICTIONS_PER_SECOND}
  objectLimiters: {{workload: {{duration: 10s, maxMigrating: 1}}}}
  maxConcurrentReconciles: 32
"""
NO_LIMITS = """
migration:
  maxMigratingPerNode: 0
  maxMigratingPerWorkload: 100%
  maxUnavailablePerWorkload: 100%
  objectLimiters: {workload: {duration: 0s}}
  evictQPS: 100000
  evictBurst: 10000
  maxConcurrentReconciles: 16
  arbitrationArgs: {interval: 100ms}
"""


class Limits(NamedTuple):
    """The migration section of the configuration, and minAvailable of every workload's budget (0: no budgets)."""

    section: str
    min_available: int


class Load(NamedTuple):
    workloads: int
    moves: int


async def deploy(client: Client, namespace: str, name: str, least: int) -> None:
    """A Deployment of which so many pods must be there, if any."""
    document = deployment(name, namespace, REPLICAS, cpu="150m")
    document["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER
    selector = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": namespace}
    spec = {"minAvailable": least, "selector": selector}
    if least:
        await client.create(POD_DISRUPTION_BUDGET, {"metadata": metadata, "spec": spec})
    await client.create(DEPLOYMENT, document)


async def emptied(client: Client) -> None:
    """Until what earlier tests had on the nodes is gone with their namespaces: its room is counted on."""
    async with asyncio.timeout(300):
        while any(namespace.metadata.deletion_timestamp for namespace in (await client.list(NAMESPACE)).items):
            await asyncio.sleep(1)


async def ask(client: Client, pod: Pod) -> None:
    reference = {"namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid}
    spec = {"podRef": reference, "ttl": "20m"}
    await client.create(POD_MIGRATION_JOB, {"metadata": {"name": job_name(pod)}, "spec": spec})


def job_name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}-{pod.metadata.name}"


def ended(seen: Audit, moved: list[Pod]) -> dict[str, int]:
    """How many jobs are how far, by phase."""
    phases = [job.status.phase or "" for pod in moved if (job := seen.jobs.get(job_name(pod))) is not None]
    return {phase: phases.count(phase) for phase in sorted(set(phases))}


def arrived(seen: Audit) -> int:
    """How many pods run where a seat was kept for them."""
    return sum(SEAT in (pod.metadata.annotations or {}) for pod in seen.pods)


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(Load(20, 50), id="50 moves", marks=pytest.mark.timeout(420)),
        pytest.param(Load(200, 500), id="500 moves", marks=[pytest.mark.full, pytest.mark.timeout(1800)]),
    ],
)
@pytest.mark.parametrize(
    "limits",
    [Limits(LIMITS, LEAST), Limits(NO_LIMITS, LEAST), Limits(NO_LIMITS, 0)],
    ids=["with limits", "limits off", "no limits and no budgets"],
)
async def test_many_migration_jobs_at_once_succeed(
    client: Client,
    namespace: str,
    account: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    limits: Limits,
    load: Load,
) -> None:
    workloads, moves, least = load.workloads, load.moves, limits.min_available
    await add_nodes(client, NODES)
    await emptied(client)
    with restow(account, tmp_path, "restow", BASE + limits.section, lease="15s") as process:
        async with audit(client, namespace) as seen:
            await together(deploy(client, namespace, f"web-{number}", least) for number in range(workloads))
            await reaches(lambda: running(seen.pods), workloads * REPLICAS, "running pods", 300)
            moved = random.Random(moves).sample(sorted(seen.pods, key=job_name), moves)
            began = time.monotonic()
            await together(ask(client, pod) for pod in moved)
            await reaches(lambda: ended(seen, moved), {"Succeed": moves}, "jobs", 1200)
            seconds = time.monotonic() - began
            await reaches(lambda: running(seen.pods), workloads * REPLICAS, "running pods")
            await reaches(lambda: len(seen.reservations), 0, "reservations that are left")
            assert process.poll() is None
            gone = {pod.metadata.uid for pod in moved}
            assert not gone & {pod.metadata.uid for pod in seen.pods}
            assert arrived(seen) == moves
            assert seen.faults(least=least, per_node=PER_NODE if limits.section is LIMITS else None) == []
            with capsys.disabled():
                machine_load = os.getloadavg()[0]
                print(f"\n{moves} moves in {seconds:.1f} s: {moves / seconds:.1f} per second, load {machine_load:.1f}")
    if limits.section is LIMITS:
        assert moves / seconds < EVICTIONS_PER_SECOND * 1.1
    assert refusals(tmp_path) == []
