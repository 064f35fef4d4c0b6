"""MutationCache: our own writes are visible at once, and never hide something newer."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.cache import Change
from restow.client.informer import Informer
from restow.client.mutation_cache import UNSEEN_SECONDS, MutationCache
from restow.client.verbs import Client
from restow.model.kinds import NODE, RESERVATION
from restow.model.objects import Node, ObjectMeta, Reservation
from restow.sim.loop import VirtualClock
from tests.client.virtual_server import run_with_server

NEW = {"metadata": {"name": "a"}}


def labelled(text: str) -> dict[str, object]:
    return {"metadata": {"labels": {"is": text}}}


def labels_of(latest: MutationCache[Node]) -> list[str]:
    """The label of every node, by iteration and `get`."""
    items = [latest.get(node.metadata.name) for node in latest]
    return [(node.metadata.labels or {}).get("is", "new") for node in items if node is not None]


@pytest.mark.parametrize("observes", [True, False], ids=["changes observed", "changes not observed"])
def test_newer_version_from_the_watch_wins_over_our_write(observes: bool) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client = Client(api)
        informer = Informer(client, NODE, rng=Random(1))
        latest = MutationCache(informer, clock)
        if observes:
            informer.subscribe(latest.observe)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        latest.record_write(await client.create(NODE, NEW))
        assert labels_of(latest) == ["new"]
        ours = await client.patch(NODE, "a", labelled("ours"))
        latest.record_write(ours)
        assert labels_of(latest) == ["ours"]
        await client.patch(NODE, "a", labelled("theirs"))
        await asyncio.sleep(1)
        assert labels_of(latest) == ["theirs"]
        latest.record_write(ours)
        assert labels_of(latest) == ["theirs"]
        running.cancel()

    run_with_server(story)


def test_older_record_does_not_replace_a_newer_write() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client = Client(api)
        latest = MutationCache(Informer(client, NODE, rng=Random(1)), clock)
        read = await client.create(NODE, NEW)
        latest.record_write(await client.patch(NODE, "a", labelled("ours")))
        latest.record_write(read)
        assert labels_of(latest) == ["ours"]

    run_with_server(story)


def test_write_that_the_watch_never_shows_expires() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        latest = MutationCache(Informer(Client(api), NODE, rng=Random(1)), clock)
        latest.record_write(await Client(api).create(NODE, NEW))
        await asyncio.sleep(UNSEEN_SECONDS - 1)
        assert labels_of(latest) == ["new"]
        await asyncio.sleep(2)
        assert (labels_of(latest), latest.get("a")) == ([], None)

    run_with_server(story)


def test_write_is_kept_while_the_watch_has_an_older_version() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client = Client(api)
        await client.create(NODE, NEW)
        informer = Informer(client, NODE, rng=Random(1), indexes={"name": lambda node: (node.metadata.name,)})
        running = asyncio.create_task(informer.run())
        await informer.synced()
        running.cancel()
        latest = MutationCache(informer, clock)
        latest.record_write(await client.patch(NODE, "a", labelled("ours")))
        await asyncio.sleep(UNSEEN_SECONDS + 1)
        assert labels_of(latest) == ["ours"]
        assert latest.find("name", "a") == [latest.newest(node) for node in informer] == list(latest)
        await client.delete(NODE, "a")
        latest.observe(Change("DELETED", next(iter(informer))))
        assert labels_of(latest) == ["new"], "the version that the watch had last"

    run_with_server(story)


def test_same_name_in_other_namespaces_is_another_object() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        latest = MutationCache(Informer(Client(api), RESERVATION, rng=Random(1)), clock)
        latest.record_write(Reservation(metadata=ObjectMeta(name="a", namespace="one", uid="1")))
        latest.record_write(Reservation(metadata=ObjectMeta(name="a", namespace="two", uid="2")))
        assert [reservation.metadata.uid for reservation in latest] == ["1", "2"]
        items = [latest.get("a", namespace) for namespace in ("two", "one", "three")]
        assert [reservation and reservation.metadata.uid for reservation in items] == ["2", "1", None]

    run_with_server(story)
