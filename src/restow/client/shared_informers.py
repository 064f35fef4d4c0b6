"""Informers that readers share: one for each selection of objects, which runs for as long as anybody reads it.

Goes in: a Client to read with, and who wants to read what. Comes out: the same informer for everybody who wants the
same, so that a cluster is listed, watched and remembered once, however many components a process has. One that nobody
reads any more is stopped and thrown away.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, TypeVar

import msgspec

from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import Kind
from restow.model.objects import Object

T = TypeVar("T", bound=Object)


class _Selection(msgspec.Struct, frozen=True):
    kind: Kind[Any]
    namespace: str | None
    fields: str | None


class _Running(msgspec.Struct):
    task: asyncio.Task[None]
    readers: int = 0


class SharedInformers:
    def __init__(self, client: Client, rng: Random) -> None:
        self._client = client
        self._rng = rng
        self._known: dict[_Selection, Informer[Any]] = {}
        self._running: dict[Informer[Any], _Running] = {}

    def of(self, kind: Kind[T], *, namespace: str | None = None, fields: str | None = None) -> Informer[T]:
        """The informer of a selection."""
        selection = _Selection(kind, namespace, fields)
        if selection not in self._known:
            rng = Random(self._rng.getrandbits(64))
            self._known[selection] = Informer(self._client, kind, rng=rng, namespace=namespace, fields=fields)
        return self._known[selection]

    async def run_while_used(self, informer: Informer[Any]) -> None:
        """Have an informer run, until cancelled. Raises what it breaks with, to everybody who keeps it."""
        if informer not in self._running:
            name = f"informer {informer.kind.kind}"
            self._running[informer] = _Running(asyncio.create_task(informer.run(), name=name))
        running = self._running[informer]
        running.readers += 1
        try:
            await asyncio.wait((running.task,))
            running.task.result()
        finally:
            running.readers -= 1
            if not running.readers:
                await self._end(informer, running.task)

    async def _end(self, informer: Informer[Any], task: asyncio.Task[None]) -> None:
        del self._running[informer]
        self._known = {selection: one for selection, one in self._known.items() if one is not informer}
        task.cancel()
        await asyncio.wait((task,))
