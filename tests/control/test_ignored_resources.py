"""Resources that somebody else accounts for: pods that ask for them are bound, whatever our own books say of them."""

from __future__ import annotations

import random

from restow.control.scheduler import Scheduler
from restow.model import kinds
from restow.scheduling.registry import read_profile
from tests.control.stage import places, world
from tests.sim.stage import pass_time, pod, running, virtual

THING = "example.com/thing"
IGNORING = {"plugins": [{"name": "NodeResourcesFit", "arguments": {"ignoredResources": [THING]}}]}


@virtual
async def test_a_pod_that_asks_for_what_is_ignored_and_no_node_offers_is_bound() -> None:
    profile = read_profile({"schedulerNames": ["default-scheduler"], "tiers": [IGNORING]})
    async with world(nodes=1) as it, running(Scheduler(it.api, it.clock, random.Random(1), profile=profile)):
        asking = {"requests": {THING: "1"}, "limits": {THING: "1"}}
        await it.create(kinds.POD, pod("a", containers=[{"name": "c", "image": "i", "resources": asking}]))
        await pass_time(5)
        assert await places(it) == {"a": "n1"}
