"""`restow run` as processes of their own on a real control plane: pods placed and moved, leadership handed on."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import yaml

from e2e.cluster import add_nodes, deployment, following, reaches, running, together
from e2e.controlplane import ControlPlane
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
LEASES = "restow-e2e"
REPLICAS = 8


@contextmanager
def restow(kubeconfig: Path, directory: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs all components; its log is beside its configuration."""
    (directory / "restow.yaml").write_text(CONFIGURATION)
    arguments = ("--kubeconfig", kubeconfig, "--config", directory / "restow.yaml", "--port", "0")
    leases = ("--namespace", LEASES, "--lease-duration", "5s")
    with (directory / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "restow", "run", *map(str, arguments), *leases]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def account(plane: ControlPlane, tmp_path: Path) -> Path:
    """The kubeconfig of the service account that `restow install` makes, with exactly the rights it gives."""

    def kubectl(*arguments: str, given: str | None = None) -> str:
        command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout

    install = ("install", "--kubeconfig", str(plane.kubeconfig), "--namespace", LEASES)
    printed = subprocess.run(
        [sys.executable, "-m", "restow", *install], capture_output=True, text=True, check=True
    ).stdout
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=printed)
    kubectl("scale", "deployment", "restow", "-n", LEASES, "--replicas=0")  # its image does not exist here
    token = kubectl("create", "token", "restow", "-n", LEASES).strip()
    path = tmp_path / "account.kubeconfig"
    document = yaml.safe_load(plane.kubeconfig.read_text())
    document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
    path.write_text(yaml.safe_dump(document))
    return path


def refusals(directory: Path) -> list[str]:
    """What the processes were not allowed to do."""
    lines = [line for log in directory.glob("*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if "forbidden" in line.lower()]


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
            found = await phases(client, names)
            if all(one.startswith(("Succeed", "Failed", "Aborted")) for one in found):
                return found
            await asyncio.sleep(0.5)


async def holder(client: Client) -> str | None:
    leases = (await client.list(LEASE, LEASES)).items
    return next((one.spec.holder_identity for one in leases if one.metadata.name == "restow-migrations"), None)


async def test_pods_are_placed_and_moved_and_the_lease_is_handed_back(
    client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    await add_nodes(client, 4)
    with restow(account, tmp_path, "one") as process:
        async with workload(client, namespace) as pods:
            before = {pod.metadata.uid: pod.spec.node_name for pod in pods}
            names = await move_all(client, pods)
            found = await ended(client, names)
            assert all(one.startswith("Succeed") for one in found), found
            await reaches(lambda: running(pods), REPLICAS, "running pods")
            assert not before.keys() & {pod.metadata.uid for pod in pods}
            moved = [pod.metadata.annotations or {} for pod in pods]
            assert sorted(one.get("restow.sh/moved-from", "") for one in moved) == sorted(
                node or "" for node in before.values()
            )
        process.terminate()
        assert await asyncio.to_thread(process.wait, 20) == 0
    assert await holder(client) is None
    assert refusals(tmp_path) == []
    await together(client.delete(POD_MIGRATION_JOB, name) for name in names)


async def test_whoever_takes_over_in_the_middle_goes_on_where_the_other_was(
    client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    await add_nodes(client, 4)
    async with AsyncExitStack() as stack:
        first = stack.enter_context(restow(account, tmp_path, "first"))
        pods = await stack.enter_async_context(workload(client, namespace))
        leader = await holder(client)
        stack.enter_context(restow(account, tmp_path, "second"))
        names = await move_all(client, pods)
        async with asyncio.timeout(60):
            while not any(one.startswith("Succeed") for one in await phases(client, names)):
                await asyncio.sleep(0.05)
        first.kill()
        found = await ended(client, names)
        assert all(one.startswith("Succeed") for one in found), found
        assert await holder(client) not in (leader, None)
        await reaches(lambda: running(pods), REPLICAS, "running pods")
    await together(client.delete(POD_MIGRATION_JOB, name) for name in names)
