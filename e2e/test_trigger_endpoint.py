"""The trigger endpoint of the descheduler on a real control plane: service account tokens, RBAC, one run at a time."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession

from e2e.audit import audit
from e2e.cluster import deployment, fake_node, reaches, running, together
from e2e.controlplane import ControlPlane
from e2e.restow_process import LEASES, refusals, restow
from restow.adapters.clock import SystemClock
from restow.client.leader_election import LeaderElection
from restow.client.verbs import Client
from restow.control.descheduler.cycle_lease import CYCLE_LEASE_NAME
from restow.migration.conditions import is_job_ended
from restow.model.kinds import DEPLOYMENT, NODE
from restow.model.objects import Document

SCHEDULER = "restow-told"
NO_TOKEN = "a bearer token that the cluster accepts is required"
CONFIGURATION = """
scheduler: {{schedulerNames: [{scheduler}]}}
migration: {{maxMigratingPerNode: 0, objectLimiters: {{workload: {{duration: 0s}}}}}}
descheduler:
  profiles:
  - name: pack
    pluginConfig:
    - name: Defragmentation
      args: {{evictableNamespaces: {{include: [{namespace}]}}}}
    plugins: {{balance: {{enabled: [Defragmentation]}}}}
"""


class TriggerClient:
    """The trigger endpoint of a process, as clients with different tokens call it."""

    def __init__(self, session: ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}/deschedule"

    async def post(self, token: str | None, **query: str) -> tuple[int, dict[str, Any]]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self._session.post(self._url, params=query, headers=headers) as answer:
            return answer.status, await answer.json()

    async def opens(self, token: str) -> None:
        """The descheduler has its lease; a process that was here before may hold it for a while."""
        async with asyncio.timeout(60):
            while (await self.post(token, profile="unknown"))[0] == 503:
                await asyncio.sleep(0.1)


async def port_of(log: Path) -> int:
    """Where a process serves, as it says itself."""
    async with asyncio.timeout(60):
        while not (found := re.search(r"serving /healthz.*port=(\d+)", await asyncio.to_thread(log.read_text))):
            await asyncio.sleep(0.1)
    return int(found[1])


class Accounts:
    """Service accounts of a namespace, and their tokens."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace

    async def make(self, name: str, *, may: bool) -> None:
        """A service account that may create jobs (which allows to evict pods anywhere), or one that may not."""
        await self.kubectl("create", "serviceaccount", name, "-n", self._namespace)
        if may:
            role = f"{self._namespace}-{name}"
            rights = ("--verb=create", "--resource=podmigrationjobs.scheduling.koordinator.sh")
            subject = f"--serviceaccount={self._namespace}:{name}"
            await self.kubectl("create", "clusterrole", role, *rights)
            await self.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", subject)

    async def token(self, name: str, *more: str) -> str:
        return (await self.kubectl("create", "token", name, "-n", self._namespace, *more)).strip()

    async def signed(self, token: str, **claims: int) -> str:
        """The same token with other claims, signed with the key of the cluster."""
        header, payload, _ = token.split(".")
        decoded = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        text = f"{header}.{_encoded(json.dumps(decoded | claims).encode())}"
        command = ["openssl", "dgst", "-sha256", "-sign", str(self._plane.directory / "service-account.key")]
        made = await asyncio.to_thread(subprocess.run, command, input=text.encode(), capture_output=True, check=True)
        return f"{text}.{_encoded(made.stdout)}"

    async def kubectl(self, *arguments: str) -> str:
        command = [str(self._plane.kubectl), "--kubeconfig", str(self._plane.kubeconfig), *arguments]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        return done.stdout


@asynccontextmanager
async def turn_of(identity: str, client: Client) -> AsyncIterator[None]:
    """Another process plans, or applies a plan."""
    clock, rng = SystemClock(), random.Random(1)
    election = LeaderElection(client, namespace=LEASES, name=CYCLE_LEASE_NAME, identity=identity, clock=clock, rng=rng)
    begun, over = asyncio.Event(), asyncio.Event()

    async def plan() -> None:
        begun.set()
        await over.wait()

    planning = asyncio.create_task(election.run(plan))
    await begun.wait()
    yield
    over.set()
    await planning


def deschedule(kubeconfig: Path, directory: Path) -> list[str]:
    """The command, with the configuration of the process that runs."""
    options = ("--kubeconfig", kubeconfig, "--config", directory / "restow.yaml", "--namespace", LEASES)
    return [sys.executable, "-m", "restow", "deschedule", "--now", *map(str, options)]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def pinned(document: Document, **labels: str) -> Document:
    document["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": labels}
    return document


@pytest.mark.timeout(300)
async def test_triggering_a_run_requires_the_right_to_evict_pods(
    client: Client, namespace: str, plane: ControlPlane, account: Path, tmp_path: Path
) -> None:
    names = [f"{namespace}-{number}" for number in range(3)]
    await together(client.create(NODE, fake_node(name, pool=namespace, anchor=name)) for name in names)
    accounts = Accounts(plane, namespace)
    for name, may in (("operator", True), ("visitor", False), ("leaver", True)):
        await accounts.make(name, may=may)
    section = CONFIGURATION.format(scheduler=SCHEDULER, namespace=namespace)
    async with audit(client, namespace) as seen, aiohttp.ClientSession() as session:
        with restow(account, tmp_path, "restow", section, lease="15s"):
            door = TriggerClient(session, await port_of(tmp_path / "restow.log"))
            full = pinned(deployment("full", namespace, 1, cpu="6"), anchor=names[0])
            await client.create(DEPLOYMENT, full)
            await reaches(lambda: running(seen.pods), 1, "running pods", 120)
            await client.create(DEPLOYMENT, pinned(deployment("web", namespace, 2, cpu="500m"), pool=namespace))
            await reaches(lambda: running(seen.pods), 3, "running pods", 120)
            operator = await accounts.token("operator")
            await door.opens(operator)

            def ours() -> set[str]:
                return {job.metadata.name for job in seen.jobs if job.spec.pod_ref.namespace == namespace}

            async def answers(token: str | None, status: int, message: str, **query: str) -> None:
                response = await door.post(token, **query)
                assert response[0] == status and message in response[1]["message"], response

            await answers(None, 401, NO_TOKEN)
            await answers("", 401, NO_TOKEN)
            await answers("a.b.c", 401, NO_TOKEN)
            await answers(operator[:-8] + "AAAAAAAA", 401, NO_TOKEN)
            await answers(await accounts.token("operator", "--audience=elsewhere"), 401, NO_TOKEN)
            now = int(time.time())
            times = {"iat": now - 600, "nbf": now - 600}
            assert (await door.post(await accounts.signed(operator, **times), dryRun="true"))[0] == 200
            await answers(await accounts.signed(operator, **times, exp=now - 60), 401, NO_TOKEN)
            visitor = f"user system:serviceaccount:{namespace}:visitor cannot create podmigrationjobs"
            await answers(await accounts.token("visitor"), 403, visitor)
            await answers(operator, 404, "no profile is called 'spread'; there are pack", profile="spread")
            await answers(operator, 400, "expected parameters are profile=NAME and dryRun=true", dryrun="true")

            leaver = await accounts.token("leaver")
            assert (await door.post(leaver, dryRun="true"))[0] == 200
            await accounts.kubectl("delete", "serviceaccount", "leaver", "-n", namespace)
            async with asyncio.timeout(60):  # API servers cache for some seconds to which account a token belongs
                while (await door.post(leaver, dryRun="true"))[0] != 401:
                    await asyncio.sleep(1)

            status, shown = await door.post(operator, dryRun="true")
            assert (status, len(shown["plan"]["moves"]), shown["jobs"]) == (200, 2, [])
            assert ours() == set()
            async with turn_of("ann", client):
                taken = f"a run is under way: ann has the Lease {LEASES}/{CYCLE_LEASE_NAME}"
                await answers(operator, 409, taken)
                command = deschedule(account, tmp_path)
                tried = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
                assert (tried.returncode, tried.stdout) == (1, "") and taken in tried.stderr, tried
                assert ours() == set()
            responses = await asyncio.gather(*(door.post(operator, profile="pack") for _ in range(4)))
            assert sorted(answer[0] for answer in responses) == [200, 409, 409, 409], responses
            [done] = [answer[1] for answer in responses if answer[0] == 200]
            await reaches(ours, set(done["jobs"]), "jobs")
            await reaches(lambda: all(map(is_job_ended, seen.jobs)), True, "jobs that have ended", 120)
            await reaches(lambda: {pod.spec.node_name for pod in seen.pods}, {names[0]}, "nodes that are used")
            assert (await door.post(operator))[1]["jobs"] == []
        assert seen.faults(least=1, per_node=None) == []
    assert refusals(tmp_path) == []
