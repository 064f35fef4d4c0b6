"""The components of a process read the cluster once, through the same informers; those that are off read nothing."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from restow.adapters.memory import MemoryApi
from restow.control.aside import at_once
from restow.running.configuration import Configuration
from restow.running.parts import PARTS
from restow.running.posts import Part, Post, Station
from restow.sim.loop import VirtualClock
from tests.client.wire import Wire
from tests.sim.stage import virtual


def part(name: str) -> Part:
    """One that thinks where it is: there are no threads in virtual time."""
    aside = (at_once,) if name in ("descheduler", "queues") else ()
    return PARTS[name](CollectorRegistry(), "restow-system", *aside)


@pytest.mark.parametrize(
    ("names", "pods"),
    [(tuple(PARTS), 1), (("scheduler", "queues"), 1), (("reservations",), 0), ((), 0)],
    ids=["all", "two", "one that needs no pods", "none"],
)
def test_every_kind_is_watched_once_at_most(names: tuple[str, ...], pods: int) -> None:
    @virtual
    async def story() -> None:
        clock = VirtualClock()
        wire = Wire(MemoryApi(clock, Random(1)))
        station = Station(wire, clock, Random(1), None)
        posts = [Post(part(name), station, Configuration()) for name in names]
        holding = [asyncio.create_task(post.hold()) for post in posts]
        await asyncio.sleep(10)
        assert all(post.is_well for post in posts)
        assert (wire.open["pods"], max(wire.open.values(), default=0)) == (pods, 1 if pods else 0)
        for task in holding:
            task.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
        assert not +wire.open

    story()


@virtual
async def test_one_that_begins_anew_leaves_the_others_alone() -> None:
    clock = VirtualClock()
    wire = Wire(MemoryApi(clock, Random(1)))
    station = Station(wire, clock, Random(1), None)
    posts = [Post(part(name), station, Configuration()) for name in PARTS]
    holding = [asyncio.create_task(post.hold()) for post in posts]
    await asyncio.sleep(10)
    before = {post.part.name: post.component for post in posts}
    for post in posts:
        post.configure(Configuration(descheduler={"nodeSelector": "disk=fast"}))
    await asyncio.sleep(10)
    after = {post.part.name: post.component for post in posts}
    assert [name for name in before if before[name] is not after[name]] == ["descheduler"]
    assert (all(post.is_well for post in posts), wire.open["pods"]) == (True, 1)
    for task in holding:
        task.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
