"""`restow run` as processes of their own on a real control plane: pods placed and moved, leadership handed on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from e2e.cluster import add_nodes, deployment, following, reaches, running, together
from e2e.restow_process import LEASES, refusals, restow
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import (
    DEPLOYMENT,
    LEASE,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_MIGRATION_JOB,
)
from restow.model.objects import Pod

CONFIGURATION = """
scheduler: {schedulerNames: [restow-e2e]}
migration: {objectLimiters: {workload: {duration: 0s}}, maxConcurrentReconciles: 4}
"""
REPLICAS = 8


@asynccontextmanager
async def workload(client: Client, namespace: str) -> AsyncIterator[Informer[Pod]]:
    """A Deployment of which half may be missing, once it runs."""
    document = deployment("web", namespace, REPLICAS)
    document["spec"]["template"]["spec"]["schedulerName"] = "restow-e2e"
    budget = {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    }
    await client.create(POD_DISRUPTION_BUDGET, budget)
    await client.create(DEPLOYMENT, document)
    async with following(Informer(client, POD, rng=random.Random(1), namespace=namespace)) as pods:
        await reaches(lambda: running(pods), REPLICAS, "running pods")
        yield pods


async def move_all(client: Client, pods: Informer[Pod]) -> list[str]:
    names = [f"{pod.metadata.namespace}-{number}" for number, pod in enumerate(pods)]
    await together(
        client.create(
            POD_MIGRATION_JOB,
            {
                "metadata": {"name": name},
                "spec": {"podRef": {"namespace": pod.metadata.namespace, "name": pod.metadata.name}},
            },
        )
        for name, pod in zip(names, list(pods), strict=True)
    )
    return names


async def phases(client: Client, names: list[str]) -> list[str]:
    jobs = {job.metadata.name: job for job in (await client.list(POD_MIGRATION_JOB)).items}
    return [f"{jobs[name].status.phase}: {jobs[name].status.message}" for name in names]


async def ended(client: Client, names: list[str], seconds: float = 120) -> list[str]:
    async with asyncio.timeout(seconds):
        while True:
            current = await phases(client, names)
            if all(phase.startswith(("Succeed", "Failed", "Aborted")) for phase in current):
                return current
            await asyncio.sleep(0.5)


async def holder(client: Client) -> str | None:
    leases = (await client.list(LEASE, LEASES)).items
    return next((lease.spec.holder_identity for lease in leases if lease.metadata.name == "restow-migrations"), None)


async def test_pods_are_placed_and_moved_and_the_lease_is_handed_back(
    client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    await add_nodes(client, 4)
    with restow(account, tmp_path, "one", CONFIGURATION) as process:
        async with workload(client, namespace) as pods:
            before = {pod.metadata.uid: pod.spec.node_name for pod in pods}
            names = await move_all(client, pods)
            phases_at_end = await ended(client, names)
            assert all(phase.startswith("Succeed") for phase in phases_at_end), phases_at_end
            await reaches(lambda: running(pods), REPLICAS, "running pods")
            assert not before.keys() & {pod.metadata.uid for pod in pods}
            moved = [pod.metadata.annotations or {} for pod in pods]
            assert sorted(annotations.get("restow.sh/moved-from", "") for annotations in moved) == sorted(
                node or "" for node in before.values()
            )
        process.terminate()
        assert await asyncio.to_thread(process.wait, 20) == 0
    assert await holder(client) is None
    assert refusals(tmp_path) == []


async def test_new_leader_continues_a_plan_in_the_middle(
    client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    await add_nodes(client, 4)
    async with AsyncExitStack() as stack:
        first = stack.enter_context(restow(account, tmp_path, "first", CONFIGURATION))
        pods = await stack.enter_async_context(workload(client, namespace))
        leader = await holder(client)
        stack.enter_context(restow(account, tmp_path, "second", CONFIGURATION))
        names = await move_all(client, pods)
        async with asyncio.timeout(60):
            while not any(phase.startswith("Succeed") for phase in await phases(client, names)):
                await asyncio.sleep(0.05)
        first.kill()
        phases_at_end = await ended(client, names)
        assert all(phase.startswith("Succeed") for phase in phases_at_end), phases_at_end
        assert await holder(client) not in (leader, None)
        await reaches(lambda: running(pods), REPLICAS, "running pods")
