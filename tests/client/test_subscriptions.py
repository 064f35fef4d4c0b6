"""Subscriptions: controllers that share informers have one list and one watch, and know what they would know alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.cache import Change, by_namespace
from restow.client.informer import Informer
from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.client.verbs import Client
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, POD, POD_UNAVAILABLE_BUDGET, QUEUE
from restow.model.objects import Pod
from restow.ports import Api
from restow.sim.loop import VirtualClock
from tests.client.counting_api import CountingApi
from tests.client.virtual_server import run_with_server, shop_pod


class PodSubscriber:
    """Subscribes to pods and records every event it gets; `after` is recorded after the handlers of each event."""

    def __init__(self, informers: SharedInformers, after: str | None = None) -> None:
        self.heard: list[str] = []
        self.reader = Subscriptions(informers, after_event=lambda: self.heard.append(after) if after else None)
        self.pods = self.reader.subscribe(POD, self.hear)

    def hear(self, change: Change[Pod]) -> None:
        self.heard.append(f"{change.type} {change.object.metadata.name}")

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.reader.run())
        try:
            await self.reader.synced()
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])


def shared(api: Api) -> SharedInformers:
    return SharedInformers(Client(api), Random(1))


def test_subscribers_share_one_watch_and_its_objects() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        wire, client = CountingApi(api), Client(api)
        await client.create(POD, shop_pod("a"))
        informers = shared(wire)
        older, newer = PodSubscriber(informers), PodSubscriber(informers)
        async with older.at_work(), newer.at_work():
            await client.create(POD, shop_pod("b"))
            await asyncio.sleep(1)
            assert older.heard == newer.heard == ["ADDED a", "ADDED b"]
            assert (wire.open.total(), older.pods.get("b", "shop") is newer.pods.get("b", "shop")) == (1, True)

    run_with_server(story)


def test_subscribers_that_start_together_share_one_list() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        wire = CountingApi(api)
        informers = shared(wire)
        subscribers = [PodSubscriber(informers) for _ in range(4)]
        running = [asyncio.create_task(subscriber.reader.run()) for subscriber in subscribers]
        await asyncio.gather(*(subscriber.reader.synced() for subscriber in subscribers))
        assert wire.lists == 1
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    run_with_server(story)


def test_later_subscriber_sees_earlier_writes_although_the_watch_lags() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        wire, client = CountingApi(api), Client(api)
        informers = shared(wire)
        older, newer = PodSubscriber(informers), PodSubscriber(informers)
        async with older.at_work():
            await asyncio.sleep(700)  # it follows by a watch of its own, which does not begin with a list
            wire.flowing.clear()
            await client.create(POD, shop_pod("a"))
            await asyncio.sleep(1)
            assert older.heard == []
            async with newer.at_work():
                assert (older.heard, newer.heard) == (["ADDED a"], ["ADDED a"])

    run_with_server(story)


def test_list_that_began_earlier_does_not_sync_a_later_subscriber() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        wire, client = CountingApi(api), Client(api)
        informers = shared(wire)
        older, newer = PodSubscriber(informers), PodSubscriber(informers)
        await client.create(POD, shop_pod("a"))
        wire.listing.clear()
        first = asyncio.create_task(older.reader.run())
        await asyncio.sleep(1)
        await client.create(POD, shop_pod("b"))
        second = asyncio.create_task(newer.reader.run())
        await asyncio.sleep(1)
        wire.listing.set()
        async with asyncio.timeout(5):
            await asyncio.gather(older.reader.synced(), newer.reader.synced())
        assert (wire.lists, sorted(newer.heard)) == (2, ["ADDED a", "ADDED b"])
        for task in (first, second):
            task.cancel()
        await asyncio.wait((first, second))

    run_with_server(story)


def test_events_continue_while_a_later_subscriber_waits_for_its_list() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        wire, client = CountingApi(api), Client(api)
        informers = shared(wire)
        older, newer = PodSubscriber(informers), PodSubscriber(informers)
        for name in ("a", "b"):
            await client.create(POD, shop_pod(name))
        async with older.at_work():
            await asyncio.sleep(700)  # as above
            wire.listing.clear()
            second = asyncio.create_task(newer.reader.run())
            await asyncio.sleep(1)
            await client.create(POD, shop_pod("c"))
            await client.patch(POD, "a", {"metadata": {"labels": {"app": "web"}}}, "shop")
            await asyncio.sleep(1)
            assert older.heard[2:] == newer.heard[2:] == ["ADDED c", "MODIFIED a"]
            wire.listing.set()
            async with asyncio.timeout(5):
                await newer.reader.synced()
            assert (older.heard[4:], newer.heard[4:], wire.lists, wire.open.total()) == ([], [], 2, 1)
            second.cancel()
            await asyncio.wait((second,))

    run_with_server(story)


def test_refresh_completes_although_an_event_arrives() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        older, listed = PodSubscriber(shared(api)), asyncio.Event()
        async with older.at_work():
            await asyncio.sleep(10)
            await Client(api).create(POD, shop_pod("a"))
            older.pods.refresh(listed)
            async with asyncio.timeout(5):
                await listed.wait()

    run_with_server(story)


def test_refresh_completes_although_the_watch_expires() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        older, listed = PodSubscriber(shared(api)), asyncio.Event()
        async with older.at_work():
            await asyncio.sleep(10)
            idle = older.pods._reflector._stream_timeout
            assert idle is not None
            idle.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(0)
            older.pods.refresh(listed)
            async with asyncio.timeout(5):
                await listed.wait()

    run_with_server(story)


@pytest.mark.parametrize("ticks", range(6))
def test_kind_installed_meanwhile_is_not_missing_for_a_later_subscriber(ticks: int) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client, informers = Client(api), shared(api)
        readers = [Subscriptions(informers), Subscriptions(informers)]
        queues = [reader.subscribe(QUEUE) for reader in readers]
        running = [asyncio.create_task(readers[0].run())]
        await readers[0].synced()
        await asyncio.sleep(100)
        for definition in custom_resource_definitions():
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        await client.create(QUEUE, {"metadata": {"name": "late"}})
        running.append(asyncio.create_task(readers[1].run()))
        for _ in range(ticks):
            await asyncio.sleep(0)
        await readers[1].synced()
        assert [item.metadata.name for item in queues[1]] == ["late"]
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    run_with_server(story)


def test_informer_stops_after_its_last_subscriber() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        wire, client = CountingApi(api), Client(api)
        informers = shared(wire)
        older, newer = PodSubscriber(informers), PodSubscriber(informers)
        async with older.at_work():
            async with newer.at_work():
                pass
            await client.create(POD, shop_pod("a"))
            await asyncio.sleep(1)
            assert (older.heard, newer.heard, wire.open.total()) == (["ADDED a"], [], 1)
        assert wire.open.total() == 0
        await client.create(POD, shop_pod("b"))
        newest = PodSubscriber(informers)
        assert newest.pods is not older.pods, "the cache was thrown away"
        async with newest.at_work():
            assert (older.heard, sorted(newest.heard)) == (["ADDED a"], ["ADDED a", "ADDED b"])

    run_with_server(story)


def test_failing_informer_fails_all_its_subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Informer[Pod]) -> None:
        await asyncio.sleep(1)
        raise RuntimeError("out of ideas")

    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        monkeypatch.setattr(Informer, "run", broken)
        informers = shared(api)
        readers = [PodSubscriber(informers).reader for _ in range(2)]
        ends = await asyncio.gather(*(reader.run() for reader in readers), return_exceptions=True)
        assert all(isinstance(end, ExceptionGroup) for end in ends)

    run_with_server(story)


def test_missing_kind_is_logged_once_for_all_subscribers(caplog: pytest.LogCaptureFixture) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        informers = shared(api)
        for _ in range(3):
            reader = Subscriptions(informers)
            reader.subscribe(POD_UNAVAILABLE_BUDGET)
            tasks.append(asyncio.create_task(reader.run()))
            await reader.synced()
            await asyncio.sleep(100)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    tasks: list[asyncio.Task[None]] = []
    with caplog.at_level(logging.INFO):
        run_with_server(story)
    assert [record.getMessage() for record in caplog.records] == ["kind not installed, assuming no objects"]


def test_handlers_run_in_order_until_one_fails() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        older = PodSubscriber(shared(api), after="after event")

        def fail(change: Change[Pod]) -> None:
            raise ValueError("unreadable")

        older.reader.subscribe(POD, fail, lambda change: older.heard.append("never"))
        await Client(api).create(POD, shop_pod("a"))
        async with older.at_work():
            assert older.heard == ["ADDED a", "after event"]

    run_with_server(story)


def test_index_added_later_has_earlier_objects() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client, informers = Client(api), shared(api)
        await client.create(POD, shop_pod("a"))
        older, newer = PodSubscriber(informers), Subscriptions(informers)
        async with older.at_work():
            pods = newer.subscribe(POD, indexes={"namespace": by_namespace})
            await client.create(POD, shop_pod("b"))
            await asyncio.sleep(1)
            assert [pod.metadata.name for pod in pods.find("namespace", "shop")] == ["a", "b"]
            with pytest.raises(ValueError, match="index namespace already exists with another function"):
                newer.subscribe(POD, indexes={"namespace": lambda pod: ()})

    run_with_server(story)
