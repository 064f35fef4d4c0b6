"""An API server that says what it is told to, to test the HTTP side alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from restow.adapters.memory.builtin_resources import BUILTINS
from restow.adapters.memory.resources import ResourceType
from restow.ports import ApiError, Request, Response

NOW = 1_800_000_000.0
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "resourceVersion": "5"},
    "status": {"phase": "Pending"},
}


class FixedClock:
    def now(self) -> float:
        return NOW


class ScriptedApi:
    """Records every request; answers with `answer`, which may be an error; watches send `events`, then wait."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.requests: list[Request] = []
        self.answer: Response | Exception = Response(body=b"{}")
        self.events: list[bytes | ApiError] = []
        self.ends = False
        self.open = 0
        self.all_left = asyncio.Event()
        self.types: list[ResourceType] = list(BUILTINS)

    def says(self, document: Any, **members: Any) -> None:
        self.answer = Response(body=msgspec.json.encode(document), **members)

    def resources(self) -> Iterable[ResourceType]:
        return self.types

    async def call(self, request: Request) -> Response:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        self.requests.append(request)
        self.open += 1
        try:
            for event in self.events:
                if isinstance(event, ApiError):
                    raise event
                yield event
            if not self.ends:
                await asyncio.Event().wait()
        finally:
            self.open -= 1
            if not self.open:
                self.all_left.set()
