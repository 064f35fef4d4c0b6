"""Reservations on a real control plane: seats for a Deployment, through a rolling update and a change of leaders."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from e2e.cluster import add_nodes, deployment, eventually, following, reaches, running
from restow.adapters.clock import SystemClock
from restow.client.informer import Informer, Pace
from restow.client.verbs import Client
from restow.control.reservations import Collector
from restow.control.scheduler import Scheduler
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, EVENT, NODE, POD, RESERVATION
from restow.model.objects import Document, Pod, Reservation
from restow.ports import AlreadyExists, Api
from restow.scheduling.registry import read_profile
from restow.scheduling.reservations.arguments import read_arguments

NODES = 6
SCHEDULER = "restow-reservations"


@asynccontextmanager
async def restow(api: Api) -> AsyncIterator[None]:
    """The scheduler and the collector at work."""
    names, clock = [SCHEDULER], SystemClock()
    scheduler = Scheduler(api, clock, random.Random(1), profile=read_profile({"schedulerNames": names}))
    terms = read_arguments({"gcPeriod": "500ms", "gcDuration": "3s"})
    collector = Collector(api, clock, random.Random(2), names=frozenset(names), arguments=terms)
    tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(collector.run())]
    await asyncio.wait_for(scheduler.ready(), 60)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def reservations(client: Client, namespace: str) -> AsyncIterator[Informer[Reservation]]:
    """The kinds are installed, and nodes are there."""
    for definition in custom_resource_definitions():
        with suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await add_nodes(client, NODES)
    informer = Informer(client, RESERVATION, rng=random.Random(1), namespace=namespace, pace=Pace(backoff=0.2))
    async with following(informer):
        yield informer


@pytest.fixture
async def pods(client: Client, namespace: str) -> AsyncIterator[Informer[Pod]]:
    async with following(Informer(client, POD, rng=random.Random(1), namespace=namespace)) as pods:
        yield pods


def workload(namespace: str, replicas: int) -> Document:
    made = deployment("web", namespace, replicas, cpu="500m")
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER
    return made


def reservation(namespace: str, replicas: int, name: str = "seats", cpu: str = "500m", **spec: Any) -> Document:
    template = deployment("web", namespace, 0, cpu=cpu)["spec"]["template"]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": SCHEDULER,
            "matchPolicy": "Fits",
            "owners": [{"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}],
            "tasks": [{"name": "web", "replicas": replicas, "template": template}],
            **spec,
        },
    }


def phase(reservations: Informer[Reservation], namespace: str, name: str = "seats") -> str | None:
    found = reservations.get(name, namespace)
    return found.status.state.reason if found is not None else None


def taken(reservations: Informer[Reservation], namespace: str) -> dict[str, str]:
    """The node of every pod that took a seat."""
    found = reservations.get("seats", namespace)
    placements = (found.status.placements or ()) if found is not None else ()
    return {one.pod_ref.name or "": one.node_name for one in placements if one.pod_ref is not None}


async def test_a_deployment_takes_its_seats_across_leaders_and_a_rolling_update(
    api: Api, client: Client, namespace: str, reservations: Informer[Reservation], pods: Informer[Pod]
) -> None:
    async with restow(api):
        await client.create(RESERVATION, reservation(namespace, 4))
        await reaches(lambda: phase(reservations, namespace), "Reserved", "the reservation is")
        await client.create(DEPLOYMENT, workload(namespace, 2))
        await reaches(lambda: running(pods), 2, "running pods")
        await reaches(lambda: len(taken(reservations, namespace)), 2, "seats that are marked")
    async with restow(api):  # another leader, which knows nothing but what the server says
        changed = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}, "replicas": 2}}
        await client.patch(DEPLOYMENT, "web", changed, namespace)
        await reaches(lambda: phase(reservations, namespace), "Consumed", "the reservation is")
        await reaches(lambda: running(pods), 2, "running pods")
        where = taken(reservations, namespace)
        assert len(where) == 4
        assert all(where[pod.metadata.name] == pod.spec.node_name for pod in pods if pod.metadata.name in where)
        await eventually(lambda: reservations.get("seats", namespace) is None, "the collector has been there")
    assert {"Reserved", "Consumed"} <= {one["reason"] for one in (await client.list_documents(EVENT, namespace)).items}


async def test_how_it_ends(api: Api, client: Client, namespace: str, reservations: Informer[Reservation]) -> None:
    async with restow(api):
        await client.create(RESERVATION, reservation(namespace, 1, "expires", ttl="3s"))
        await client.create(RESERVATION, reservation(namespace, 1, "invalid", minAvailable=5))
        await client.create(RESERVATION, reservation(namespace, 1, "huge", cpu="1000"))
        await client.create(RESERVATION, reservation(namespace, 1, "robbed", cpu="7"))
        for name, reason in (("invalid", "Invalid"), ("huge", "Unschedulable"), ("expires", "Expired")):
            await reaches(partial(phase, reservations, namespace, name), reason, f"{name} is")
        await reaches(lambda: phase(reservations, namespace, "robbed"), "Reserved", "robbed is")
        [seat] = (await client.get(RESERVATION, "robbed", namespace)).status.placements or []
        await client.patch(NODE, seat.node_name, {"spec": {"unschedulable": True}})
        await reaches(lambda: phase(reservations, namespace, "robbed"), "NodeUnfit", "robbed is")
        await client.patch(NODE, seat.node_name, {"spec": {"unschedulable": None}})
        await reaches(lambda: phase(reservations, namespace, "robbed"), "Reserved", "robbed is")
        container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "7"}}}
        thief = {"containers": [container], "nodeName": seat.node_name}
        await client.create(POD, {"metadata": {"name": "thief", "namespace": namespace}, "spec": thief})
        await reaches(lambda: phase(reservations, namespace, "robbed"), "RoomTaken", "robbed is")
