"""The world as a whole: the same seed gives the same run, and it settles."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.cache import Change
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.object_key import Key
from restow.ports import APPLY_PATCH, Api, Request, Resource, Response
from restow.sim.loop import VirtualClock, run_virtual
from restow.sim.scenarios import Scenario, generate_documents, load_documents
from restow.sim.world import Rule, Settings, Step, View, World
from restow.sim.world.kubelet import Kubelets
from restow.sim.write_log import WriteLog, is_write, name_of
from tests.sim.simulated_cluster import job, node, on_virtual_time, pass_time, pod, simulated_cluster, workload


class Recorder:
    """An Api that writes down every write that passes."""

    def __init__(self, api: Api) -> None:
        self.writes = WriteLog()
        self._api = api
        self.watch = api.watch

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if is_write(request):
            self.writes.add(request, response)
        return response


async def _busy_day(seed: int) -> str:
    recorders: list[Recorder] = []

    def around(api: Api) -> Recorder:
        recorders.append(Recorder(api))
        return recorders[-1]

    async with simulated_cluster(nodes=3, seed=seed, around=around) as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 5))
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db"))
        await it.create(kinds.JOB, job("etl", completions=4, parallelism=2))
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        await pass_time(60)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await it.delete(kinds.NODE, "n2")
        await pass_time(600)
    digest = hashlib.sha256()
    for write in recorders[0].writes:
        digest.update(write.name.encode() + write.request.body + write.response.body)
    return digest.hexdigest()


def _in_another_process(hash_seed: str) -> str:
    """The same day where sets and dicts of strings may be ordered differently."""
    program = "from tests.sim.test_world import _busy_day, run_virtual; print(run_virtual(_busy_day(1)))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(["src", "."])}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_the_same_seed_gives_the_same_run() -> None:
    runs = [run_virtual(_busy_day(seed)) for seed in (1, 2)]
    assert runs[0] != runs[1]
    assert {_in_another_process(hash_seed) for hash_seed in ("1", "2")} == {runs[0]}


@on_virtual_time
async def test_a_settled_world_writes_nothing() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 5))
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db"))
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        await pass_time(120)
        version = it.api.version
        await pass_time(4 * 3600)
        assert it.api.version == version


class Broken(Rule):
    """A rule with a bug."""

    kind = kinds.NODE
    also = (kinds.POD,)

    def keys(self, kind: kinds.Kind[Any], change: Change[Any], view: View) -> list[Key]:
        raise ZeroDivisionError

    def decide(self, key: Key, view: View) -> Step:
        raise ZeroDivisionError


@on_virtual_time
async def test_failing_rule_is_counted_and_others_go_on() -> None:
    clock = VirtualClock()
    api = MemoryApi(clock, random.Random(1))
    client = Client(api)
    await client.create(kinds.NODE, node("n1"))
    async with World(api, clock, random.Random(2), rules=[Broken(), Kubelets(Settings())]) as world:
        await client.create(kinds.POD, pod("a", nodeName="n1"))
        await pass_time(10)
        assert (await client.get(kinds.POD, "a", "default")).status.phase == "Running"
        assert world.failures > 1


@on_virtual_time
async def test_a_generated_cluster_is_left_alone() -> None:
    clock = VirtualClock()
    api = MemoryApi(clock, random.Random(1))
    client = Client(api)
    scenario = Scenario(nodes=20, pods=150, seed=3)
    await load_documents(client, generate_documents(scenario))
    before = {pod.metadata.uid: pod.spec.node_name for pod in (await client.list(kinds.POD)).items}
    async with World(api, clock, random.Random(2)) as world:
        await pass_time(600)
        after = {pod.metadata.uid: pod.spec.node_name for pod in (await client.list(kinds.POD)).items}
        assert world.failures == 0
    assert before == after
    assert len(before) > 150


COUNTED: dict[kinds.Kind[Any], tuple[str, ...]] = {
    kinds.DEPLOYMENT: ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
    kinds.REPLICA_SET: ("replicas", "readyReplicas", "availableReplicas"),
    kinds.STATEFUL_SET: ("replicas", "readyReplicas", "availableReplicas"),
    kinds.DAEMON_SET: ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled", "numberMisscheduled"),
    kinds.JOB: ("active", "ready", "succeeded", "failed"),
    kinds.POD_DISRUPTION_BUDGET: ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"),
}


@on_virtual_time
async def test_a_generated_cluster_counts_itself_as_its_controllers_do() -> None:
    clock = VirtualClock()
    api = MemoryApi(clock, random.Random(1))
    client = Client(api)

    async def counts() -> dict[object, object]:
        statuses: dict[object, object] = {}
        for kind, fields in COUNTED.items():
            for item in (await client.list(kind.whole)).items:
                key = (kind.kind, item["metadata"]["namespace"], item["metadata"]["name"])
                statuses[key] = {field: item["status"].get(field) for field in fields}
        return statuses

    await load_documents(client, generate_documents(Scenario(nodes=30, pods=200, seed=4, budgets=1)))
    written = await counts()
    async with World(api, clock, random.Random(2)):
        await pass_time(60)
    assert await counts() == written


@on_virtual_time
async def test_a_namespace_takes_everything_along() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.NAMESPACE, {"metadata": {"name": "team"}})
        for kind, made in ((kinds.DEPLOYMENT, workload("web", 3)), (kinds.JOB, job("etl", run=1000))):
            made["metadata"]["namespace"] = "team"
            await it.create(kind, made)
        await pass_time(10)
        await it.delete(kinds.NAMESPACE, "team")
        await pass_time(30)
        assert "team" not in {each.metadata.name for each in (await it.client.list(kinds.NAMESPACE)).items}


PODS = Resource("", "v1", "pods")


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        pytest.param(
            Request(verb="create", resource=PODS, namespace="a", body=b'{"metadata":{"name":"x"}}'),
            "create Pod a/x",
            id="create",
        ),
        pytest.param(
            Request(verb="create", resource=PODS, namespace="a", body=b'{"metadata":{"generateName":"x-"}}'),
            "create Pod a/x-*",
            id="a generated name",
        ),
        pytest.param(
            Request(verb="create", resource=PODS, namespace="a", name="x", subresource="binding"),
            "bind Pod a/x",
            id="bind",
        ),
        pytest.param(
            Request(verb="create", resource=PODS, namespace="a", name="x", subresource="eviction"),
            "evict Pod a/x",
            id="evict",
        ),
        pytest.param(
            Request(verb="patch", resource=Resource("", "v1", "nodes"), name="n1", subresource="status"),
            "patch Node/status n1",
            id="status of a node",
        ),
        pytest.param(
            Request(verb="patch", resource=Resource("x.io", "v1", "things"), name="t", content_type=APPLY_PATCH),
            "patch things t",
            id="an unknown kind",
        ),
    ],
)
def test_writes_are_named_by_verb_kind_and_object(request_: Request, name: str) -> None:
    assert name_of(request_) == name


def test_a_name_that_comes_again_is_counted() -> None:
    writes = WriteLog()
    request = Request(verb="patch", resource=Resource("", "v1", "nodes"), name="n1")
    for _ in range(3):
        writes.add(request, Response(body=b"{}"))
    assert writes.names == ["patch Node n1", "patch Node n1 (2)", "patch Node n1 (3)"]
