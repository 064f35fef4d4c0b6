"""Every phase transition of a reservation, as a client that watches it sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import ReservationPhase
from restow.ports import Api, Request, Response
from tests.control.reservations.reservation_cluster import new_reservation
from tests.control.scheduler_cluster import scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod, template

Step = Callable[[SimulatedCluster], Awaitable[Any]]


class Phases:
    """An Api that notes which phases are written, one after the other."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def around(self, api: Api) -> Api:
        self._api = api
        self.watch = api.watch
        return self

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if (request.resource.plural, request.subresource) == ("reservations", "status"):
            phase = msgspec.json.decode(response.body)["status"]["state"]["phase"]
            if self.seen[-1:] != [phase]:
                self.seen.append(phase)
        return response


# --- steps, on one node of four cores ---------------------------------------------------------------------------------


def reserve(replicas: int = 2, **spec: Any) -> Step:
    return lambda it: it.create(kinds.RESERVATION, new_reservation(replicas=replicas, cpu="2", **spec))


def seats(replicas: int) -> Step:
    task = {"name": "web", "replicas": replicas, "template": template("2")}
    return lambda it: it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [task]}})


def leave(grace: int) -> Step:
    return lambda it: it.delete(kinds.POD, "full", grace_seconds=grace)


async def fill(it: SimulatedCluster) -> None:
    await it.create(kinds.POD, pod("full", "4", app="other", nodeName="n1"))


async def reserve_while_pod_leaves(it: SimulatedCluster) -> None:
    await leave(5)(it)
    await reserve()(it)


async def take(it: SimulatedCluster) -> None:
    await it.create(kinds.POD, pod("a", "2"))


async def cordon(it: SimulatedCluster) -> None:
    await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})


async def uncordon(it: SimulatedCluster) -> None:
    await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None}})


async def add_node(it: SimulatedCluster) -> None:
    await it.create(kinds.NODE, node("n2"))


async def end(it: SimulatedCluster) -> None:
    await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "1s"}})


async def last_for_ever(it: SimulatedCluster) -> None:
    await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "0s"}})


STORIES: dict[str, tuple[list[Step], str]] = {
    "room is free": ([reserve()], "Available"),
    "room becomes free": ([fill, reserve(), leave(0)], "Pending Available"),
    "a pod begins to leave": ([fill, reserve(), leave(5)], "Pending Waiting Available"),
    "a pod is leaving": ([fill, reserve_while_pod_leaves], "Waiting Available"),
    "invalid minAvailable": ([reserve(minAvailable=9)], "Failed"),
    "every seat is consumed": ([reserve(1), take], "Available Succeeded"),
    "the node is unfit for a while": ([reserve(), cordon, uncordon], "Available Waiting Available"),
    "edited to more than fits": ([reserve(), seats(3), add_node], "Available Pending Available"),
    "edited to more on an unfit node": ([reserve(), cordon, seats(3)], "Available Waiting Pending"),
    "expired": ([reserve(), end], "Available Failed"),
    "expired before it was placed": ([fill, reserve(), end], "Pending Failed"),
    "expired on an unfit node": ([reserve(), cordon, end], "Available Waiting Failed"),
    "edited to no more than was consumed": ([reserve(), take, seats(3), seats(1)], "Available Pending Succeeded"),
    "edited to give up a seat on an unfit node": ([reserve(), take, cordon, seats(1)], "Available Waiting Succeeded"),
    "Failed is final": ([reserve(), end, last_for_ever], "Available Failed"),
    "Succeeded is final": ([reserve(1), take, seats(2), end], "Available Succeeded"),
}


@pytest.mark.parametrize(("steps", "phases"), STORIES.values(), ids=STORIES)
@on_virtual_time
async def test_phases_follow_each_other_in_order(steps: list[Step], phases: str) -> None:
    seen = Phases()
    async with scheduled_cluster(nodes=1, around=seen.around, settings=SchedulerSettings(namespace_share=100)) as it:
        for step in steps:
            await step(it)
            await pass_time(3)
        await pass_time(10)
        assert seen.seen == phases.split()


def test_every_phase_transition_is_tested() -> None:
    """From every phase that is not final to every other; except that no seat is consumed before it is held."""
    ends = {ReservationPhase.SUCCEEDED, ReservationPhase.FAILED}
    lives = [None, *(one for one in ReservationPhase if one not in ends)]
    every = {(one, other) for one in lives for other in ReservationPhase if one is not other}
    told = {pair for _, phases in STORIES.values() for pair in pairwise([None, *phases.split()])}
    assert told == every - {(None, ReservationPhase.SUCCEEDED)}
