"""Informers of kinds that are not installed: one log line, and they sync after the installation."""

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
from tests.client.virtual_server import run_with_server


def test_missing_kind_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        informer = Informer(Client(api), POD_UNAVAILABLE_BUDGET, rng=Random(1))
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(300)
        running.cancel()

    with caplog.at_level(logging.INFO):
        run_with_server(story)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [("INFO", "kind not installed, assuming no objects")]


def test_informer_syncs_after_the_kind_is_installed() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        informer = Informer(Client(api), QUEUE, rng=Random(1))
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(60)
        assert not informer.is_synced
        for definition in custom_resource_definitions():
            await Client(api).create(CUSTOM_RESOURCE_DEFINITION, definition)
        await asyncio.sleep(60)
        assert informer.is_synced
        running.cancel()

    run_with_server(story)
