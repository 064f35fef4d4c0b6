"""The migrations component takes over a new configuration while it runs."""

from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry

from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.model import kinds
from restow.running.component_runner import ComponentDependencies
from restow.running.components import COMPONENTS
from restow.running.configuration import Configuration
from tests.control.migrations.migration_cluster import cluster_with_stub_scheduler
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, running_component

FREE = {
    "schedulerNames": ["default-scheduler"],
    "maxUnavailablePerWorkload": "100%",
    "maxMigratingPerWorkload": "100%",
}
OFF, ON = Configuration(migration={**FREE, "enabled": False}), Configuration(migration=FREE)


@on_virtual_time
async def test_reconfigured_controller_starts_jobs_once_it_is_enabled() -> None:
    async with cluster_with_stub_scheduler() as it:
        component, rng = COMPONENTS["migrations"](CollectorRegistry(), "restow-system"), random.Random(1)
        controller = component.build(
            ComponentDependencies(it.api, it.clock, rng, SharedInformers(Client(it.api), rng)), OFF
        )
        async with running_component(controller):
            await it.move((await it.start())[0])
            await pass_time(20)
            assert await it.told() == (None, None, None)
            assert component.reconfigure(controller, ON)
            await pass_time(30)
            assert (await it.told())[0] == "Succeed"


PORT = [{"name": "main", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]
NO_PORTS = {"tiers": [{"plugins": [{"name": "NodePorts", "enabled": False}]}]}
CARELESS = Configuration(migration=FREE, scheduler=NO_PORTS)


@pytest.mark.parametrize(
    ("first", "then", "phase"),
    [
        pytest.param(ON, CARELESS, "Running", id="reconfigured with a profile that ignores ports"),
        pytest.param(CARELESS, CARELESS, "Succeed", id="profile that ignores ports from the start"),
    ],
)
@on_virtual_time
async def test_seats_are_checked_with_the_filters_of_the_current_profile(
    first: Configuration, then: Configuration, phase: str
) -> None:
    """Another pod has the host port on the node of the seat; only one of the profiles checks host ports."""
    async with cluster_with_stub_scheduler() as it:
        component, rng = COMPONENTS["migrations"](CollectorRegistry(), "restow-system"), random.Random(1)
        controller = component.build(
            ComponentDependencies(it.api, it.clock, rng, SharedInformers(Client(it.api), rng)), first
        )
        async with running_component(controller):
            [old] = await it.start(1, containers=PORT)
            it.seats.places = min({"n1", "n2", "n3"} - {old.spec.node_name})
            await it.create(kinds.POD, pod("loud", app="loud", nodeName=it.seats.places, containers=PORT))
            await it.move(old)
            await pass_time(30)
            assert (await it.told())[0] == phase, await it.told()
            assert component.relevant_configuration(first) == component.relevant_configuration(
                then
            ) or component.reconfigure(controller, then)
            await pass_time(30)
            assert (await it.told())[0] == "Succeed", await it.told()
