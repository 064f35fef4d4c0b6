"""Moves on a real control plane that would leave a pod without a place: it stays; and controllers that are killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.audit import Audit, audit
from e2e.cluster import add_nodes, deployment, is_running, reaches, running, together
from e2e.reservation_stories import StoryCluster, story_cluster
from e2e.restow_process import restow
from e2e.test_migrations import BASE, LEAST, NODES, REPLICAS, arrived, ask, deploy, ended, job_name
from restow.adapters.clock import SystemClock
from restow.client.verbs import Client
from restow.control.migrations import MigrationConfiguration, MigrationController
from restow.control.scheduler import Scheduler
from restow.migration.arguments import read_migration_arguments
from restow.model.kinds import DEPLOYMENT, JOB, POD, POD_MIGRATION_JOB, RESERVATION, STATEFUL_SET
from restow.model.objects import Document, Pod
from restow.ports import Api
from restow.scheduling.registry import read_profile

SCHEDULER = "restow-attacks"
HUGE = "1000"


@asynccontextmanager
async def running_migrations(it: StoryCluster) -> AsyncIterator[None]:
    """Runs a scheduler and a migration controller."""
    names = frozenset({SCHEDULER})
    made = (
        Scheduler(it.api, it.clock, random.Random(1), profile=read_profile({"schedulerNames": sorted(names)})),
        MigrationController(
            it.api,
            it.clock,
            random.Random(2),
            MigrationConfiguration(read_migration_arguments({"maxMigratingPerNode": 0}, names)),
        ),
    )
    tasks = [asyncio.create_task(component.run()) for component in made]
    try:
        await asyncio.gather(*(component.ready() for component in made))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def web(namespace: str, cpu: str = "100m", **template: Any) -> Document:
    made = deployment("web", namespace, 1, cpu=cpu)
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER
    made["spec"]["template"]["metadata"] |= template
    return made


async def running_pod(it: StoryCluster) -> Pod:
    await it.runs(1)
    return it.alive()[0]


async def outdated(it: StoryCluster) -> Pod:
    """Its set has another template since, which no node has room for, and makes it anew only once it is gone."""
    made = web(it.namespace)
    spec = {"updateStrategy": {"type": "OnDelete"}, "serviceName": "web"}
    made["spec"] |= spec
    await it.client.create(STATEFUL_SET, {"metadata": made["metadata"], "spec": made["spec"]})
    pod = await running_pod(it)
    [container] = made["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["cpu"] = HUGE
    await it.client.patch(STATEFUL_SET, "web", {"spec": {"template": made["spec"]["template"]}}, it.namespace)
    await asyncio.sleep(1)
    return pod


async def of_a_last_try(it: StoryCluster) -> Pod:
    """Its Job counts a loss as a failure, and may have none."""
    template = web(it.namespace)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    template["metadata"]["labels"]["long-running"] = "yes"
    spec = {"backoffLimit": 0, "template": template}
    await it.client.create(JOB, {"metadata": {"name": "etl", "namespace": it.namespace}, "spec": spec})
    return await running_pod(it)


async def pod_that_names_its_reservation(it: StoryCluster) -> Pod:
    """It asks for a reservation by name, which it has used up."""
    await it.reserve(1, schedulerName=SCHEDULER, matchPolicy="Fits")
    await it.comes_to("Reserved")
    await it.client.create(DEPLOYMENT, web(it.namespace, annotations={"restow.sh/use-reservation": "seats"}))
    await it.comes_to("Consumed")
    return await running_pod(it)


Making = Callable[[StoryCluster], Awaitable[Pod]]


@pytest.mark.parametrize(
    ("making", "reason", "message"),
    [
        pytest.param(outdated, "Unschedulable", "cpu", id="outdated"),
        pytest.param(of_a_last_try, "ForbiddenMigratePod", "backoffLimit is 0", id="of a Job without retries"),
        pytest.param(
            pod_that_names_its_reservation,
            "ForbiddenMigratePod",
            "reservation seats by name",
            id="names its reservation",
        ),
    ],
)
async def test_protected_pod_is_not_moved(
    making: Making, reason: str, message: str, api: Api, client: Client, namespace: str
) -> None:
    async with story_cluster(api, client, namespace, SystemClock()) as it, running_migrations(it):
        old = await making(it)
        reference = {"namespace": namespace, "name": old.metadata.name}
        await client.create(POD_MIGRATION_JOB, {"metadata": {"name": namespace}, "spec": {"podRef": reference}})
        async with asyncio.timeout(60):
            while (await client.get(POD_MIGRATION_JOB, namespace)).status.reason != reason:
                await asyncio.sleep(0.2)
        await asyncio.sleep(2)
        status = (await client.get(POD_MIGRATION_JOB, namespace)).status
        assert status.reason == reason and message in (status.message or ""), status
        here = await client.get(POD, old.metadata.name, namespace)
        assert here.metadata.uid == old.metadata.uid and is_running(here)
        held = [
            reservation
            for reservation in (await client.list(RESERVATION, namespace)).items
            if reservation.status.placements
        ]
        assert [reservation.metadata.name for reservation in held] == (
            ["seats"] if making is pod_that_names_its_reservation else []
        )


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        pytest.param({"name": ".."}, "MissingPod", id="a pod above"),
        pytest.param({"name": "a/b"}, "MissingPod", id="a pod below"),
        pytest.param({"namespace": ".."}, "MissingPod", id="a namespace above"),
        pytest.param({"name": "ä%2f?x=y"}, "MissingPod", id="an odd pod"),
    ],
)
async def test_impossible_names_match_no_object(
    reference: Document, reason: str, api: Api, client: Client, namespace: str
) -> None:
    async with story_cluster(api, client, namespace, SystemClock()) as it, running_migrations(it):
        asked = {"namespace": namespace, "name": "web", **reference}
        await client.create(POD_MIGRATION_JOB, {"metadata": {"name": namespace}, "spec": {"podRef": asked}})
        async with asyncio.timeout(30):
            while (await client.get(POD_MIGRATION_JOB, namespace)).status.reason != reason:
                await asyncio.sleep(0.2)
        await client.delete(POD_MIGRATION_JOB, namespace)


KILLED = 4
"""Times."""
WORKLOADS, MOVES = 10, 30
SLOWLY = (
    BASE + "migration: {maxMigratingPerNode: 0, evictQPS: 2, evictBurst: 1, objectLimiters: {workload: {duration: 0s}}}"
)


@pytest.mark.full
@pytest.mark.timeout(420)
async def test_controller_killed_repeatedly_is_continued_by_the_next(
    client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    await add_nodes(client, NODES)
    rng = random.Random(7)
    async with audit(client, namespace) as seen:
        with restow(account, tmp_path, "first", SLOWLY, lease="3s"):
            await together(deploy(client, namespace, f"web-{number}", LEAST) for number in range(WORKLOADS))
            await reaches(lambda: running(seen.pods), WORKLOADS * REPLICAS, "running pods", 120)
            moved = rng.sample(sorted(seen.pods, key=job_name), MOVES)
            await together(ask(client, pod) for pod in moved)
            await reaches(lambda: arrived(seen) > 1, True, "the first have moved", 120)
        for number in range(KILLED):
            before = arrived(seen)
            with restow(account, tmp_path, f"next-{number}", SLOWLY, lease="3s"):
                await reaches(partial(_has_gone_on, seen, before), True, "others have moved", 120)
                await asyncio.sleep(rng.uniform(0, 1))
        assert arrived(seen) < MOVES, "some are left to be moved"
        with restow(account, tmp_path, "last", SLOWLY, lease="3s"):
            await reaches(lambda: ended(seen, moved), {"Succeed": MOVES}, "jobs", 240)
            await reaches(lambda: running(seen.pods), WORKLOADS * REPLICAS, "running pods")
        assert arrived(seen) == MOVES
        assert seen.faults(least=LEAST, per_node=None) == []


def _has_gone_on(seen: Audit, before: int) -> bool:
    return arrived(seen) > before + 1
