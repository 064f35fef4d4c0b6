"""A component's place in a process: whose turn it is, with which configuration, and what happens when it breaks."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.election import LeaderElection
from restow.client.verbs import Client
from restow.model.kinds import CONFIG_MAP
from restow.ports import Api, ApiError
from restow.running.configuration import Configuration
from restow.running.posts import Means, Post, PostLost, Station, cause, hold_all
from restow.sim.loop import VirtualClock
from tests.client.test_election import Cut
from tests.sim.stage import virtual


class Worker:
    """A component that writes its name once a second, as long as it may."""

    def __init__(self, api: Api, configuration: Configuration, diary: list[str]) -> None:
        self.client = Client(api)
        self.configuration = configuration
        self.diary = diary

    async def run(self) -> None:
        if self.configuration.scheduler.get("broken"):
            raise ExceptionGroup("unhandled", [ExceptionGroup("deeper", [RuntimeError("out of ideas")])])
        self.diary.append(f"starts with {self.configuration.scheduler}")
        try:
            while True:
                await asyncio.sleep(1)
                await self.write()
        finally:
            self.diary.append("stops")

    async def write(self) -> None:
        try:
            await self.client.create(CONFIG_MAP, {"metadata": {"generateName": "x-", "namespace": "default"}})
        except ApiError as error:
            self.diary.append(f"may not write: {error}")

    async def ready(self) -> None:
        await asyncio.sleep(0.5)


class WorkerPart:
    name = "worker"

    def __init__(self, adopts: bool = False) -> None:
        self.diary: list[str] = []
        self.adopts = adopts

    def read(self, configuration: Configuration) -> object:
        return configuration.scheduler

    def make(self, means: Means, configuration: Configuration) -> Worker:
        return Worker(means.api, configuration, self.diary)

    def adopt(self, component: Any, configuration: Configuration) -> bool:
        if self.adopts:
            self.diary.append(f"adopts {configuration.scheduler}")
        return self.adopts


def configured(**scheduler: Any) -> Configuration:
    return Configuration(scheduler=scheduler)


def lone(part: WorkerPart, **scheduler: Any) -> Post:
    """A post that nobody contends for."""
    clock = VirtualClock()
    api = MemoryApi(clock, Random(1))
    return Post(part, Station(api, clock, Random(1), None), configured(**scheduler))


@virtual
async def test_it_begins_and_says_so() -> None:
    post = lone(WorkerPart())
    holding = asyncio.create_task(post.hold())
    await asyncio.sleep(0.1)
    assert (str(post), post.is_well) == ("starting", False)
    await asyncio.sleep(1)
    assert (str(post), post.is_well) == ("at work", True)
    holding.cancel()
    await asyncio.wait([holding])


@pytest.mark.parametrize(
    ("adopts", "diary"),
    [
        (False, ["starts with {'a': 1}", "stops", "starts with {'a': 2}"]),
        (True, ["starts with {'a': 1}", "adopts {'a': 2}"]),
    ],
    ids=["made anew", "adopted"],
)
def test_another_configuration(adopts: bool, diary: list[str]) -> None:
    part = WorkerPart(adopts)

    @virtual
    async def story() -> None:
        post = lone(part, a=1)
        holding = asyncio.create_task(post.hold())
        await asyncio.sleep(2)
        post.configure(configured(a=1))
        await asyncio.sleep(2)
        post.configure(configured(a=2))
        await asyncio.sleep(0.1)
        assert post.is_well is adopts, "made anew, it has to begin anew"
        await asyncio.sleep(2)
        assert part.diary == diary
        holding.cancel()
        await asyncio.wait([holding])

    story()


@virtual
async def test_who_begins_knows_what_was_configured_before() -> None:
    part = WorkerPart()
    post = lone(part, a=1)
    post.configure(configured(a=2))
    holding = asyncio.create_task(post.hold())
    await asyncio.sleep(2)
    assert part.diary == ["starts with {'a': 2}"]
    holding.cancel()
    await asyncio.wait([holding])


@virtual
async def test_one_that_breaks_ends_all_and_is_named() -> None:
    whole, broken = WorkerPart(), WorkerPart()
    with pytest.raises(PostLost, match="the worker stopped: out of ideas"):
        await hold_all([lone(whole), lone(broken, broken=True)])
    assert whole.diary[-1:] in ([], ["stops"])


@pytest.mark.parametrize(
    ("problem", "words"),
    [(None, "it just ended"), (ValueError("no"), "no"), (KeyError(), "KeyError")],
    ids=["nothing", "words", "no words"],
)
def test_what_went_wrong_in_a_few_words(problem: BaseException | None, words: str) -> None:
    assert cause(problem) == words


@virtual
async def test_who_loses_the_lease_stops_and_the_other_takes_over_and_back() -> None:
    clock = VirtualClock()
    api = MemoryApi(clock, Random(1))
    cuts = [Cut(api), Cut(api)]
    parts = [WorkerPart(), WorkerPart()]

    def contender(number: int) -> Post:
        def elect(name: str) -> LeaderElection:
            client = Client(cuts[number])
            return LeaderElection(
                client, namespace="default", name=name, identity=f"p{number}", clock=clock, rng=Random(number)
            )

        return Post(parts[number], Station(cuts[number], clock, Random(number), elect), configured())

    posts = [contender(0), contender(1)]
    holding = [asyncio.create_task(post.hold()) for post in posts]
    await asyncio.sleep(5)
    first = 0 if posts[0].leads else 1
    other = 1 - first
    assert (str(posts[first]), str(posts[other])) == ("at work", f"standing by for p{first}")
    assert posts[other].is_well
    cuts[first].mode = "hangs"
    await asyncio.sleep(40)
    assert (str(posts[other]), posts[first].leads) == ("at work", False)
    assert parts[first].diary[-1] == "stops"
    cuts[first].mode = "fine"
    await asyncio.sleep(10)
    assert str(posts[first]) == f"standing by for p{other}"
    holding[other].cancel()
    await asyncio.sleep(5)
    assert str(posts[first]) == "at work"
    holding[first].cancel()
    await asyncio.wait(holding)
