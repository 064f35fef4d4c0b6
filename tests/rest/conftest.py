"""A scripted API server, served, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from restow.adapters.rest import RestServer, serve
from tests.rest.scripted import ScriptedApi


@pytest.fixture
def scripted() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
async def server(scripted: ScriptedApi) -> AsyncIterator[RestServer]:
    async with await serve(scripted) as running:
        yield running


@pytest.fixture
async def http(server: RestServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session
