"""The embedded cluster as a whole: its speed, and its end when a component fails."""

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
from restow.running import embedded_cluster
from restow.sim.world import Settings


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(RuntimeError("out of ideas"), "out of ideas", id="failed"),
        pytest.param(asyncio.CancelledError(), "it ended without an error", id="cancelled"),
    ],
)
async def test_failing_scheduler_ends_the_cluster(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str
) -> None:
    async def fail(_: Scheduler) -> None:
        await asyncio.sleep(0.2)
        raise error

    monkeypatch.setattr(Scheduler, "run", fail)
    with pytest.raises(embedded_cluster.UnexpectedStop, match=f"component scheduler stopped: {message}"):
        async with embedded_cluster.embedded_cluster(nodes=1, rng=random.Random(1)):
            await asyncio.Event().wait()


def test_pods_start_and_stop_within_a_second() -> None:
    assert embedded_cluster.PACE.start + embedded_cluster.PACE.ready < 1.0
    assert embedded_cluster.PACE.stop < 1.0
    assert isinstance(embedded_cluster.PACE, Settings)


async def test_nodes_have_the_version_of_the_server() -> None:
    async with embedded_cluster.empty_cluster(nodes=1, rng=random.Random(1)) as cluster:
        node = await cluster.client.get_document(NODE, "node-1")
        assert node["status"]["nodeInfo"]["kubeletVersion"] == VERSION["gitVersion"]


async def test_pod_runs() -> None:
    async with embedded_cluster.embedded_cluster(nodes=1, rng=random.Random(1)) as cluster:
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


async def test_migration_job_moves_a_pod() -> None:
    async with embedded_cluster.embedded_cluster(nodes=2, rng=random.Random(1)) as cluster:
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
async def test_signal_stops_the_work(name: str) -> None:
    received: list[str] = []
    number = signal.Signals[name]
    before = signal.getsignal(number)
    asyncio.get_running_loop().call_later(0.05, signal.raise_signal, number)
    await app.until_stopped(asyncio.sleep(60), received.append)
    assert (received, signal.getsignal(number)) == ([name], before)


async def test_cancellation_without_a_signal_is_an_error() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(embedded_cluster.UnexpectedStop, match="cancelled without a signal"):
        await app.until_stopped(give_up(), lambda name: None)
