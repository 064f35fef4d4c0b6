"""An Api that counts lists and watches, and can delay lists or the events of watches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from restow.ports import Api, Request, Response


class CountingApi:
    def __init__(self, api: Api) -> None:
        self.api = api
        self.flowing, self.listing = asyncio.Event(), asyncio.Event()
        self.flowing.set()
        self.listing.set()
        self.lists = 0
        self.open: Counter[str] = Counter()
        """Open watches by plural."""

    async def call(self, request: Request) -> Response:
        if request.verb == "list":
            self.lists += 1
            await self.listing.wait()
        return await self.api.call(request)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        is_list = "sendInitialEvents" in request.query
        self.lists += is_list
        self.open[request.resource.plural] += 1
        try:
            async for event in self.api.watch(request):
                await (self.listing if is_list else self.flowing).wait()
                yield event
        finally:
            self.open[request.resource.plural] -= 1
