"""An embedded cluster on virtual time with simulated kubelets and workload controllers, with or without our
scheduler."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.crds import custom_resource_definitions
from restow.model.objects import Document, Pod
from restow.model.resources import PODS, parse_amounts, pod_requests
from restow.ports import Api, ApiError, Clock, Request, Response
from restow.scheduling.framework import Plugin
from restow.sim.faults import FaultPlan
from restow.sim.loop import VirtualClock
from restow.sim.world import Settings as WorldSettings
from restow.sim.world import World, default_rules
from tests.sim.simulated_cluster import SimulatedCluster, node, pod, running_scheduler

DEFINITIONS = custom_resource_definitions()
"""Made once, because thousands of runs begin with them."""


@asynccontextmanager
async def unscheduled_cluster(
    *, nodes: int = 3, cpu: str = "4", seed: int = 1, **settings: Any
) -> AsyncIterator[SimulatedCluster]:
    """A cluster of equal nodes n1, n2, ... with our kinds and all simulated components, but no scheduler."""
    clock = VirtualClock()
    api = MemoryApi(clock, random.Random(seed))
    how = WorldSettings(**settings)
    acting = World(api, clock, random.Random(seed + 1), rules=default_rules(how), settings=how)
    made = SimulatedCluster(api, acting, clock)
    for definition in DEFINITIONS:
        await made.create(kinds.CUSTOM_RESOURCE_DEFINITION, definition)
    for number in range(1, nodes + 1):
        await made.create(kinds.NODE, node(f"n{number}", cpu=cpu))
    async with acting:
        yield made
    assert acting.failures == 0


@asynccontextmanager
async def scheduled_cluster(
    *plugins: Plugin,
    around: Callable[[Api], Api] = lambda api: api,
    nodes: int = 3,
    cpu: str = "4",
    seed: int = 1,
    settings: SchedulerSettings | None = None,
    **world_settings: Any,
) -> AsyncIterator[SimulatedCluster]:
    """The same with our scheduler; `around` wraps the API that the scheduler talks to."""
    async with (
        unscheduled_cluster(nodes=nodes, cpu=cpu, seed=seed, **world_settings) as it,
        running_scheduler(around(it.api), it.clock, *plugins, seed=seed, settings=settings),
    ):
        yield it


def gang_member(name: str, gang: str, cpu: str = "1", **fields: Any) -> Document:
    return pod(name, cpu, annotations={"scheduling.k8s.io/group-name": gang}, **fields)


def pod_group(name: str, least: int, **spec: Any) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": least, **spec}}


async def nodes_by_pod(it: SimulatedCluster) -> dict[str, str | None]:
    """The node of every pod, by name."""
    return {one.metadata.name: one.spec.node_name for one in await it.pods()}


async def events_with_reason(it: SimulatedCluster, reason: str, about: str | None = None) -> list[tuple[str, str]]:
    """(object, message) of the Events with this reason, of one kind of object or of all, oldest first."""
    found = (await it.client.list(kinds.EVENT.whole)).items
    told = [one for one in found if one["reason"] == reason and about in (None, one["involvedObject"]["kind"])]
    return [(one["involvedObject"]["name"], one["message"]) for one in told]


async def condition_of_pod(
    it: SimulatedCluster, name: str, type: str = "PodScheduled"
) -> tuple[str, str | None, str | None]:
    one: Pod = await it.client.get(kinds.POD, name, "default")
    found = next(each for each in one.status.conditions or () if each.type == type)
    return found.status, found.reason, found.message


async def overcommitted_nodes(client: Client) -> list[str]:
    """The nodes with pods that request more than they offer."""
    pods = (await client.list(kinds.POD)).items
    found = []
    for one in (await client.list(kinds.NODE)).items:
        left = parse_amounts(one.status.allocatable)
        for each in pods:
            if each.spec.node_name == one.metadata.name and each.status.phase not in ("Succeeded", "Failed"):
                for name, amount in {**pod_requests(each), PODS: 1}.items():
                    left[name] -= amount
        if any(amount < 0 for amount in left.values()):
            found.append(one.metadata.name)
    return found


async def assert_nothing_overcommitted(it: SimulatedCluster) -> None:
    """No node is over-committed, and no kubelet had to refuse a pod."""
    assert await overcommitted_nodes(it.client) == []
    refused = [one.metadata.name for one in await it.pods() if (one.status.reason or "").startswith("OutOf")]
    assert not refused, refused


class SetBackClock:
    """A wall clock that can be set back, by `set_back_by` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.set_back_by = 0.0

    def now(self) -> float:
        return self._clock.now() - self.set_back_by


class FixedErrorApi:
    """An Api that raises the same error for all requests that match, as long as `error` is set."""

    def __init__(self, api: Api, about: Callable[[Request], bool], answer: ApiError | None) -> None:
        self.error = answer
        self.times_raised = 0
        """How often it raised the error."""
        self.watch = api.watch
        self._api = api
        self._about = about

    async def call(self, request: Request) -> Response:
        if self.error is not None and self._about(request):
            self.times_raised += 1
            raise self.error
        return await self._api.call(request)


class OvercommitAuditApi:
    """An Api that notes every Binding after which its node is over-committed."""

    def __init__(self, api: Api) -> None:
        self.faults: list[str] = []
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if request.subresource == "binding":
            node: str = msgspec.json.decode(request.body)["target"]["name"]
            if node in await overcommitted_nodes(Client(self._api)):
                self.faults.append(f"{request.name} on {node}")
        return response


def random_faults(rng: random.Random, *, most: float = 0.15, timely: bool = False) -> FaultPlan:
    """Faults of every kind, each with a random probability. `timely`: no event is late, lost or stale, because a
    scheduler cannot know then what other components do meanwhile."""
    often = [rng.uniform(0, most) for _ in range(8)]
    late: dict[str, Any] = (
        {} if timely else {"dropped": often[0] / 2, "repeated": often[1], "late": often[2], "stale": often[3]}
    )
    return FaultPlan(
        conflict=often[4], busy=often[5] / 2, refused=often[6], unknown=often[7], slow=0.1, delay=2.0, **late
    )
