"""The migration controller as a component: another configuration holds while it works."""

from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry

from restow.client.informers import Informers
from restow.client.verbs import Client
from restow.model import kinds
from restow.running.configuration import Configuration
from restow.running.parts import PARTS
from restow.running.posts import Means
from tests.control.migrations.stage import cluster
from tests.sim.stage import pass_time, pod, running, virtual

FREE = {
    "schedulerNames": ["default-scheduler"],
    "maxUnavailablePerWorkload": "100%",
    "maxMigratingPerWorkload": "100%",
}
OFF, ON = Configuration(migration={**FREE, "enabled": False}), Configuration(migration=FREE)


@virtual
async def test_what_the_file_says_now_holds_for_the_controller_at_work() -> None:
    async with cluster() as it:
        part, rng = PARTS["migrations"](CollectorRegistry(), "restow-system"), random.Random(1)
        made = part.make(Means(it.api, it.clock, rng, Informers(Client(it.api), rng)), OFF)
        async with running(made):
            await it.move((await it.start())[0])
            await pass_time(20)
            assert await it.told() == (None, None, None)
            assert part.adopt(made, ON)
            await pass_time(30)
            assert (await it.told())[0] == "Succeed"


PORT = [{"name": "main", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]
NO_PORTS = {"tiers": [{"plugins": [{"name": "NodePorts", "enabled": False}]}]}
CARELESS = Configuration(migration=FREE, scheduler=NO_PORTS)


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        pytest.param(ON, CARELESS, "Running", id="by another profile"),
        pytest.param(CARELESS, CARELESS, "Succeed", id="by the profile from the start"),
    ],
)
@virtual
async def test_the_filters_of_the_schedulers_profile_are_asked_about_seats(
    first: Configuration, then: Configuration, told: str
) -> None:
    """Somebody has the host port where the seat is, which one of the profiles does not mind."""
    async with cluster() as it:
        part, rng = PARTS["migrations"](CollectorRegistry(), "restow-system"), random.Random(1)
        made = part.make(Means(it.api, it.clock, rng, Informers(Client(it.api), rng)), first)
        async with running(made):
            [old] = await it.start(1, containers=PORT)
            it.seats.places = min({"n1", "n2", "n3"} - {old.spec.node_name})
            await it.create(kinds.POD, pod("loud", app="loud", nodeName=it.seats.places, containers=PORT))
            await it.move(old)
            await pass_time(30)
            assert (await it.told())[0] == told, await it.told()
            assert part.read(first) == part.read(then) or part.adopt(made, then)
            await pass_time(30)
            assert (await it.told())[0] == "Succeed", await it.told()
