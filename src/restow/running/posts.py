"""Posts: one component's place in a process. Who may act, with which configuration, and how it stands.

    waiting for the lease ──> starting ──knows the cluster──> at work ──lease lost──> waiting for the lease
                                  ^                              │
                                  └──── its section changed ─────┘

A component that loses its Lease, or gets another configuration, is stopped and thrown away: the next one is made anew
and starts from lists. Nothing is carried over, because nothing that matters lives in a component. What the components
of a process read, they read through the same informers, which run as long as one of them is at work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from restow.client.election import FencedApi, LeaderElection, LeadershipLost
from restow.client.informers import Informers
from restow.client.verbs import Client
from restow.ports import Api, Clock
from restow.running.configuration import Configuration

log = logging.getLogger(__name__)


class Component(Protocol):
    async def run(self) -> None:
        """Work until cancelled."""

    async def ready(self) -> None:
        """Wait until it knows the cluster and has begun."""


class Means(msgspec.Struct, frozen=True):
    """What a component works with."""

    api: Api
    """For writes, which may be fenced."""
    clock: Clock
    rng: Random
    informers: Informers
    """Shared with the other components: they read, so whoever may act is none of their business."""


class Part(Protocol):
    """A kind of component: how to make one, and what of the configuration it reads."""

    name: str

    def read(self, configuration: Configuration) -> object:
        """What of a configuration that can be read it goes by: equal if there is no difference."""

    def make(self, means: Means, configuration: Configuration) -> Component: ...

    def adopt(self, component: Component, configuration: Configuration) -> bool:
        """Let a component go by another configuration as it runs; False if it must be made anew."""


class Station:
    """What every post of a process shares. `elect` makes a contender for a component's Lease; it is None where nobody
    else contends."""

    def __init__(self, api: Api, clock: Clock, rng: Random, elect: Callable[[str], LeaderElection] | None) -> None:
        self.api = api
        self.clock = clock
        self.rng = rng
        self.elect = elect
        self.informers = Informers(Client(api), Random(rng.getrandbits(64)))


class Post:
    def __init__(self, part: Part, around: Station, configuration: Configuration) -> None:
        self.part = part
        self.election = around.elect(part.name) if around.elect else None
        self.component: Component | None = None
        """Whoever is at work."""
        self._around = around
        self._configuration = configuration
        self._news = asyncio.Event()
        self._is_begun = False

    @property
    def leads(self) -> bool:
        return self.election is None or self.election.is_leader

    @property
    def is_well(self) -> bool:
        """Whether it is at work, or would be if somebody else were not."""
        return self._is_begun if self.leads else bool(self.election and self.election.holder)

    def __str__(self) -> str:
        if self.leads:
            return "at work" if self._is_begun else "starting"
        holder = self.election.holder if self.election else None
        return f"standing by for {holder}" if holder else "waiting for its lease"

    def configure(self, configuration: Configuration) -> None:
        """Go by another configuration, if that makes a difference."""
        changed = self.part.read(configuration) != self.part.read(self._configuration)
        self._configuration = configuration
        if changed:
            self._news.set()

    async def hold(self) -> None:
        """Work whenever the Lease allows it, until cancelled. Raises whatever a component breaks with."""
        if self.election is None:
            await self._work(self._around.api)
            return
        fenced = FencedApi(self._around.api, self.election)
        while True:
            try:
                await self.election.run(lambda: self._work(fenced))
            except LeadershipLost:
                log.warning("stopped acting", extra={"component": self.part.name})

    async def _work(self, api: Api) -> None:
        around = self._around
        means = Means(api, around.clock, Random(around.rng.getrandbits(64)), around.informers)
        while True:
            self._news.clear()  # what came while nobody was at work is known from the start
            component = self.part.make(means, self._configuration)
            await self._attend(component)
            log.info("starting anew with another configuration", extra={"component": self.part.name})

    async def _attend(self, component: Component) -> None:
        """Returns when the component has to be made anew."""
        running = asyncio.ensure_future(component.run())
        others = [asyncio.ensure_future(one) for one in (self._begin(component), self._changed(component))]
        try:
            await asyncio.wait((running, others[1]), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_begun = False
            self.component = None
            for task in (*others, running):
                task.cancel()
            await asyncio.wait((*others, running))
        if not running.cancelled():
            running.result()
            raise RuntimeError("it just ended")
        others[1].result()

    async def _begin(self, component: Component) -> None:
        await component.ready()
        self.component = component
        self._is_begun = True
        log.info("at work", extra={"component": self.part.name})

    async def _changed(self, component: Component) -> None:
        """Waits for a configuration that the component cannot adopt."""
        while True:
            await self._news.wait()
            self._news.clear()
            if not self.part.adopt(component, self._configuration):
                return


class Masters:
    """Who leads, as client-go's controllers tell it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            "leader_election_master_status",
            "Whether this process leads, by the name of the Lease.",
            ("name",),
            registry=registry,
        )

    def watch(self, post: Post) -> None:
        """Whether a post leads is asked for when somebody looks."""
        self._gauge.labels(f"restow-{post.part.name}").set_function(lambda: float(post.leads))


async def hold_all(posts: list[Post]) -> None:
    """Hold every post until cancelled. The first that breaks ends all, as PostLost."""
    tasks = {asyncio.ensure_future(post.hold()): post for post in posts}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        broken = next(iter(done))
        name, problem = tasks[broken].part.name, broken.exception()
        log.error("component broke", extra={"component": name}, exc_info=problem)
        raise PostLost(f"the {name} stopped: {cause(problem)}") from problem
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def cause(problem: BaseException | None) -> str:
    """The first of what went wrong, in a few words."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if problem is None:
        return "it just ended"
    return str(problem) or type(problem).__name__


class PostLost(RuntimeError):
    """A component broke; what is wrong is in the log, and another process may do better."""
