"""The subscriptions of one controller: which kinds it reads, and the handlers that are called with their changes.

Takes the shared informers of the process. While it runs, every change is passed to the handlers of its kind in the
order in which they were subscribed; while paused, changes wait. Before and after it runs, no handler is called.

An informer may have run for other controllers before. `synced` therefore waits for a list that began after this
controller came: so a new leader sees at least what its predecessor wrote.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

from restow.client.cache import Change, IndexFunction
from restow.client.change_dispatcher import ChangeDispatcher
from restow.client.informer import Informer
from restow.client.informer_store import Handler
from restow.client.shared_informers import SharedInformers
from restow.model.kinds import OPTIONAL_KINDS, Kind
from restow.model.objects import Object
from restow.ports import NotFound

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

_CHECK_SECONDS: Final = 0.2
_CHECKS_PER_WARNING: Final = 50


class Subscriptions:
    """`after_event` is called after the handlers of every change."""

    def __init__(self, informers: SharedInformers, *, after_event: Callable[[], None] = lambda: None) -> None:
        self._after_event = after_event
        self._informers = informers
        self._dispatcher = ChangeDispatcher()
        self._subscribed: dict[Informer[Any], _Subscription] = {}

    def subscribe(
        self,
        kind: Kind[T],
        *handlers: Handler[T],
        namespace: str | None = None,
        fields: str | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Informer[T]:
        """Read a kind, all of it, or in one namespace, or what matches a field selector, and call handlers with
        changes."""
        informer = self._informers.get(kind, namespace=namespace, fields=fields)
        for name, function in (indexes or {}).items():
            informer.index(name, function)
        self._subscribed.setdefault(informer, _Subscription()).handlers.extend(handlers)
        return informer

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the informers and pass their changes to the handlers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer, subscription in self._subscribed.items():
                tasks.create_task(self._follow(informer, subscription), name=f"subscription to {informer.kind.kind}")

    async def synced(self) -> None:
        """Wait until everything that exists has been passed to the handlers. Optional kinds that are not installed have
        no objects."""
        for informer, subscription in self._subscribed.items():
            checks = 0
            while not subscription.listed.is_set() and not (subscription.is_requested and _is_missing(informer)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await subscription.listed.wait()
                checks += 1
                if checks % _CHECKS_PER_WARNING == 0:
                    log.warning("kind not listed yet", extra={"kind": informer.kind.kind, "err": str(informer.failure)})

    async def _follow(self, informer: Informer[Any], subscription: _Subscription) -> None:
        informer.refresh(subscription.listed)
        subscription.is_requested = True
        unsubscribe = informer.subscribe(partial(self._dispatcher.dispatch, partial(self._handle, subscription)))
        try:
            await self._informers.run_while_used(informer)
        finally:
            unsubscribe()

    def _handle(self, subscription: _Subscription, change: Change[Any]) -> None:
        try:
            for handler in subscription.handlers:
                handler(change)
        finally:
            self._after_event()

    # --- pausing ------------------------------------------------------------------------------------------------------

    @property
    def has_delivered_all(self) -> bool:
        """Whether no change waits."""
        return self._dispatcher.has_delivered_all

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let changes wait until the context ends."""
        with self._dispatcher.paused():
            yield


class _Subscription:
    """The handlers for one informer, and whether the first list was requested and has come."""

    def __init__(self) -> None:
        self.handlers: list[Handler[Any]] = []
        self.is_requested = False
        self.listed = asyncio.Event()


def _is_missing(informer: Informer[Any]) -> bool:
    return informer.kind in OPTIONAL_KINDS and isinstance(informer.failure, NotFound)
