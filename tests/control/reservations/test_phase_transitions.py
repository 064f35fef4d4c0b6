"""Every phase transition of a reservation, as somebody who watches it sees them follow each other."""

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
    "there is room": ([reserve()], "Available"),
    "there is none, and then there is": ([fill, reserve(), leave(0)], "Pending Available"),
    "there is none, and somebody begins to leave": ([fill, reserve(), leave(5)], "Pending Waiting Available"),
    "somebody is leaving": ([fill, reserve_while_pod_leaves], "Waiting Available"),
    "nobody could hold it": ([reserve(minAvailable=9)], "Failed"),
    "every seat is taken": ([reserve(1), take], "Available Succeeded"),
    "its node is unfit for a while": ([reserve(), cordon, uncordon], "Available Waiting Available"),
    "it asks for more than there is": ([reserve(), seats(3), add_node], "Available Pending Available"),
    "it asks for more on a node that is unfit": ([reserve(), cordon, seats(3)], "Available Waiting Pending"),
    "its time is over": ([reserve(), end], "Available Failed"),
    "its time is over before there is room": ([fill, reserve(), end], "Pending Failed"),
    "its time is over while its node is unfit": ([reserve(), cordon, end], "Available Waiting Failed"),
    "it asks for no more than was taken": ([reserve(), take, seats(3), seats(1)], "Available Pending Succeeded"),
    "it waits for a seat that it gives up": ([reserve(), take, cordon, seats(1)], "Available Waiting Succeeded"),
    "what failed has failed": ([reserve(), end, last_for_ever], "Available Failed"),
    "what succeeded has succeeded": ([reserve(1), take, seats(2), end], "Available Succeeded"),
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
    """From any that is no end to any other; only nothing is taken before it is held."""
    ends = {ReservationPhase.SUCCEEDED, ReservationPhase.FAILED}
    lives = [None, *(one for one in ReservationPhase if one not in ends)]
    every = {(one, other) for one in lives for other in ReservationPhase if one is not other}
    told = {pair for _, phases in STORIES.values() for pair in pairwise([None, *phases.split()])}
    assert told == every - {(None, ReservationPhase.SUCCEEDED)}
