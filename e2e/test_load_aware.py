"""Pods leave a node that is really busy, by what an aggregated metrics API or a Prometheus measures, and stay away;
measurements that are too old are reported in an Event."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.audit import audit
from e2e.cluster import deployment, fake_node, reaches, running, together
from e2e.controlplane import ControlPlane
from e2e.restow_process import LEASES, refusals, restow
from e2e.usage_server import UsageServer, metrics_api, prometheus
from restow.client.verbs import Client
from restow.migration.conditions import is_job_ended
from restow.model.kinds import DEPLOYMENT, NODE
from restow.model.objects import Document, JobPhase

SCHEDULER = "restow-cools"
HOT = 4
CYCLES, INTERVAL = 10, 3.0
CONFIGURATION = """
scheduler: {{schedulerNames: [{scheduler}]}}
migration: {{maxMigratingPerNode: 0, objectLimiters: {{workload: {{duration: 0s}}}}}}
descheduler:
  metricsProviders: {providers}
  profiles:
  - name: cool
    interval: {interval}s
    pluginConfig:
    - name: LoadAware
      args:
        thresholds: {{cpu: 40, memory: 80}}
        targetThresholds: {{cpu: 60, memory: 90}}
        evictableNamespaces: {{include: [{namespace}]}}
        metricsUtilization: {{source: {source}}}
    plugins: {{balance: {{enabled: [LoadAware]}}}}
"""


def pinned(document: Document, pool: str) -> Document:
    document["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": {"pool": pool}}
    return document


@asynccontextmanager
async def measuring(source: str, meters: UsageServer, plane: ControlPlane) -> AsyncIterator[list[dict[str, Any]]]:
    """Usage is measured; the metricsProviders section for it."""
    if source == "Prometheus":
        async with prometheus(meters) as url:
            yield [{"source": source, "prometheus": {"url": url}}]
    else:
        async with metrics_api(meters, plane):
            yield []


async def untainted(client: Client, names: list[str]) -> None:
    """Until pods may go to all of these nodes: new ones are tainted for a moment."""
    async with asyncio.timeout(60):
        while any([(await client.get(NODE, name)).spec.taints for name in names]):
            await asyncio.sleep(0.1)


async def unmeasured(plane: ControlPlane, source: str) -> list[str]:
    """The Events about missing measurements in the namespace of Restow, as kubectl shows them."""
    words = ["get", "events", "-n", LEASES, "--field-selector", "reason=UseNotMeasured", "-o", "json"]
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *words]
    shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    messages = [event["message"] for event in json.loads(shown.stdout)["items"]]
    return [message for message in messages if message.startswith(source)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("source", ["KubernetesMetrics", "Prometheus"])
async def test_pods_leave_a_node_that_is_really_busy(
    client: Client, namespace: str, plane: ControlPlane, account: Path, tmp_path: Path, source: str
) -> None:
    """Four pods with 2 cores each and one without measurements are on one of three nodes with 8."""
    names = [f"{namespace}-{number}" for number in range(3)]
    await client.create(NODE, fake_node(names[0], pool=namespace))
    async with audit(client, namespace) as seen:
        meters = UsageServer(lambda: seen.pods, names[:1], {"hot": 2.0})
        async with measuring(source, meters, plane) as providers:
            section = CONFIGURATION.format(
                scheduler=SCHEDULER,
                providers=json.dumps(providers),
                interval=INTERVAL,
                namespace=namespace,
                source=source,
            )
            with restow(account, tmp_path, "restow", section, lease="15s") as process:
                await client.create(DEPLOYMENT, pinned(deployment("hot", namespace, HOT, cpu="500m"), namespace))
                await client.create(DEPLOYMENT, pinned(deployment("quiet", namespace, 1, cpu="500m"), namespace))
                await reaches(lambda: running(seen.pods), HOT + 1, "running pods", 120)
                await together(client.create(NODE, fake_node(name, pool=namespace)) for name in names[1:])
                await untainted(client, names)
                meters.nodes = (
                    names  # at the same moment, or all pods would go to the only other node with measurements
                )

                def hot() -> list[int]:
                    on = Counter(pod.spec.node_name for pod in seen.pods if pod.metadata.name.startswith("hot"))
                    return [on[name] for name in names]

                await reaches(hot, [2, 1, 1], "hot pods by node", 120)
                await reaches(lambda: running(seen.pods), HOT + 1, "running pods")
                await reaches(lambda: all(map(is_job_ended, seen.jobs)), True, "jobs that have ended")
                jobs = {job.metadata.uid for job in seen.jobs}
                await asyncio.sleep(CYCLES * INTERVAL)
                assert {job.metadata.uid for job in seen.jobs} == jobs, "nothing goes to and fro"
                assert [pod.spec.node_name for pod in seen.pods if pod.metadata.name.startswith("quiet")] == names[:1]
                assert await unmeasured(plane, source) == []

                meters.age = 600.0
                await asyncio.sleep(2 * INTERVAL)
                stale = f"{source}: 3 nodes and {HOT} pods were measured more than 300s ago; these samples are ignored"
                assert await unmeasured(plane, source) == [stale]
                assert process.poll() is None
        ours = [job for job in seen.jobs if job.spec.pod_ref.namespace == namespace]
        assert [job.status.phase for job in ours] == [JobPhase.SUCCEED] * 2
        assert seen.faults(least=2, per_node=None) == []
    assert refusals(tmp_path) == []
