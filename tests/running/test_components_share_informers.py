"""The components of a process share informers: each kind is watched once, and not at all if no component needs it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from restow.adapters.memory import MemoryApi
from restow.control.executor import run_inline
from restow.running.component_runner import Component, ComponentRunner, SharedDependencies
from restow.running.components import COMPONENTS
from restow.running.configuration import Configuration
from restow.sim.loop import VirtualClock
from tests.client.counting_api import CountingApi
from tests.sim.simulated_cluster import on_virtual_time


def component(name: str) -> Component:
    """A component that computes in the event loop: virtual time has no threads."""
    executor = (run_inline,) if name in ("descheduler", "queues") else ()
    return COMPONENTS[name](CollectorRegistry(), "restow-system", *executor)


@pytest.mark.parametrize(
    ("names", "pods"),
    [(tuple(COMPONENTS), 1), (("scheduler", "queues"), 1), (("reservations",), 0), ((), 0)],
    ids=["all components", "two components", "a component that reads no pods", "no component"],
)
def test_each_kind_is_watched_at_most_once(names: tuple[str, ...], pods: int) -> None:
    @on_virtual_time
    async def story() -> None:
        clock = VirtualClock()
        wire = CountingApi(MemoryApi(clock, Random(1)))
        shared = SharedDependencies(wire, clock, Random(1), None)
        runners = [ComponentRunner(component(name), shared, Configuration()) for name in names]
        running = [asyncio.create_task(runner.run()) for runner in runners]
        await asyncio.sleep(10)
        assert all(runner.is_ready for runner in runners)
        assert (wire.open["pods"], max(wire.open.values(), default=0)) == (pods, 1 if pods else 0)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert not +wire.open

    story()


@on_virtual_time
async def test_rebuilt_component_leaves_the_others_running() -> None:
    clock = VirtualClock()
    wire = CountingApi(MemoryApi(clock, Random(1)))
    shared = SharedDependencies(wire, clock, Random(1), None)
    runners = [ComponentRunner(component(name), shared, Configuration()) for name in COMPONENTS]
    running = [asyncio.create_task(runner.run()) for runner in runners]
    await asyncio.sleep(10)
    before = {runner.component.name: runner.controller for runner in runners}
    for runner in runners:
        runner.configure(Configuration(descheduler={"nodeSelector": "disk=fast"}))
    await asyncio.sleep(10)
    after = {runner.component.name: runner.controller for runner in runners}
    assert [name for name in before if before[name] is not after[name]] == ["descheduler"]
    assert (all(runner.is_ready for runner in runners), wire.open["pods"]) == (True, 1)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
