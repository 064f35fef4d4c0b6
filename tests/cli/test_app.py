"""The embedded cluster as a whole: how quick it is, and what happens when a part of it dies."""

from __future__ import annotations

import asyncio
import random
import signal

import pytest

from restow import app
from restow.adapters.rest.handler import VERSION
from restow.control.scheduler import Scheduler
from restow.model.kinds import DEPLOYMENT, NODE, POD, POD_MIGRATION_JOB
from restow.model.pods import is_ready
from restow.running import embedded
from restow.sim.world import Settings


@pytest.mark.parametrize(
    ("end", "told"),
    [
        pytest.param(RuntimeError("out of ideas"), "out of ideas", id="by an error"),
        pytest.param(asyncio.CancelledError(), "it just ended", id="called off by itself"),
    ],
)
async def test_a_scheduler_that_dies_takes_the_cluster_with_it(
    monkeypatch: pytest.MonkeyPatch, end: BaseException, told: str
) -> None:
    async def die(_: Scheduler) -> None:
        await asyncio.sleep(0.2)
        raise end

    monkeypatch.setattr(Scheduler, "run", die)
    with pytest.raises(embedded.PartStopped, match=f"the scheduler stopped: {told}"):
        async with embedded.embedded_cluster(nodes=1, rng=random.Random(1)):
            await asyncio.Event().wait()


def test_pods_start_and_stop_within_a_second() -> None:
    assert embedded.PACE.start + embedded.PACE.ready < 1.0
    assert embedded.PACE.stop < 1.0
    assert isinstance(embedded.PACE, Settings)


async def test_nodes_tell_the_version_that_the_server_tells() -> None:
    async with embedded.empty_cluster(nodes=1, rng=random.Random(1)) as cluster:
        node = await cluster.client.get_document(NODE, "node-1")
        assert node["status"]["nodeInfo"]["kubeletVersion"] == VERSION["gitVersion"]


async def test_a_pod_runs_on_the_embedded_cluster() -> None:
    async with embedded.embedded_cluster(nodes=1, rng=random.Random(1)) as cluster:
        container = {"name": "main", "image": "example.com/app:1"}
        await cluster.client.create(
            POD,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}},
            "default",
        )
        async with asyncio.timeout(10):
            async for event in cluster.client.watch(POD, "default", initial_events=True):
                if event.type != "BOOKMARK" and event.object.status.phase == "Running":
                    assert event.object.spec.node_name == "node-1"
                    return


async def test_a_job_made_by_hand_moves_a_pod_on_the_embedded_cluster() -> None:
    async with embedded.embedded_cluster(nodes=2, rng=random.Random(1)) as cluster:
        client = cluster.client
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        await client.create(DEPLOYMENT, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        async with asyncio.timeout(30):
            while not (pods := (await client.list(POD, "default")).items) or not is_ready(pods[0]):
                await asyncio.sleep(0.1)
            reference = {"namespace": "default", "name": pods[0].metadata.name}
            await client.create(POD_MIGRATION_JOB, {"metadata": {"name": "move"}, "spec": {"podRef": reference}})
            while (job := await client.get(POD_MIGRATION_JOB, "move")).status.phase != "Succeed":
                assert job.status.phase != "Failed", job.status.message
                await asyncio.sleep(0.1)
        assert job.status.node_name not in (None, pods[0].spec.node_name)
        [successor] = (await client.list(POD, "default")).items
        assert successor.spec.node_name == job.status.node_name


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
async def test_work_is_stopped_by(name: str) -> None:
    told: list[str] = []
    number = signal.Signals[name]
    before = signal.getsignal(number)
    asyncio.get_running_loop().call_later(0.05, signal.raise_signal, number)
    await app.until_stopped(asyncio.sleep(60), told.append)
    assert (told, signal.getsignal(number)) == ([name], before)


async def test_work_that_nobody_stopped_does_not_end_without_a_word() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(embedded.PartStopped, match="everything was called off, and nobody asked for it"):
        await app.until_stopped(give_up(), lambda name: None)
