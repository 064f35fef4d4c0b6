"""Cluster events requeue the pods that they may help, long before these are tried again anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, Request
from restow.scheduling.framework import SUCCESS, Code, Cycle, PermitPlugin, Verdict
from tests.control.reservations.reservation_cluster import WEB, new_reservation
from tests.control.scheduler_cluster import gang_member, nodes_by_pod, pod_group, scheduled_cluster
from tests.control.volume_objects import LOCAL_STORAGE_CLASS, local_volume, pod_with_claims, volume_claim
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, template, workload

Change = Callable[[SimulatedCluster], Awaitable[None]]
TEAM = {"labelSelector": {"matchLabels": {"team": "x"}}}
GREEDY = SchedulerSettings(namespace_share=100)


async def waits(it: SimulatedCluster, *names: str) -> None:
    """They wait now, and back-off is over."""
    await pass_time(20)
    assert [(await nodes_by_pod(it))[name] for name in names] == [None] * len(names)


async def woken(it: SimulatedCluster, *names: str) -> None:
    await pass_time(15)
    assert None not in [(await nodes_by_pod(it))[name] for name in names]


def near(kind: str) -> Document:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def edited(**spec: Any) -> Change:
    return lambda it: it.patch(kinds.RESERVATION, "r", {"spec": spec})


def tasks(cpu: str, app: str = "web") -> list[Document]:
    return [{"name": "web", "replicas": 1, "template": template(cpu, app=app)}]


@pytest.mark.parametrize(
    ("held", "waiting", "change"),
    [
        pytest.param({"owners": [TEAM]}, {"cpu": "4"}, edited(owners=[WEB]), id="owners edited"),
        pytest.param({"matchPolicy": "Template"}, {"cpu": "3"}, edited(matchPolicy="Fits"), id="match policy edited"),
        pytest.param({"owners": [TEAM]}, {"cpu": "3"}, edited(tasks=tasks("1")), id="template made smaller"),
        pytest.param(
            {"cpu": "1"},
            {"cpu": "1", "app": "x", "affinity": near("podAntiAffinity")},
            edited(tasks=tasks("1", "other")),
            id="labels of the template edited",
        ),
    ],
)
def test_edited_reservation_requeues_pods_that_fit_because_of_it(
    held: Document, waiting: Document, change: Change
) -> None:
    @on_virtual_time
    async def run() -> None:
        async with scheduled_cluster(nodes=1, settings=GREEDY) as it:
            await it.create(kinds.RESERVATION, new_reservation(**{"replicas": 1, "cpu": "4", **held}))
            await pass_time(3)
            await it.create(kinds.POD, pod("a", **waiting))
            await waits(it, "a")
            await change(it)
            await woken(it, "a")

    run()


@on_virtual_time
async def test_new_seat_requeues_pods_with_affinity_to_its_pod() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.POD, pod("a", app="x", affinity=near("podAffinity")))
        await waits(it, "a")
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await woken(it, "a")


@pytest.mark.parametrize(
    ("owner", "named", "change"),
    [
        pytest.param(
            WEB, "typo", {"annotations": {"restow.sh/use-reservation": "r"}}, id="group names another reservation"
        ),
        pytest.param(TEAM, "r", {"labels": {"team": "x"}}, id="group becomes an owner"),
    ],
)
def test_edited_pod_group_requeues_its_pods(owner: Document, named: str, change: Document) -> None:
    @on_virtual_time
    async def run() -> None:
        async with scheduled_cluster() as it:
            await it.create(kinds.RESERVATION, new_reservation(owners=[owner]))
            gang = pod_group("g", 2)
            gang["metadata"]["annotations"] = {"restow.sh/use-reservation": named}
            await it.create(kinds.POD_GROUP, gang)
            for name in "ab":
                await it.create(kinds.POD, gang_member(name, "g"))
            await waits(it, "a", "b")
            await it.patch(kinds.POD_GROUP, "g", {"metadata": change})
            await woken(it, "a", "b")

    run()


@pytest.mark.parametrize("gang", [pytest.param(False, id="nominated pod"), pytest.param(True, id="nominated gang")])
def test_ended_nomination_requeues_pods_that_wait_for_room(gang: bool) -> None:
    @on_virtual_time
    async def run() -> None:
        async with scheduled_cluster(nodes=1, cpu="6", stop=3000.0) as it:
            await it.create(kinds.POD, pod("old", "4", terminationGracePeriodSeconds=3000))
            await pass_time(3)
            await it.delete(kinds.POD, "old")
            waiting = [gang_member("a", "g", "3"), gang_member("b", "g", "3")] if gang else [pod("a", "5")]
            await it.create(kinds.POD_GROUP, pod_group("g", 2))
            for one in waiting:
                await it.create(kinds.POD, one)
            await pass_time(3)
            await it.create(kinds.POD, pod("small", "2"))
            await waits(it, "a", "small")
            for one in waiting:
                await it.delete(kinds.POD, one["metadata"]["name"], grace_seconds=0)
            await woken(it, "small")

    run()


class Late:
    """An Api with watches that show some kinds so many seconds later than the others."""

    def __init__(self, api: Api, seconds: dict[str, float]) -> None:
        self._api = api
        self._seconds = seconds
        self.call = api.call

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            await asyncio.sleep(self._seconds.get(request.resource.plural, 0.0))
            yield event


APP = {"apiVersion": "example.com/v1", "kind": "App", "name": "shop", "uid": "uid-shop", "controller": True}


@pytest.mark.parametrize(
    ("late", "owner"),
    [
        pytest.param({"replicasets": 8}, {"kind": "Deployment", "name": "d"}, id="owner seen later"),
        pytest.param(
            {"replicasets": 8}, {"kind": "App", "name": "shop"}, id="owner seen later, owner of the owner known"
        ),
        pytest.param({"deployments": 8}, {"kind": "App", "name": "shop"}, id="owner of the owner seen later"),
        pytest.param(
            {"replicasets": 8, "deployments": 14}, {"kind": "App", "name": "shop"}, id="owners seen one after the other"
        ),
    ],
)
@on_virtual_time
async def test_pod_seen_before_its_owner_is_tried_again_when_the_owner_is_seen(
    late: dict[str, float], owner: Document
) -> None:
    async with scheduled_cluster(around=lambda api: Late(api, late)) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, owners=[{"controller": owner}]))
        named = template("1", app="d", annotations={"restow.sh/use-reservation": "r"})
        made = workload("d", 1, pods=named)
        await it.create(kinds.DEPLOYMENT, {**made, "metadata": {**made["metadata"], "ownerReferences": [APP]}})
        await pass_time(6)
        [one] = await it.pods()
        assert one.spec.node_name is None
        await woken(it, one.metadata.name)


class Gatekeeper(PermitPlugin):
    """Lets one pod wait until it is gone."""

    name = "Gatekeeper"

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return (Verdict(Code.WAIT), 600.0) if cycle.pod.metadata.name == "p1" else (SUCCESS, 0.0)


@on_virtual_time
async def test_volume_given_back_requeues_pods_that_wait_for_it() -> None:
    async with scheduled_cluster(Gatekeeper()) as it:
        await it.create(kinds.STORAGE_CLASS, LOCAL_STORAGE_CLASS)
        await it.create(kinds.PERSISTENT_VOLUME, local_volume("d1", "n1"))
        for number in (1, 2):
            await it.create(kinds.PERSISTENT_VOLUME_CLAIM, volume_claim(f"c{number}"))
            await it.create(kinds.POD, pod_with_claims(f"p{number}", f"c{number}"))
            await pass_time(3)
        await waits(it, "p1", "p2")
        await it.delete(kinds.POD, "p1", grace_seconds=0)
        await woken(it, "p2")
