"""Clusters in which a plan makes room for a gang and reserves it, and competing pods that would take it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from restow.model import kinds
from restow.model.objects import Reservation
from restow.planning.plan import Move, Place, Plan
from tests.control.descheduler.descheduler_fixture import QUICKLY, ScatteredCluster
from tests.control.migrations.migration_cluster import cluster_with_scheduler, running_controller
from tests.control.scheduler_cluster import gang_member, pod_group
from tests.sim.simulated_cluster import pass_time, pod, template, workload

COMPETING_POD_CPU = "3"
"""Cores: too large for n1; n2 and n3 have as much beside their web pods."""


@asynccontextmanager
async def crowded_cluster(**settings: Any) -> AsyncIterator[ScatteredCluster]:
    """Three nodes of 4 cores, a web pod of 1 on each, and an anchor on n1; a gang of two waits for 4 cores each. Two
    more nodes are full."""
    async with cluster_with_scheduler(nodes=5, **settings) as base:
        it = ScatteredCluster(base.api, base.world, base.clock)
        for name in ("n4", "n5"):
            await it.create(kinds.POD, pod(f"full-{name}", "4", nodeName=name))
        await it.create(kinds.POD, pod("anchor", "900m", nodeName="n1"))
        await it.create(kinds.DEPLOYMENT, workload("web", 3, pods=template("1", app="web")))
        await it.create(kinds.POD_GROUP, pod_group("gang", 2))
        await pass_time(5)
        for name in ("gang-0", "gang-1"):
            await it.create(kinds.POD, gang_member(name, "gang", "4"))
        await pass_time(2)
        async with running_controller(it.api, it.clock, **QUICKLY):
            yield it


async def plan_with_places(it: ScatteredCluster, *, waves: int = 2) -> Plan:
    """The web pods of n2 and n3 go to n1, and the gang takes their nodes."""
    at = {one.spec.node_name: one for one in await it.pods() if (one.metadata.labels or {}).get("app") == "web"}
    moves = [
        Move(
            order=order,
            wave=min(order, waves),
            namespace="default",
            pod=at[node].metadata.name,
            uid=at[node].metadata.uid,
            source=node,
            target="n1",
        )
        for order, node in enumerate(("n2", "n3"), start=1)
    ]
    seats = [Place(namespace="default", pod="gang-0", node="n2"), Place(namespace="default", pod="gang-1", node="n3")]
    return Plan(strategy="optimal", objective="pending", moves=tuple(moves), places=tuple(seats))


async def place_reservations(it: ScatteredCluster) -> list[Reservation]:
    found = (await it.client.list(kinds.RESERVATION)).items
    return [one for one in found if "restow.sh/claim-of" in (one.metadata.labels or {})]


async def create_competing_pods(it: ScatteredCluster, after: float) -> None:
    await pass_time(after)
    for number in range(3):
        await it.create(kinds.POD, pod(f"competitor-{number}", COMPETING_POD_CPU))
