"""A scattered cluster of real Deployments is packed by a profile with an interval, and stays packed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from e2e.audit import audit
from e2e.cluster import deployment, fake_node, reaches, running, together
from e2e.restow_process import refusals, restow
from restow.client.verbs import Client
from restow.migration.conditions import is_job_ended
from restow.model.kinds import DEPLOYMENT, NODE
from restow.model.objects import Document, JobPhase, Pod

SCHEDULER = "restow-packs"
REPLICAS = 4
LEAST = 2
"""Of four replicas two may be missing at once, where nothing else is said."""
CYCLES = 10
INTERVAL = 3.0
CONFIGURATION = """
scheduler: {{schedulerNames: [{scheduler}]}}
migration:
  maxMigratingPerNode: 0
  evictQPS: 50
  objectLimiters: {{workload: {{duration: 0s}}}}
  maxConcurrentReconciles: 16
descheduler:
  maxNoOfPodsToEvictTotal: 100
  profiles:
  - name: pack
    interval: {interval}s
    pluginConfig:
    - name: Defragmentation
      args: {{evictableNamespaces: {{include: [{namespace}]}}}}
    plugins: {{balance: {{enabled: [Defragmentation]}}}}
"""


def pinned(document: Document, **labels: str) -> Document:
    """A Deployment of our scheduler, for nodes with these labels."""
    document["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": labels}
    return document


def nodes_of(pods: Iterable[Pod]) -> set[str]:
    return {pod.spec.node_name or "" for pod in pods}


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(20, id="20 nodes", marks=pytest.mark.timeout(300)),
        pytest.param(200, id="200 nodes", marks=[pytest.mark.full, pytest.mark.timeout(1800)]),
    ],
)
async def test_a_scattered_cluster_is_packed_and_stays_so(
    client: Client, namespace: str, account: Path, tmp_path: Path, nodes: int
) -> None:
    names = [f"{namespace}-{number:03d}" for number in range(nodes)]
    full, others = names[: nodes // 5], nodes - nodes // 5
    await together(client.create(NODE, fake_node(name, pool=namespace, anchor=name)) for name in names)
    section = CONFIGURATION.format(scheduler=SCHEDULER, interval=INTERVAL, namespace=namespace)
    quiet = section.replace(f"    interval: {INTERVAL}s\n", "")
    async with audit(client, namespace) as seen:
        with restow(account, tmp_path, "before", quiet, lease="15s"):
            await together(
                client.create(DEPLOYMENT, pinned(deployment(f"full-{name}", namespace, 1, cpu="6"), anchor=name))
                for name in full
            )
            await reaches(lambda: running(seen.pods), len(full), "running pods", 120)
            await together(
                client.create(
                    DEPLOYMENT, pinned(deployment(f"web-{number}", namespace, REPLICAS, cpu="160m"), pool=namespace)
                )
                for number in range(others // 2)
            )
            expected = len(full) + others // 2 * REPLICAS
            await reaches(lambda: running(seen.pods), expected, "running pods", 300)
            assert len(nodes_of(seen.pods)) == nodes
        with restow(account, tmp_path, "after", section, lease="15s") as process:
            await reaches(lambda: nodes_of(seen.pods), set(full), "nodes that are used", 900)
            await reaches(lambda: running(seen.pods), expected, "running pods")
            await reaches(lambda: all(map(is_job_ended, seen.jobs)), True, "jobs that have ended")
            jobs = {job.metadata.uid for job in seen.jobs}
            await asyncio.sleep(CYCLES * INTERVAL)
            assert {job.metadata.uid for job in seen.jobs} == jobs, "nothing goes to and fro"
            assert process.poll() is None
        ours = [job for job in seen.jobs if job.spec.pod_ref.namespace == namespace]
        assert {job.status.phase for job in ours} == {JobPhase.SUCCEED}
        assert len({job.spec.pod_ref.uid for job in ours}) == len(ours)
        assert seen.faults(least=LEAST, per_node=None) == []
    assert refusals(tmp_path) == []
