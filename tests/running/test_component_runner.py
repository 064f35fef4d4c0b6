"""ComponentRunner: when a controller runs, with which configuration, and what happens when it fails."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.leader_election import LeaderElection
from restow.client.verbs import Client
from restow.model.kinds import CONFIG_MAP
from restow.ports import Api, ApiError
from restow.running.component_runner import (
    ComponentDependencies,
    ComponentFailed,
    ComponentRunner,
    SharedDependencies,
    root_cause,
    run_all,
)
from restow.running.configuration import Configuration
from restow.sim.loop import VirtualClock
from tests.client.test_leader_election import UnreliableApi
from tests.sim.simulated_cluster import on_virtual_time


class Worker:
    """A controller that creates a ConfigMap every second, and records in `log` what happens to it."""

    def __init__(self, api: Api, configuration: Configuration, log: list[str]) -> None:
        self.client = Client(api)
        self.configuration = configuration
        self.log = log

    async def run(self) -> None:
        if self.configuration.scheduler.get("broken"):
            raise ExceptionGroup("unhandled", [ExceptionGroup("deeper", [RuntimeError("out of ideas")])])
        self.log.append(f"starts with {self.configuration.scheduler}")
        try:
            while True:
                await asyncio.sleep(1)
                await self.write()
        finally:
            self.log.append("stops")

    async def write(self) -> None:
        try:
            await self.client.create(CONFIG_MAP, {"metadata": {"generateName": "x-", "namespace": "default"}})
        except ApiError as error:
            self.log.append(f"write refused: {error}")

    async def ready(self) -> None:
        await asyncio.sleep(0.5)


class WorkerComponent:
    name = "worker"

    def __init__(self, is_reconfigurable: bool = False) -> None:
        self.log: list[str] = []
        self.is_reconfigurable = is_reconfigurable

    def relevant_configuration(self, configuration: Configuration) -> object:
        return configuration.scheduler

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Worker:
        return Worker(dependencies.api, configuration, self.log)

    def reconfigure(self, controller: Any, configuration: Configuration) -> bool:
        if self.is_reconfigurable:
            self.log.append(f"reconfigured with {configuration.scheduler}")
        return self.is_reconfigurable


def configured(**scheduler: Any) -> Configuration:
    return Configuration(scheduler=scheduler)


def runner_without_election(component: WorkerComponent, **scheduler: Any) -> ComponentRunner:
    """A runner without a Lease."""
    clock = VirtualClock()
    api = MemoryApi(clock, Random(1))
    return ComponentRunner(component, SharedDependencies(api, clock, Random(1), None), configured(**scheduler))


@on_virtual_time
async def test_state_is_starting_then_running() -> None:
    runner = runner_without_election(WorkerComponent())
    running = asyncio.create_task(runner.run())
    await asyncio.sleep(0.1)
    assert (str(runner), runner.is_ready) == ("starting", False)
    await asyncio.sleep(1)
    assert (str(runner), runner.is_ready) == ("running", True)
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize(
    ("is_reconfigurable", "log"),
    [
        (False, ["starts with {'a': 1}", "stops", "starts with {'a': 2}"]),
        (True, ["starts with {'a': 1}", "reconfigured with {'a': 2}"]),
    ],
    ids=["built anew", "reconfigured"],
)
def test_new_configuration_reconfigures_or_rebuilds_the_controller(is_reconfigurable: bool, log: list[str]) -> None:
    component = WorkerComponent(is_reconfigurable)

    @on_virtual_time
    async def story() -> None:
        runner = runner_without_election(component, a=1)
        running = asyncio.create_task(runner.run())
        await asyncio.sleep(2)
        runner.configure(configured(a=1))
        await asyncio.sleep(2)
        runner.configure(configured(a=2))
        await asyncio.sleep(0.1)
        assert runner.is_ready is is_reconfigurable, "a new controller has to start first"
        await asyncio.sleep(2)
        assert component.log == log
        running.cancel()
        await asyncio.wait([running])

    story()


@on_virtual_time
async def test_first_controller_is_built_with_the_newest_configuration() -> None:
    component = WorkerComponent()
    runner = runner_without_election(component, a=1)
    runner.configure(configured(a=2))
    running = asyncio.create_task(runner.run())
    await asyncio.sleep(2)
    assert component.log == ["starts with {'a': 2}"]
    running.cancel()
    await asyncio.wait([running])


@on_virtual_time
async def test_failing_component_stops_the_others_and_is_named() -> None:
    healthy, failing = WorkerComponent(), WorkerComponent()
    with pytest.raises(ComponentFailed, match="component worker stopped: out of ideas"):
        await run_all([runner_without_election(healthy), runner_without_election(failing, broken=True)])
    assert healthy.log[-1:] in ([], ["stops"])


@pytest.mark.parametrize(
    ("error", "text"),
    [(None, "it ended without an error"), (ValueError("no"), "no"), (KeyError(), "KeyError")],
    ids=["no error", "error with a message", "error without a message"],
)
def test_root_cause_is_the_innermost_error(error: BaseException | None, text: str) -> None:
    assert root_cause(error) == text


@on_virtual_time
async def test_lease_lost_stops_the_controller_and_the_other_process_takes_over() -> None:
    clock = VirtualClock()
    api = MemoryApi(clock, Random(1))
    cuts = [UnreliableApi(api), UnreliableApi(api)]
    components = [WorkerComponent(), WorkerComponent()]

    def candidate(number: int) -> ComponentRunner:
        def new_election(name: str) -> LeaderElection:
            client = Client(cuts[number])
            return LeaderElection(
                client, namespace="default", name=name, identity=f"p{number}", clock=clock, rng=Random(number)
            )

        return ComponentRunner(
            components[number], SharedDependencies(cuts[number], clock, Random(number), new_election), configured()
        )

    runners = [candidate(0), candidate(1)]
    running = [asyncio.create_task(runner.run()) for runner in runners]
    await asyncio.sleep(5)
    first = 0 if runners[0].is_leading else 1
    other = 1 - first
    assert (str(runners[first]), str(runners[other])) == ("running", f"standby, the lease is held by p{first}")
    assert runners[other].is_ready
    cuts[first].mode = "hangs"
    await asyncio.sleep(40)
    assert (str(runners[other]), runners[first].is_leading) == ("running", False)
    assert components[first].log[-1] == "stops"
    cuts[first].mode = "fine"
    await asyncio.sleep(10)
    assert str(runners[first]) == f"standby, the lease is held by p{other}"
    running[other].cancel()
    await asyncio.sleep(5)
    assert str(runners[first]) == "running"
    running[first].cancel()
    await asyncio.wait(running)
