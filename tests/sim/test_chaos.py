"""Accidents of every kind, behind faults of every kind; when they end, everything is where it should be."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from restow.model import kinds
from restow.model.objects import Document, Pod
from restow.ports import ApiError
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import run_virtual
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    is_pod_ready,
    job,
    node,
    pass_time,
    simulated_cluster,
    template,
    workload,
)

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
CLASS = {"metadata": {"name": "fast"}, "provisioner": "sim/disk", "volumeBindingMode": "WaitForFirstConsumer"}
WEB, DB, NODES = 6, 3, 5


class Accidents:
    """What may happen to a cluster; each picks its victim by chance and may be refused."""

    def __init__(self, it: SimulatedCluster, rng: random.Random) -> None:
        self.it = it
        self.rng = rng
        self.changes = 0

    async def strike(self) -> None:
        happen: list[Callable[[], Awaitable[None]]] = [
            self.evict,
            self.delete,
            self.kill,
            self.silence,
            self.revive,
            self.replace_node,
            self.cordon,
            self.roll,
        ]
        with suppress(ApiError):
            await self.rng.choice(happen)()

    async def pod(self) -> Pod:
        return self.rng.choice(await self.it.pods())

    async def node(self) -> str:
        return self.rng.choice((await self.it.client.list(kinds.NODE)).items).metadata.name

    async def evict(self) -> None:
        victim = await self.pod()
        await self.it.client.evict("default", victim.metadata.name, uid=victim.metadata.uid)

    async def delete(self) -> None:
        await self.it.delete(kinds.POD, (await self.pod()).metadata.name)

    async def kill(self) -> None:
        await self.it.delete(kinds.POD, (await self.pod()).metadata.name, grace_seconds=0)

    async def silence(self) -> None:
        await self.it.world.silence(await self.node())

    async def revive(self) -> None:
        await self.it.world.revive(await self.node())

    async def replace_node(self) -> None:
        await self.it.delete(kinds.NODE, await self.node())
        self.changes += 1
        await self.it.create(kinds.NODE, node(f"m{self.changes}"))

    async def cordon(self) -> None:
        await self.it.patch(kinds.NODE, await self.node(), {"spec": {"unschedulable": True}})

    async def roll(self) -> None:
        self.changes += 1
        changed = {"spec": {"template": {"metadata": {"labels": {"v": str(self.changes)}}}}}
        kind, name = self.rng.choice(((kinds.DEPLOYMENT, "web"), (kinds.STATEFUL_SET, "db")))
        await self.it.patch(kind, name, changed)

    async def end(self) -> None:
        calm = {"metadata": {"annotations": {"sim.restow.sh/silent-since": None}}, "spec": {"unschedulable": None}}
        for each in (await self.it.client.list(kinds.NODE)).items:
            await self.it.patch(kinds.NODE, each.metadata.name, calm)


async def _populate(it: SimulatedCluster) -> None:
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    named: Document = {"metadata": {"name": "web", "namespace": "default"}, "spec": budget}
    await it.create(kinds.STORAGE_CLASS, CLASS)
    await it.create(kinds.DEPLOYMENT, workload("web", WEB, pods=template("900m", app="web")))
    await it.create(kinds.STATEFUL_SET, workload("db", DB, serviceName="db", volumeClaimTemplates=[CLAIM]))
    await it.create(kinds.JOB, job("etl", run=200, completions=4, parallelism=2, backoffLimit=1000))
    await it.create(kinds.DAEMON_SET, workload("agent", None))
    await it.create(kinds.POD_DISRUPTION_BUDGET, named)


@pytest.mark.parametrize("rate", [pytest.param(0.0, id="healthy server"), pytest.param(0.15, id="faulty server")])
@pytest.mark.parametrize("seed", range(3))
def test_simulated_cluster_recovers_from_every_accident(seed: int, rate: float) -> None:
    async def story() -> None:
        rng = random.Random(seed)
        plan = FaultPlan(dropped=rate, late=rate, conflict=rate, busy=rate, refused=rate, unknown=rate, slow=rate)
        async with simulated_cluster(
            nodes=NODES, seed=seed, around=lambda api: FaultyApi(api, random.Random(seed), plan)
        ) as it:
            await _populate(it)
            accidents = Accidents(it, rng)
            for _ in range(20):
                await pass_time(rng.uniform(0, 60))
                await accidents.strike()
            await accidents.end()
            await pass_time(3600)
            pods = await it.pods()
            serving = [(each.metadata.labels or {})["app"] for each in pods if is_pod_ready(each)]
            assert {app: serving.count(app) for app in ("web", "db", "agent")} == {"web": WEB, "db": DB, "agent": NODES}
            assert not [each for each in pods if (each.status.reason or "").startswith("OutOf")]
            assert (await it.document(kinds.JOB, "etl"))["status"]["succeeded"] == 4

    run_virtual(story())
