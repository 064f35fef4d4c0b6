"""The queue controller as a component: what of the configuration it goes by, and how it takes another."""

from __future__ import annotations

import random

from prometheus_client import CollectorRegistry

from restow.adapters.memory import MemoryApi
from restow.client.informers import Informers
from restow.client.verbs import Client
from restow.running.configuration import Configuration
from restow.running.parts import PARTS
from restow.running.posts import Means
from restow.sim.loop import VirtualClock
from tests.sim.stage import virtual

SMALLER = Configuration(queues={"maxGuaranteed": 10})


def test_only_what_queues_go_by_makes_a_difference() -> None:
    part = PARTS["queues"](CollectorRegistry(), "restow-system")
    assert part.read(Configuration()) == part.read(Configuration(descheduler={"profiles": []}))
    assert part.read(Configuration()) != part.read(SMALLER)
    assert part.read(Configuration()) != part.read(Configuration(migration={"minReplicas": 2}))


@virtual
async def test_another_configuration_holds_without_a_restart() -> None:
    clock = VirtualClock()
    part = PARTS["queues"](CollectorRegistry(), "restow-system")
    api, rng = MemoryApi(clock, random.Random(1)), random.Random(2)
    component = part.make(Means(api, clock, rng, Informers(Client(api), rng)), Configuration())
    assert part.adopt(component, SMALLER)
