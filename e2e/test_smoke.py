"""The parts together on a real control plane: nodes, a workload, evictions, an API server that goes away."""

from __future__ import annotations

import random

import pytest

from e2e.cluster import add_nodes, deploy, eventually, following, is_ready, reaches, running
from e2e.controlplane import ControlPlane
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, load_kubeconfig
from restow.client.cache import Change, by_node
from restow.client.informer import Informer
from restow.client.informer_settings import InformerSettings
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET
from restow.model.objects import Pod
from restow.ports import Conflict, Forbidden, TooManyRequests

NODES = 100
PODS = 200


def pods_of(client: Client, namespace: str) -> Informer[Pod]:
    return Informer(
        client,
        POD,
        rng=random.Random(1),
        namespace=namespace,
        indexes={"node": by_node},
        settings=InformerSettings(backoff=0.2),
    )


async def test_a_hundred_nodes_become_ready(client: Client) -> None:
    async with following(Informer(client, NODE, rng=random.Random(1))) as nodes:
        names = set(await add_nodes(client, NODES))
        await eventually(lambda: names <= {n.metadata.name for n in nodes if is_ready(n)}, "every node is Ready")


async def test_a_workload_is_scheduled_runs_and_is_seen_whole(client: Client, namespace: str) -> None:
    await add_nodes(client, NODES)
    async with following(pods_of(client, namespace)) as pods:
        await deploy(client, namespace, PODS)
        await reaches(lambda: running(pods), PODS, "running pods", 120)
        listed = (await client.list(POD, namespace, limit=30)).items
        assert {pod.metadata.uid for pod in pods} == {pod.metadata.uid for pod in listed}
        assert not pods.find("node", "")
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 0}}, namespace)
        await reaches(lambda: len(pods), 0, "pods left", 120)


async def test_evictions_respect_the_budget_and_the_uid(client: Client, namespace: str) -> None:
    await add_nodes(client, NODES)
    budget = {
        "metadata": {"name": "keep", "namespace": namespace},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}},
    }
    async with following(pods_of(client, namespace)) as pods:
        await deploy(client, namespace, 4)
        await reaches(lambda: running(pods), 4, "running pods")
        await client.create(POD_DISRUPTION_BUDGET, budget)
        victim = next(iter(pods))
        name = victim.metadata.name or ""
        with pytest.raises(TooManyRequests):
            await client.evict(namespace, name, uid=victim.metadata.uid or "")
        await client.delete(POD_DISRUPTION_BUDGET, "keep", namespace)
        with pytest.raises(Conflict):
            await client.evict(namespace, name, uid="11111111-2222-3333-4444-555555555555")
        await client.evict(namespace, name, uid=victim.metadata.uid or "", dry_run=True)
        assert (await client.get(POD, name, namespace)).metadata.deletion_timestamp is None
        await client.evict(namespace, name, uid=victim.metadata.uid or "")
        await eventually(lambda: pods.get(name, namespace) is None, "the victim is gone")
        await reaches(lambda: running(pods), 4, "running pods")


async def test_an_informer_survives_the_api_server(client: Client, namespace: str, plane: ControlPlane) -> None:
    await add_nodes(client, NODES)
    async with following(pods_of(client, namespace)) as pods:
        changes: list[Change[Pod]] = []
        pods.subscribe(changes.append)
        await deploy(client, namespace, 10)
        await reaches(lambda: running(pods), 10, "running pods")
        await plane.restart_api_server()
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 15}}, namespace)
        await reaches(lambda: running(pods), 15, "running pods", 90)
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 0}}, namespace)
        await reaches(lambda: len(pods), 0, "pods left", 90)
    assert_without_gaps(changes)


def assert_without_gaps(changes: list[Change[Pod]]) -> None:
    """Each object comes once, changes from what was last seen, and goes once."""
    last: dict[str, Pod] = {}
    for change in changes:
        uid = change.object.metadata.uid or ""
        assert (change.type == "ADDED") == (uid not in last)
        assert change.type == "ADDED" or change.old == last[uid]
        last[uid] = change.object
    assert sum(change.type == "DELETED" for change in changes) == len(last)


async def test_user_without_rights_gets_a_clear_error(plane: ControlPlane, namespace: str) -> None:
    async with KubernetesApi(load_kubeconfig(plane.limited_kubeconfig), clock=SystemClock()) as api:
        with pytest.raises(Forbidden, match='User "limited" cannot list resource "pods"'):
            await Client(api).list(POD, namespace)
