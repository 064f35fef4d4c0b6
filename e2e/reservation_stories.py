"""Stories of reservations that have to end the same way on every cluster: the embedded one and a real one.

In: an API server with workload controllers and kubelets behind it, simulated or real. `tests/e2e` runs the stories
on the embedded cluster, in virtual time; `e2e/test_reservations.py` on a real control plane with real Deployments,
StatefulSets and Jobs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import add_nodes, deployment, eventually, following, is_running, reaches, running
from restow.client.informer import Informer
from restow.client.informer_settings import InformerSettings
from restow.client.verbs import Client
from restow.control.reservations import ReservationGarbageCollector
from restow.control.scheduler import Scheduler
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    EVENT,
    JOB,
    NODE,
    POD,
    RESERVATION,
    STATEFUL_SET,
)
from restow.model.objects import Document, Pod, Reservation
from restow.model.reservations.settings import read_reservation_settings
from restow.ports import AlreadyExists, Api, Clock, Forbidden, Request, Response
from restow.scheduling.registry import read_profile

NODES = 6
SCHEDULER = "restow-reservations"
EXAMPLES = Path(__file__).parents[1] / "examples"


class StoryCluster:
    """Where a story takes place."""

    def __init__(self, api: Api, client: Client, namespace: str, clock: Clock) -> None:
        self.api = api
        self.client = client
        self.namespace = namespace
        self.clock = clock
        pace = InformerSettings(backoff=0.2)
        self.reservations = Informer(client, RESERVATION, rng=random.Random(1), namespace=namespace, settings=pace)
        self.pods = Informer(client, POD, rng=random.Random(2), namespace=namespace, settings=pace)

    async def reserve(self, replicas: int, name: str = "seats", **fields: Any) -> None:
        await self.client.create(RESERVATION, reservation(self.namespace, replicas, name, **fields))

    def reason(self, name: str = "seats") -> str | None:
        """Why a reservation is in its phase."""
        reservation: Reservation | None = self.reservations.get(name, self.namespace)
        return reservation.status.state.reason if reservation is not None else None

    def taken(self, name: str = "seats") -> dict[str, str]:
        """The node of every pod that took a seat."""
        reservation: Reservation | None = self.reservations.get(name, self.namespace)
        placements = (reservation.status.placements or ()) if reservation is not None else ()
        return {
            placement.pod_ref.name or "": placement.node_name
            for placement in placements
            if placement.pod_ref is not None
        }

    def alive(self) -> list[Pod]:
        """The pods that run, by name."""
        return sorted(filter(is_running, self.pods), key=lambda pod: pod.metadata.name)

    async def runs(self, count: int) -> None:
        await reaches(lambda: running(self.pods), count, "running pods")

    async def comes_to(self, reason: str, name: str = "seats") -> None:
        await reaches(partial(self.reason, name), reason, f"{name} is")


@asynccontextmanager
async def story_cluster(api: Api, client: Client, namespace: str, clock: Clock) -> AsyncIterator[StoryCluster]:
    """The kinds are installed, and nodes are there."""
    for definition in custom_resource_definitions():
        with suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await add_nodes(client, NODES)
    it = StoryCluster(api, client, namespace, clock)
    async with following(it.reservations), following(it.pods):
        yield it


@asynccontextmanager
async def leader(it: StoryCluster) -> AsyncIterator[None]:
    """A scheduler and a garbage collector at work, which know only what the server returns."""
    names = [SCHEDULER, "volcano"]
    scheduler = Scheduler(it.api, it.clock, random.Random(1), profile=read_profile({"schedulerNames": names}))
    terms = read_reservation_settings({"gcPeriod": "500ms", "gcDuration": "3s"})
    collector = ReservationGarbageCollector(
        it.api, it.clock, random.Random(2), scheduler_names=frozenset(names), settings=terms
    )
    tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(collector.run())]
    await asyncio.wait_for(scheduler.ready(), 60)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def workload(namespace: str, replicas: int, name: str = "web", **spec: Any) -> Document:
    made = deployment(name, namespace, replicas, cpu="500m")
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER
    made["spec"] |= spec
    return made


def reservation(
    namespace: str,
    replicas: int,
    name: str = "seats",
    *,
    owner: str = "Deployment",
    cpu: str = "500m",
    moves: str | None = None,
    **spec: Any,
) -> Document:
    template = deployment("web", namespace, 0, cpu=cpu)["spec"]["template"]
    notes = {"restow.sh/migrating": moves} if moves else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": notes},
        "spec": {
            "schedulerName": SCHEDULER,
            "matchPolicy": "Fits",
            "owners": [{"controller": {"apiVersion": "apps/v1", "kind": owner, "name": "web"}}],
            "tasks": [{"name": "web", "replicas": replicas, "template": template}],
            **spec,
        },
    }


# --- the stories ------------------------------------------------------------------------------------------------------


async def a_deployment_takes_its_seats_across_leaders_and_a_rolling_update(it: StoryCluster) -> None:
    async with leader(it):
        await it.reserve(4)
        await it.comes_to("Reserved")
        await it.client.create(DEPLOYMENT, workload(it.namespace, 2))
        await it.runs(2)
        await reaches(lambda: len(it.taken()), 2, "seats that are marked")
    async with leader(it):
        changed = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}, "replicas": 2}}
        await it.client.patch(DEPLOYMENT, "web", changed, it.namespace)
        await it.comes_to("Consumed")
        await it.runs(2)
        where = it.taken()
        assert len(where) == 4
        assert all(where[pod.metadata.name] == pod.spec.node_name for pod in it.alive())
        await eventually(lambda: it.reason() is None, "the collector has been there")
    reasons = {event["reason"] for event in (await it.client.list(EVENT.whole, it.namespace)).items}
    assert {"Reserved", "Consumed"} <= reasons


class Silenced:
    """An Api that drops the writes that record consumed seats, once it is told to."""

    def __init__(self, api: Api) -> None:
        self.is_silent = False
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        if self.is_silent and (request.resource.plural, request.subresource) == ("reservations", "status"):
            raise Forbidden.because(403, "Forbidden", "silenced")
        return await self._api.call(request)


async def a_seat_that_was_not_marked_stays_taken_across_leaders_and_owners(it: StoryCluster) -> None:
    it.api = silenced = Silenced(it.api)
    async with leader(it):
        await it.reserve(2)
        await it.comes_to("Reserved")
        silenced.is_silent = True
        await it.client.create(DEPLOYMENT, workload(it.namespace, 1))
        await it.runs(1)
    assert it.taken() == {}
    silenced.is_silent = False
    others = [{"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}}]
    await it.client.patch(RESERVATION, "seats", {"spec": {"owners": others}}, it.namespace)
    async with leader(it):
        [pod] = it.alive()
        await reaches(it.taken, {pod.metadata.name: pod.spec.node_name}, "seats that are marked")
        await it.client.create(DEPLOYMENT, workload(it.namespace, 1, "api"))
        await it.comes_to("Consumed")
        assert len(it.taken()) == 2


async def a_stateful_pod_takes_the_seat_that_its_predecessor_of_the_same_name_leaves_it(it: StoryCluster) -> None:
    async with leader(it):
        await it.client.create(STATEFUL_SET, workload(it.namespace, 1, serviceName="web") | {"kind": "StatefulSet"})
        await it.runs(1)
        [old] = it.alive()
        await it.reserve(1, owner="StatefulSet", moves=old.metadata.uid)
        await it.comes_to("Reserved")
        await it.client.delete(POD, old.metadata.name, it.namespace)
        await it.comes_to("Consumed")
        await it.runs(1)
        [new] = it.alive()
        assert (new.metadata.name, new.metadata.uid != old.metadata.uid) == ("web-0", True)
        assert it.taken() == {"web-0": new.spec.node_name}


async def a_sibling_does_not_take_the_seat_of_a_pod_that_moves(it: StoryCluster) -> None:
    async with leader(it):
        await it.client.create(DEPLOYMENT, workload(it.namespace, 1))
        await it.runs(1)
        [migrating_pod] = it.alive()
        await it.reserve(1, moves=migrating_pod.metadata.uid)
        await it.comes_to("Reserved")
        await it.client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 3}}, it.namespace)
        await it.runs(3)
        assert it.taken() == {}
        others = {pod.metadata.name for pod in it.pods}
        await it.client.delete(POD, migrating_pod.metadata.name, it.namespace)
        await it.comes_to("Consumed")
        assert it.taken().keys().isdisjoint(others)


async def the_example_works_unchanged(it: StoryCluster) -> None:
    """In the namespace that it names; what it leaves there is cleared away."""
    seats, job = (yaml.safe_load((EXAMPLES / name).read_text()) for name in ("reservation.yaml", "reserved-job.yaml"))
    name, namespace = seats["metadata"]["name"], seats["metadata"]["namespace"]

    async def counts() -> tuple[object, ...]:
        status = (await it.client.get(RESERVATION, name, namespace)).status
        return status.state.phase, status.available, status.succeeded

    async with leader(it):
        try:
            await it.client.create(RESERVATION, seats)
            await _comes_to(counts, ("Available", 3, 0))
            await it.client.create(JOB, job)
            await _comes_to(counts, ("Available", 1, 2))
        finally:
            await it.client.delete(RESERVATION, name, namespace)
            await it.client.delete(JOB, job["metadata"]["name"], namespace)


async def _comes_to(observe: Callable[[], Awaitable[object]], wanted: object) -> None:
    async with asyncio.timeout(60):
        while await observe() != wanted:
            await asyncio.sleep(0.2)


async def every_end_is_explained(it: StoryCluster) -> None:
    async with leader(it):
        await it.reserve(1, "expires", ttl="3s")
        await it.reserve(1, "invalid", minAvailable=5)
        await it.reserve(1, "huge", cpu="1000")
        await it.reserve(1, "robbed", cpu="7")
        for name, reason in (("invalid", "Invalid"), ("huge", "Unschedulable"), ("expires", "Expired")):
            await it.comes_to(reason, name)
        await it.comes_to("Reserved", "robbed")
        [seat] = (await it.client.get(RESERVATION, "robbed", it.namespace)).status.placements or []
        await it.client.patch(NODE, seat.node_name, {"spec": {"unschedulable": True}})
        await it.comes_to("NodeUnfit", "robbed")
        await it.client.patch(NODE, seat.node_name, {"spec": {"unschedulable": None}})
        await it.comes_to("Reserved", "robbed")
        container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "7"}}}
        thief = {"containers": [container], "nodeName": seat.node_name}
        await it.client.create(POD, {"metadata": {"name": "thief", "namespace": it.namespace}, "spec": thief})
        await it.comes_to("RoomTaken", "robbed")


Story = Callable[[StoryCluster], Awaitable[None]]
STORIES: tuple[Story, ...] = (
    a_deployment_takes_its_seats_across_leaders_and_a_rolling_update,
    a_seat_that_was_not_marked_stays_taken_across_leaders_and_owners,
    a_stateful_pod_takes_the_seat_that_its_predecessor_of_the_same_name_leaves_it,
    a_sibling_does_not_take_the_seat_of_a_pod_that_moves,
    the_example_works_unchanged,
    every_end_is_explained,
)
