"""`restow run`: components of Restow in one process, against an API server that others run.

Goes in: which API server, which components, a configuration file. What comes out happens in that cluster. Each
component has a Lease of its own, so two processes may share the work and take over from each other; the file is read
again when it changes.
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
from restow.adapters.health import Check, Door, serve_health
from restow.client.election import LeaderElection, LeaseTiming
from restow.client.verbs import Client
from restow.defaults import HOME
from restow.model.problems import Problem
from restow.model.times import TimeError, parse_duration
from restow.model.wire import WireError
from restow.ports import Api, Clock
from restow.running.configuration import Configuration, read_configuration
from restow.running.parts import PARTS, DeschedulerPart
from restow.running.posts import Masters, Post, Station, hold_all
from restow.running.reaching import CannotRun, find_namespace, missing_kinds, reach
from restow.running.triggering import TRIGGER_PATH, Trigger

log = logging.getLogger(__name__)

SHORTEST_LEASE = 2.0
LOOK_AGAIN = 2.0
"""Seconds between two looks at the configuration file."""


# --- the configuration file -------------------------------------------------------------------------------------------


class ConfigurationFile:
    """The file as it was read last."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._data = b""

    def read(self) -> Configuration:
        """Read and check it. Raises WireError with every problem, and OSError."""
        if self._path is None:
            return Configuration()
        self._data = self._path.read_bytes()
        return read_configuration(self._data, str(self._path))

    def read_again(self) -> Configuration | None:
        """What it says now, if that is something else. A file that is wrong changes nothing, and is told once."""
        try:
            if self._path is None or self._path.read_bytes() == self._data:
                return None
            configuration = self.read()
        except (OSError, WireError) as error:
            log.error("the configuration stays as it was", extra={"err": str(error)})
            return None
        log.info("the configuration has changed", extra={"file": str(self._path)})
        return configuration

    async def follow(self, posts: Sequence[Post]) -> None:
        """Tell the posts whenever the file says something else, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            configuration = self.read_again()
            if configuration is not None:
                for post in posts:
                    post.configure(configuration)


# --- running ----------------------------------------------------------------------------------------------------------


class Options(msgspec.Struct, frozen=True, kw_only=True):
    components: tuple[str, ...] = tuple(PARTS)
    config: Path | None = None
    otherwise: Configuration = Configuration()
    """What holds without a configuration file."""
    namespace: str = HOME
    """Where the Leases and the stop switch are."""
    leader_elect: bool = True
    timing: LeaseTiming = LeaseTiming()
    host: str = "127.0.0.1"
    port: int = 0


def lease_timing(duration: str) -> LeaseTiming:
    """How a Lease of this duration is kept: with client-go's proportions. Raises WireError."""
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
    """The components of one process. Its configuration is read at once: raises WireError with every problem."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._registry = registry = CollectorRegistry()
        parts = {name: make(registry, options.namespace) for name, make in PARTS.items()}
        self._parts = [parts[name] for name in options.components]
        self._file = ConfigurationFile(options.config)
        self._configuration = self._file.read() if options.config else options.otherwise

    async def run(self, api: Api, clock: Clock, rng: Random, where: str) -> None:
        """Run them until cancelled. Raises CannotRun and PostLost."""
        options, client, elect = self._options, Client(api), None
        await reach(client, where)
        for kind in await missing_kinds(client):
            log.warning("not installed; `restow install` prints its definition", extra={"kind": kind.qualified_name})
        if options.leader_elect or DeschedulerPart.name in options.components:  # both need a place for Leases
            await find_namespace(client, options.namespace)
        if options.leader_elect:
            elect = _elections(client, clock, rng, options)
        around = Station(api, clock, rng, elect)
        posts = [Post(part, around, self._configuration) for part in self._parts]
        _describe(self._registry, posts)
        async with _health(posts, self._registry, options, _doors(client, posts)):
            following = asyncio.create_task(self._file.follow(posts))
            try:
                await hold_all(posts)
            finally:
                following.cancel()


def _elections(client: Client, clock: Clock, rng: Random, options: Options) -> Callable[[str], LeaderElection]:
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"

    def elect(component: str) -> LeaderElection:
        return LeaderElection(
            client,
            namespace=options.namespace,
            name=f"restow-{component}",
            identity=identity,
            clock=clock,
            rng=Random(rng.getrandbits(64)),
            timing=options.timing,
        )

    return elect


def _describe(registry: CollectorRegistry, posts: Iterable[Post]) -> None:
    """The metrics of the process itself."""
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    build = Gauge("restow_build_info", "Which Restow this is.", ("version",), registry=registry)
    build.labels(__version__).set(1)
    masters = Masters(registry)
    for post in posts:
        masters.watch(post)


def _doors(client: Client, posts: Iterable[Post]) -> dict[str, Door]:
    """What this process may be asked to do."""
    found = next((post for post in posts if post.part.name == DeschedulerPart.name), None)
    return {TRIGGER_PATH: Trigger(client, found).answer} if found is not None else {}


@asynccontextmanager
async def _health(
    posts: Sequence[Post], registry: CollectorRegistry, options: Options, doors: Mapping[str, Door]
) -> AsyncIterator[None]:
    def ready() -> Iterator[Check]:
        return (Check(post.part.name, post.is_well, str(post)) for post in posts)

    try:
        server = await serve_health(
            host=options.host, port=options.port, alive=lambda: (), ready=ready, registry=registry, doors=doors
        )
    except OSError as error:
        advice = "; choose another with --port" if options.port else ""
        told = f"cannot serve on {options.host}:{options.port}: {os.strerror(error.errno or 0)}{advice}"
        raise CannotRun(told) from error
    log.info("serving /healthz, /readyz and /metrics", extra={"host": server.host, "port": server.port})
    async with server:
        yield
