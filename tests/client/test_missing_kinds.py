"""A kind that nobody has defined: one line, and everything else goes on; when it is defined, it is seen."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from restow.adapters.memory import MemoryApi
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, POD_UNAVAILABLE_BUDGET, QUEUE
from restow.sim.loop import VirtualClock
from tests.client.world import play


def test_a_kind_that_is_not_installed_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        informer = Informer(Client(api), POD_UNAVAILABLE_BUDGET, rng=Random(1))
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(300)
        running.cancel()

    with caplog.at_level(logging.INFO):
        play(story)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [("INFO", "kind not installed, so there are none")]


def test_it_is_seen_once_it_is_installed() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        informer = Informer(Client(api), QUEUE, rng=Random(1))
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(60)
        assert not informer.is_synced
        for one in custom_resource_definitions():
            await Client(api).create(CUSTOM_RESOURCE_DEFINITION, one)
        await asyncio.sleep(60)
        assert informer.is_synced
        running.cancel()

    play(story)
