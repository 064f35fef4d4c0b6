"""The requests of an informer: a list in pages, and a watch that may begin with the present state (watch-list).

Takes a selection of objects, returns typed objects and events. Lists are consistent: resourceVersion is left unset,
never 0, so that a process that takes over sees at least what its predecessor wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from restow.client.informer_settings import InformerSettings
from restow.client.requests import Selector
from restow.client.responses import Unreadable
from restow.client.verbs import Client, WatchEvent
from restow.model.kinds import Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Object
from restow.ports import INITIAL_EVENTS_END, Gone, OutcomeUnknown

T = TypeVar("T", bound=Object)


class WatchListUnsupported(Exception):
    """The server did not mark the end of the initial events: it does not support watch-list, or failed half-way."""


class Selection(msgspec.Struct, frozen=True):
    """Which objects: those of a kind, all of them or in one namespace, that match a field selector."""

    kind: Kind[Any]
    namespace: str | None = None
    fields: Selector = None


class ListWatch(Generic[T]):
    """Lists and watches one selection. `retain` is applied to every object that is read and returns the one to keep;
    `report_unreadable` is called for objects that cannot be decoded, which are then left out."""

    def __init__(
        self,
        client: Client,
        selection: Selection,
        settings: InformerSettings,
        *,
        rng: Random,
        retain: Callable[[T], T],
        report_unreadable: Callable[[Unreadable], None],
    ) -> None:
        self._client = client
        self._selection = selection
        self._settings = settings
        self._rng = rng
        self._retain = retain
        self._report_unreadable = report_unreadable
        self._page_size = settings.page_size

    async def list_pages(self) -> tuple[list[T], str]:
        """All objects, and the version of the list. Raises Gone if the list expires half-way."""
        items: list[T] = []
        version = ""
        selection = self._selection
        pages = self._client.pages(
            selection.kind,
            selection.namespace,
            fields=selection.fields,
            limit=self._page_size,
            unreadable=self._report_unreadable,
        )
        try:
            async with aclosing(pages):
                async for page in pages:
                    items += map(self._retain, page.items or ())
                    version = page.metadata.resource_version or version
        except Gone:
            self._page_size = 0  # the next try reads the list in one piece, which cannot expire half-way
            raise
        self._page_size = self._settings.page_size
        return items, version

    def watch(self, version: str | None) -> AsyncGenerator[WatchEvent[T], None]:
        """Events after `version`; without a version, the present state first."""
        settings, selection = self._settings, self._selection
        timeout = self._rng.randint(settings.watch_timeout_min, settings.watch_timeout_max)
        if settings.relist_interval is not None:
            timeout = max(1, min(timeout, int(settings.relist_interval)))
        return self._client.watch(
            selection.kind,
            selection.namespace,
            fields=selection.fields,
            resource_version=version,
            initial_events=version is None,
            timeout_seconds=timeout,
            unreadable=self._report_unreadable,
        )

    async def read_initial_events(self, events: AsyncIterator[WatchEvent[T]]) -> tuple[dict[Key, T], str]:
        """The present state from the beginning of a watch-list, up to the bookmark that ends it, and its version."""
        items: dict[Key, T] = {}
        loop, idle_timeout = asyncio.get_running_loop(), self._settings.initial_idle_timeout
        try:
            async with asyncio.timeout(idle_timeout) as idle:
                async for event in events:
                    idle.reschedule(loop.time() + idle_timeout)
                    meta = event.object.metadata
                    if event.type == "BOOKMARK":
                        if (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                            return items, meta.resource_version
                    elif event.type == "DELETED":
                        items.pop(key_of(event.object), None)
                    else:
                        items[key_of(event.object)] = self._retain(event.object)
        except TimeoutError:
            raise WatchListUnsupported("the end of the initial events was not marked") from None
        except OutcomeUnknown as error:
            # kube-apiserver answers 500 if its etcd is too old for watch-lists. Other errors are worth a retry.
            if error.status.code != 500:
                raise
            raise WatchListUnsupported(str(error)) from None
        raise WatchListUnsupported("the stream ended before the initial events did")
