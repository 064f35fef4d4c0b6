"""An informer: a cache of the objects of one kind that is kept equal to the API server, and handlers for its changes.

`InformerStore` has the cache and the handlers, `ListWatch` makes the requests, `Reflector` decides when to list and
when to watch. All of it runs as long as `run` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Generic, TypeVar

from restow.client.cache import IndexFunction
from restow.client.informer_settings import InformerSettings
from restow.client.informer_store import Handler, InformerStore
from restow.client.list_watch import ListWatch, Selection
from restow.client.reflector import Reflector
from restow.client.requests import Selector
from restow.client.verbs import Client
from restow.model.kinds import Kind
from restow.model.object_key import Key
from restow.model.objects import Object

T = TypeVar("T", bound=Object)


class Informer(Generic[T]):
    """The objects of a kind: all, or those in one namespace, or those that match a field selector."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        rng: Random,
        namespace: str | None = None,
        fields: Selector = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        settings: InformerSettings | None = None,
    ) -> None:
        self.kind = kind
        settings = settings or InformerSettings()
        self._store = store = InformerStore(kind, indexes)
        self._cache = store.cache
        list_watch = ListWatch(
            client,
            Selection(kind, namespace, fields),
            settings,
            rng=rng,
            retain=store.retain,
            report_unreadable=store.report_unreadable,
        )
        self._reflector = Reflector(kind, list_watch, store, settings=settings, rng=rng)

    # ---- state

    async def synced(self) -> None:
        """Wait for the first list. `failure` is what is in the way, if anything."""
        await self._reflector.synced.wait()

    @property
    def is_synced(self) -> bool:
        return self._reflector.synced.is_set()

    @property
    def failure(self) -> BaseException | None:
        """The error that is in the way now, if any."""
        return self._reflector.failure

    @property
    def version(self) -> str | None:
        """The resourceVersion up to which everything has been seen."""
        return self._cache.version

    @property
    def unreadable(self) -> Mapping[Key, str]:
        """Objects that exist and could not be decoded, with the error."""
        return self._store.unreadable

    # ---- reading

    def __len__(self) -> int:
        return len(self._cache)

    def __iter__(self) -> Iterator[T]:
        return iter(self._cache)

    def get(self, name: str, namespace: str | None = None) -> T | None:
        return self._cache.get((namespace or "", name))

    def find(self, index: str, value: str) -> list[T]:
        """The objects that an index has under a value."""
        return self._cache.find(index, value)

    def index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index for `find`; `function` returns the values under which an object is found."""
        self._cache.index(name, function)

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call a handler for every cached object as ADDED, then for every change. Returns a function that ends this.

        Handlers must be quick and must not raise: an exception ends `run`.
        """
        return self._store.subscribe(handler)

    # ---- running

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        await self._reflector.run()

    def refresh(self, done: asyncio.Event) -> None:
        """List again, whatever goes on; `done` is set after a list that began later than this call.

        A new user of an informer that runs already needs this, to see at least what was written before it came."""
        self._reflector.refresh(done)
