"""What was last written is seen at once, and never instead of something newer."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.cache import Change
from restow.client.informer import Informer
from restow.client.mutation_cache import UNSEEN, MutationCache
from restow.client.verbs import Client
from restow.model.kinds import NODE, RESERVATION
from restow.model.objects import Node, ObjectMeta, Reservation
from restow.sim.loop import VirtualClock
from tests.client.world import play

NEW = {"metadata": {"name": "a"}}


def labelled(text: str) -> dict[str, object]:
    return {"metadata": {"labels": {"is": text}}}


def told(latest: MutationCache[Node]) -> list[str]:
    """What every node is, asked for in both ways."""
    found = [latest.get(node.metadata.name) for node in latest]
    return [(node.metadata.labels or {}).get("is", "new") for node in found if node is not None]


@pytest.mark.parametrize("heeds", [True, False], ids=["the news was heard", "the news is held"])
def test_an_answer_that_is_slower_than_the_watch_changes_nothing(heeds: bool) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client = Client(api)
        informer = Informer(client, NODE, rng=Random(1))
        latest = MutationCache(informer, clock)
        if heeds:
            informer.subscribe(latest.observe)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        latest.record_write(await client.create(NODE, NEW))
        assert told(latest) == ["new"]
        ours = await client.patch(NODE, "a", labelled("ours"))
        latest.record_write(ours)
        assert told(latest) == ["ours"]
        await client.patch(NODE, "a", labelled("theirs"))
        await asyncio.sleep(1)
        assert told(latest) == ["theirs"]
        latest.record_write(ours)
        assert told(latest) == ["theirs"]
        running.cancel()

    play(story)


def test_what_is_noted_late_is_not_believed_instead_of_what_was_written_since() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client = Client(api)
        latest = MutationCache(Informer(client, NODE, rng=Random(1)), clock)
        read = await client.create(NODE, NEW)
        latest.record_write(await client.patch(NODE, "a", labelled("ours")))
        latest.record_write(read)
        assert told(latest) == ["ours"]

    play(story)


def test_what_the_watch_never_shows_is_gone_after_a_while() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        latest = MutationCache(Informer(Client(api), NODE, rng=Random(1)), clock)
        latest.record_write(await Client(api).create(NODE, NEW))
        await asyncio.sleep(UNSEEN - 1)
        assert told(latest) == ["new"]
        await asyncio.sleep(2)
        assert (told(latest), latest.get("a")) == ([], None)

    play(story)


def test_what_the_watch_shows_in_an_older_form_only_stays_as_we_wrote_it() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        client = Client(api)
        await client.create(NODE, NEW)
        informer = Informer(client, NODE, rng=Random(1), indexes={"name": lambda node: (node.metadata.name,)})
        running = asyncio.create_task(informer.run())
        await informer.synced()
        running.cancel()
        latest = MutationCache(informer, clock)
        latest.record_write(await client.patch(NODE, "a", labelled("ours")))
        await asyncio.sleep(UNSEEN + 1)
        assert told(latest) == ["ours"]
        assert latest.find("name", "a") == [latest.newest(one) for one in informer] == list(latest)
        await client.delete(NODE, "a")
        latest.observe(Change("DELETED", next(iter(informer))))
        assert told(latest) == ["new"], "as the watch has shown it last"

    play(story)


def test_namesakes_in_other_namespaces_are_others() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        latest = MutationCache(Informer(Client(api), RESERVATION, rng=Random(1)), clock)
        latest.record_write(Reservation(metadata=ObjectMeta(name="a", namespace="one", uid="1")))
        latest.record_write(Reservation(metadata=ObjectMeta(name="a", namespace="two", uid="2")))
        assert [one.metadata.uid for one in latest] == ["1", "2"]
        found = [latest.get("a", namespace) for namespace in ("two", "one", "three")]
        assert [one and one.metadata.uid for one in found] == ["2", "1", None]

    play(story)
