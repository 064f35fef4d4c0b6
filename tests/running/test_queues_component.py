"""The queues component: which configuration it depends on, and that it takes over a new one while it runs."""

from __future__ import annotations

import random

from prometheus_client import CollectorRegistry

from restow.adapters.memory import MemoryApi
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.running.component_runner import ComponentDependencies
from restow.running.components import COMPONENTS
from restow.running.configuration import Configuration
from restow.sim.loop import VirtualClock
from tests.sim.simulated_cluster import on_virtual_time

SMALLER = Configuration(queues={"maxGuaranteed": 10})


def test_relevant_configuration_has_queues_and_migration_only() -> None:
    component = COMPONENTS["queues"](CollectorRegistry(), "restow-system")
    assert component.relevant_configuration(Configuration()) == component.relevant_configuration(
        Configuration(descheduler={"profiles": []})
    )
    assert component.relevant_configuration(Configuration()) != component.relevant_configuration(SMALLER)
    assert component.relevant_configuration(Configuration()) != component.relevant_configuration(
        Configuration(migration={"minReplicas": 2})
    )


@on_virtual_time
async def test_reconfigured_without_a_restart() -> None:
    clock = VirtualClock()
    component = COMPONENTS["queues"](CollectorRegistry(), "restow-system")
    api, rng = MemoryApi(clock, random.Random(1)), random.Random(2)
    controller = component.build(
        ComponentDependencies(api, clock, rng, SharedInformers(Client(api), rng)), Configuration()
    )
    assert component.reconfigure(controller, SMALLER)
