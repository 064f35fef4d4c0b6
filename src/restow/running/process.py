"""`restow run`: components of Restow in one process, against any API server.

Takes an API server, the names of components and a configuration. Each component has a Lease of its own, so that several
processes can share the work and take over from each other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import msgspec
from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

from restow import __version__
from restow.adapters.health_server import Check, PostHandler, serve_health
from restow.client.leader_election import LeaderElection, LeaseTiming
from restow.client.verbs import Client
from restow.defaults import HOME
from restow.model.problems import Problem
from restow.model.times import TimeError, parse_duration
from restow.model.wire import WireError
from restow.ports import Api, Clock
from restow.running.component_runner import ComponentRunner, LeaderMetrics, SharedDependencies, run_all
from restow.running.components import COMPONENTS, DeschedulerComponent
from restow.running.configuration import Configuration
from restow.running.configuration_file import ConfigurationFile
from restow.running.preflight import CannotRun, ensure_namespace, missing_kinds, wait_for_api_server
from restow.running.trigger_endpoint import TRIGGER_PATH, TriggerEndpoint

log = logging.getLogger(__name__)

SHORTEST_LEASE = 2.0


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    components: tuple[str, ...] = tuple(COMPONENTS)
    config: Path | None = None
    default_configuration: Configuration = Configuration()
    """Used if there is no configuration file."""
    namespace: str = HOME
    """The namespace of the Leases and of the stop switch."""
    leader_elect: bool = True
    timing: LeaseTiming = LeaseTiming()
    host: str = "127.0.0.1"
    port: int = 0


def lease_timing(duration: str) -> LeaseTiming:
    """The timing for a Lease of this duration, in client-go's proportions. Raises WireError."""
    try:
        seconds = parse_duration(duration)
    except TimeError as error:
        raise WireError("--lease-duration", [Problem("", str(error))]) from None
    if seconds < SHORTEST_LEASE:
        raise WireError("--lease-duration", [Problem("", f"must be at least {SHORTEST_LEASE:g}s, is {duration}")])
    return LeaseTiming(
        lease_duration=seconds,
        renew_deadline=seconds * 2 / 3,
        retry_period=seconds * 2 / 15,
        request_timeout=seconds / 3,
    )


class Process:
    """The components of one process. The constructor reads the configuration: raises WireError with every problem."""

    def __init__(self, options: ProcessOptions) -> None:
        self._options = options
        self._registry = registry = CollectorRegistry()
        components = {name: make(registry, options.namespace) for name, make in COMPONENTS.items()}
        self._components = [components[name] for name in options.components]
        self._file = ConfigurationFile(options.config)
        self._configuration = self._file.read() if options.config else options.default_configuration

    async def run(self, api: Api, clock: Clock, rng: Random, server: str) -> None:
        """Run the components until cancelled; `server` names the API server in messages. Raises CannotRun and
        ComponentFailed."""
        options, client = self._options, Client(api)
        # 1. The cluster: does it answer, has it our kinds, is there a namespace for our Leases?
        await wait_for_api_server(client, server)
        for kind in await missing_kinds(client):
            log.warning("kind not installed, see restow install", extra={"kind": kind.qualified_name})
        if options.leader_elect or DeschedulerComponent.name in options.components:
            await ensure_namespace(client, options.namespace)  # the descheduler has a Lease for its cycles in any case
        # 2. One runner for each component.
        new_election = _election_factory(client, clock, rng, options) if options.leader_elect else None
        shared = SharedDependencies(api, clock, rng, new_election)
        runners = [ComponentRunner(component, shared, self._configuration) for component in self._components]
        # 3. Serve health and metrics, follow the configuration file, and run until something fails.
        _export_process_metrics(self._registry, runners)
        async with _health_server(runners, self._registry, options, _endpoints(client, runners)):
            file_watch = asyncio.create_task(self._file.watch_for_changes(runners))
            try:
                await run_all(runners)
            finally:
                file_watch.cancel()


def _election_factory(
    client: Client, clock: Clock, rng: Random, options: ProcessOptions
) -> Callable[[str], LeaderElection]:
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"

    def new_election(component: str) -> LeaderElection:
        return LeaderElection(
            client,
            namespace=options.namespace,
            name=f"restow-{component}",
            identity=identity,
            clock=clock,
            rng=Random(rng.getrandbits(64)),
            timing=options.timing,
        )

    return new_election


def _export_process_metrics(registry: CollectorRegistry, runners: Iterable[ComponentRunner]) -> None:
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    build = Gauge("restow_build_info", "Which Restow this is.", ("version",), registry=registry)
    build.labels(__version__).set(1)
    leader_metrics = LeaderMetrics(registry)
    for runner in runners:
        leader_metrics.watch(runner)


def _endpoints(client: Client, runners: Iterable[ComponentRunner]) -> dict[str, PostHandler]:
    """The POST endpoints of this process, by path: one if it has the descheduler."""
    descheduler = next((runner for runner in runners if runner.component.name == DeschedulerComponent.name), None)
    return {TRIGGER_PATH: TriggerEndpoint(client, descheduler).handle} if descheduler is not None else {}


@asynccontextmanager
async def _health_server(
    runners: Sequence[ComponentRunner],
    registry: CollectorRegistry,
    options: ProcessOptions,
    endpoints: Mapping[str, PostHandler],
) -> AsyncIterator[None]:
    """Serve /healthz, /readyz, /metrics and `endpoints` until the context ends. Raises CannotRun if the port is
    taken."""

    def readiness() -> Iterator[Check]:
        return (Check(runner.component.name, runner.is_ready, str(runner)) for runner in runners)

    try:
        server = await serve_health(
            host=options.host,
            port=options.port,
            alive=lambda: (),
            ready=readiness,
            registry=registry,
            post_handlers=endpoints,
        )
    except OSError as error:
        hint = "; use --port to choose another" if options.port else ""
        message = f"cannot listen on {options.host}:{options.port}: {os.strerror(error.errno or 0)}{hint}"
        raise CannotRun(message) from error
    log.info("serving /healthz, /readyz and /metrics", extra={"host": server.host, "port": server.port})
    async with server:
        yield
