"""Resources that another scheduler extender accounts for: pods that request them are bound, whatever the snapshot
says."""

from __future__ import annotations

import random

import pytest

from restow.control.scheduler import Scheduler
from restow.model import kinds
from restow.scheduling.registry import read_profile
from tests.control.scheduler_cluster import nodes_by_pod, unscheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, running_component

THING = "example.com/thing"
IGNORING = {"plugins": [{"name": "NodeResourcesFit", "arguments": {"ignoredResources": [THING]}}]}


ASKING = [{"name": "c", "image": "i", "resources": {"requests": {THING: "1"}, "limits": {THING: "1"}}}]
PROFILE = read_profile({"schedulerNames": ["default-scheduler"], "tiers": [IGNORING]})


@on_virtual_time
@pytest.mark.parametrize("offered", [None, "1"], ids=["no node offers it", "another pod has all of it"])
async def test_pod_requesting_an_ignored_resource_is_bound(offered: str | None) -> None:
    async with (
        unscheduled_cluster(nodes=1) as it,
        running_component(Scheduler(it.api, it.clock, random.Random(1), profile=PROFILE)),
    ):
        if offered:
            amounts = {"allocatable": {THING: offered}, "capacity": {THING: offered}}
            await it.client.patch(kinds.NODE, "n1", {"status": amounts}, subresource="status")
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, containers=ASKING))
            await pass_time(5)
        assert await nodes_by_pod(it) == {"a": "n1", "b": "n1"}
