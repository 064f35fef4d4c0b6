"""When the expiry of a reservation is noticed, and when it is deleted: each as the configuration says."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.model import kinds
from restow.running.component_runner import ComponentDependencies
from restow.running.components import COMPONENTS
from restow.running.configuration import Configuration
from tests.control.reservations.reservation_cluster import new_reservation
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, running_component


@asynccontextmanager
async def looked_after(it: SimulatedCluster, section: dict[str, str]) -> AsyncIterator[None]:
    """A scheduler and a collector, as `restow run` makes them."""
    rng = random.Random(1)
    means = ComponentDependencies(it.api, it.clock, rng, SharedInformers(Client(it.api), rng))
    async with AsyncExitStack() as acting:
        for name in ("scheduler", "reservations"):
            part = COMPONENTS[name](CollectorRegistry(), "restow-system")
            await acting.enter_async_context(running_component(part.build(means, Configuration(reservations=section))))
        yield


async def phases(it: SimulatedCluster) -> list[str | None]:
    return [one.status.state.phase for one in (await it.client.list(kinds.RESERVATION)).items]


AVAILABLE, FAILED, GONE = ["Available"], ["Failed"], list[str]()


@pytest.mark.parametrize(
    ("expiry_check", "gc_period", "gc_duration", "seen"),
    [
        pytest.param("1s", "1s", "0s", [GONE, GONE, GONE, GONE], id="noticed and deleted at once"),
        pytest.param("30s", "1s", "0s", [AVAILABLE, AVAILABLE, GONE, GONE], id="noticed late"),
        pytest.param("1s", "1m", "0s", [FAILED, FAILED, FAILED, GONE], id="deleted late"),
        pytest.param("1s", "1s", "30s", [FAILED, FAILED, GONE, GONE], id="kept for a while"),
    ],
)
@on_virtual_time
async def test_expiry_and_deletion_follow_their_configured_periods(
    expiry_check: str, gc_period: str, gc_duration: str, seen: list[list[str]]
) -> None:
    """A reservation that lives for 5 seconds, after 10, 20, 40 and 70."""
    section = {"expiryCheck": expiry_check, "gcPeriod": gc_period, "gcDuration": gc_duration}
    async with unscheduled_cluster(nodes=1) as it, looked_after(it, section):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, ttl="5s"))
        found = []
        for seconds in (10, 10, 20, 30):
            await pass_time(seconds)
            found.append(await phases(it))
        assert found == seen
