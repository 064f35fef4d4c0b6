"""Whoever creates something twice has it once."""

from __future__ import annotations

from collections.abc import AsyncIterator

from restow.client.verbs import Client
from restow.control.descheduler.creating import create_once
from restow.control.descheduler.settings import Settings
from restow.model import kinds
from restow.ports import Api, Request, Response
from tests.control.migrations.stage import scheduled
from tests.sim.stage import pod, virtual


class _Vanishing:
    """Somebody deletes an object just before it is read for the first time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._read = False

    async def call(self, request: Request) -> Response:
        if request.verb == "get" and not self._read:
            self._read = True
            await Client(self._api).delete(kinds.POD, request.name, request.namespace, grace_seconds=0)
        return await self._api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


@virtual
async def test_what_is_there_is_not_made_again() -> None:
    async with scheduled() as it:
        first = await create_once(it.client, kinds.POD, pod("p"), Settings())
        again = await create_once(it.client, kinds.POD, pod("p"), Settings())
        assert again.metadata.uid == first.metadata.uid


@virtual
async def test_what_goes_before_it_is_read_is_made_again() -> None:
    async with scheduled() as it:
        first = await create_once(it.client, kinds.POD, pod("p"), Settings())
        again = await create_once(Client(_Vanishing(it.api)), kinds.POD, pod("p"), Settings())
        assert again.metadata.uid != first.metadata.uid
