"""Informers shared by the controllers of a process, like client-go's SharedInformerFactory.

One informer for each selection of objects, so that a cluster is listed, watched and cached once, however many
controllers read it. An informer runs while it has users; after the last one it is stopped and thrown away.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, TypeVar

import msgspec

from restow.client.informer import Informer
from restow.client.list_watch import Selection
from restow.client.verbs import Client
from restow.model.kinds import Kind
from restow.model.objects import Object

T = TypeVar("T", bound=Object)


class _RunningInformer(msgspec.Struct):
    task: asyncio.Task[None]
    users: int = 0


class SharedInformers:
    def __init__(self, client: Client, rng: Random) -> None:
        self._client = client
        self._rng = rng
        self._known: dict[Selection, Informer[Any]] = {}
        self._running: dict[Informer[Any], _RunningInformer] = {}

    def get(self, kind: Kind[T], *, namespace: str | None = None, fields: str | None = None) -> Informer[T]:
        """The informer for a selection; it does not run yet."""
        selection = Selection(kind, namespace, fields)
        if selection not in self._known:
            rng = Random(self._rng.getrandbits(64))
            self._known[selection] = Informer(self._client, kind, rng=rng, namespace=namespace, fields=fields)
        return self._known[selection]

    async def run_while_used(self, informer: Informer[Any]) -> None:
        """Use an informer until cancelled; it runs while at least one user does this. Raises the error that it fails
        with, for every user."""
        if informer not in self._running:
            name = f"informer {informer.kind.kind}"
            self._running[informer] = _RunningInformer(asyncio.create_task(informer.run(), name=name))
        running = self._running[informer]
        running.users += 1
        try:
            await asyncio.wait((running.task,))
            running.task.result()
        finally:
            running.users -= 1
            if not running.users:
                await self._stop(informer, running.task)

    async def _stop(self, informer: Informer[Any], task: asyncio.Task[None]) -> None:
        del self._running[informer]
        self._known = {selection: known for selection, known in self._known.items() if known is not informer}
        task.cancel()
        await asyncio.wait((task,))
