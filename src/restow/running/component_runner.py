"""Runs one component in a process: while the Lease allows it, with the current configuration, and reports its state.

    waiting for the lease ──> starting ──controller is ready──> running ──lease lost──> waiting for the lease
                                  ^                                │
                                  └─── its configuration changed ──┘

A controller that loses its Lease, or that cannot take over a new configuration, is cancelled and thrown away; the next
one is built anew and starts from lists. Nothing is carried over, because the API server has everything that matters.
The controllers of a process read through the same informers, which run as long as a controller uses them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from restow.client.fenced_api import FencedApi
from restow.client.leader_election import LeaderElection, LeadershipLost
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.ports import Api, Clock
from restow.running.configuration import Configuration

log = logging.getLogger(__name__)


class Controller(Protocol):
    """One running instance of a component."""

    async def run(self) -> None:
        """Work until cancelled."""

    async def ready(self) -> None:
        """Wait until the caches are filled and the work has begun."""


class ComponentDependencies(msgspec.Struct, frozen=True):
    """What one controller is built with."""

    api: Api
    """For writes. Fenced if the component has a Lease: after losing it, nothing is sent any more."""
    clock: Clock
    rng: Random
    informers: SharedInformers
    """Shared with the other components of the process. Reads are never fenced."""


class Component(Protocol):
    """A kind of controller, such as the scheduler: how to build one, and which part of the configuration it uses."""

    name: str

    def relevant_configuration(self, configuration: Configuration) -> object:
        """The part of a valid configuration that this component uses. Equal values mean that nothing has changed."""

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Controller: ...

    def reconfigure(self, controller: Controller, configuration: Configuration) -> bool:
        """Give a running controller another configuration; False if a new controller has to be built for it."""


class SharedDependencies:
    """What all components of a process share. `new_election` makes a candidate for the Lease of a component; None where
    no other process competes."""

    def __init__(
        self, api: Api, clock: Clock, rng: Random, new_election: Callable[[str], LeaderElection] | None
    ) -> None:
        self.api = api
        self.clock = clock
        self.rng = rng
        self.new_election = new_election
        self.informers = SharedInformers(Client(api), Random(rng.getrandbits(64)))


class ComponentRunner:
    """Builds controllers of one component and runs them, one after the other."""

    def __init__(self, component: Component, shared: SharedDependencies, configuration: Configuration) -> None:
        self.component = component
        self.election = shared.new_election(component.name) if shared.new_election else None
        self.controller: Controller | None = None
        """The controller that is running; None while it starts or stands by."""
        self._shared = shared
        self._configuration = configuration
        self._configuration_changed = asyncio.Event()

    @property
    def is_leading(self) -> bool:
        return self.election is None or self.election.is_leader

    @property
    def is_ready(self) -> bool:
        """True while the controller runs, and on standby if another process is known to hold the Lease."""
        if self.is_leading:
            return self.controller is not None
        return bool(self.election and self.election.holder)

    def __str__(self) -> str:
        if self.is_leading:
            return "running" if self.controller is not None else "starting"
        holder = self.election.holder if self.election else None
        return f"standby, the lease is held by {holder}" if holder else "waiting for the lease"

    def configure(self, configuration: Configuration) -> None:
        """Use another configuration from now on, if it differs in what this component reads."""
        is_changed = self.component.relevant_configuration(configuration) != self.component.relevant_configuration(
            self._configuration
        )
        self._configuration = configuration
        if is_changed:
            self._configuration_changed.set()

    async def run(self) -> None:
        """Run controllers whenever the Lease allows it, until cancelled. Raises what a controller fails with."""
        if self.election is None:
            await self._run_controllers(self._shared.api)
            return
        fenced = FencedApi(self._shared.api, self.election)
        while True:
            try:
                await self.election.run(lambda: self._run_controllers(fenced))
            except LeadershipLost:
                log.warning("component stopped, lease lost", extra={"component": self.component.name})

    async def _run_controllers(self, api: Api) -> None:
        """Run a controller, and a new one after each configuration that the old one cannot take over."""
        shared = self._shared
        dependencies = ComponentDependencies(api, shared.clock, Random(shared.rng.getrandbits(64)), shared.informers)
        while True:
            self._configuration_changed.clear()  # the controller is built with the newest configuration anyway
            controller = self.component.build(dependencies, self._configuration)
            await self._run_until_reconfigured(controller)
            log.info("restarting component with a new configuration", extra={"component": self.component.name})

    async def _run_until_reconfigured(self, controller: Controller) -> None:
        """Run a controller. Returns, with the controller stopped, when a new one has to be built."""
        running = asyncio.ensure_future(controller.run())
        starting = asyncio.ensure_future(self._wait_until_ready(controller))
        reconfiguring = asyncio.ensure_future(self._wait_for_restart(controller))
        try:
            await asyncio.wait((running, reconfiguring), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.controller = None
            for task in (starting, reconfiguring, running):
                task.cancel()
            await asyncio.wait((starting, reconfiguring, running))
        # A controller that ended by itself counts before a new configuration: its error must not get lost.
        if not running.cancelled():
            running.result()
            raise RuntimeError("it ended without an error")
        reconfiguring.result()

    async def _wait_until_ready(self, controller: Controller) -> None:
        await controller.ready()
        self.controller = controller
        log.info("component running", extra={"component": self.component.name})

    async def _wait_for_restart(self, controller: Controller) -> None:
        """Hand new configurations to the controller; returns at the first one that it cannot take over."""
        while True:
            await self._configuration_changed.wait()
            self._configuration_changed.clear()
            if not self.component.reconfigure(controller, self._configuration):
                return


class LeaderMetrics:
    """`leader_election_master_status`, as client-go's controllers export it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            "leader_election_master_status",
            "Whether this process leads, by the name of the Lease.",
            ("name",),
            registry=registry,
        )

    def watch(self, runner: ComponentRunner) -> None:
        """Export whether a runner leads; asked at each scrape."""
        self._gauge.labels(f"restow-{runner.component.name}").set_function(lambda: float(runner.is_leading))


async def run_all(runners: list[ComponentRunner]) -> None:
    """Run all components until cancelled. The first that fails stops all others: raises ComponentFailed."""
    tasks = {asyncio.ensure_future(runner.run()): runner for runner in runners}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        failed = next(iter(done))
        name, error = tasks[failed].component.name, failed.exception()
        log.error("component failed", extra={"component": name}, exc_info=error)
        raise ComponentFailed(f"component {name} stopped: {root_cause(error)}") from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def root_cause(error: BaseException | None) -> str:
    """The first error of a group, in a few words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return "it ended without an error"
    return str(error) or type(error).__name__


class ComponentFailed(RuntimeError):
    """A component failed. The log has the details; the process ends, and its supervisor starts it again."""
