"""A reader: what one component wants to know of the cluster, and whom it tells there.

Goes in: the informers of the process, and handlers for the kinds that are read. While it runs, every change is told to
the handlers of its kind, in the order in which they were named; while somebody decides (`held`) news waits. Nothing is
told before it runs, or after. Whatever informers knew before, a reader knows the cluster (`synced`) once everything was
listed since it came: so it sees at least what was written before, by whoever led then.
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
from restow.client.informer import Handler, Informer
from restow.client.shared_informers import SharedInformers
from restow.model.kinds import OPTIONAL_KINDS, Kind
from restow.model.objects import Object
from restow.ports import NotFound

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

_LOOK_AGAIN: Final = 0.2
_LOOKS_UNTIL_TOLD: Final = 50


class Subscriptions:
    """`after_event` is called after every change that handlers were told of."""

    def __init__(self, informers: SharedInformers, *, after_event: Callable[[], None] = lambda: None) -> None:
        self._after_event = after_event
        self._informers = informers
        self._learner = ChangeDispatcher()
        self._lines: dict[Informer[Any], _Line] = {}

    def subscribe(
        self,
        kind: Kind[T],
        *handlers: Handler[T],
        namespace: str | None = None,
        fields: str | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Informer[T]:
        """Read a kind, or what is in one namespace, or what the field selector picks; who is told, if anybody."""
        informer = self._informers.of(kind, namespace=namespace, fields=fields)
        for name, function in (indexes or {}).items():
            informer.index(name, function)
        self._lines.setdefault(informer, _Line()).handlers.extend(handlers)
        return informer

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up with the API, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer, line in self._lines.items():
                tasks.create_task(self._follow(informer, line), name=f"reader of {informer.kind.kind}")

    async def synced(self) -> None:
        """Wait until everything that exists was seen; of kinds that are not installed, there are none."""
        for informer, line in self._lines.items():
            looks = 0
            while not line.fresh.is_set() and not (line.asked and _is_missing(informer)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await line.fresh.wait()
                looks += 1
                if looks % _LOOKS_UNTIL_TOLD == 0:
                    log.warning("kind not listed yet", extra={"kind": informer.kind.kind, "err": str(informer.failure)})

    async def _follow(self, informer: Informer[Any], line: _Line) -> None:
        informer.refresh(line.fresh)
        line.asked = True
        unsubscribe = informer.subscribe(partial(self._learner.dispatch, partial(self._tell, line)))
        try:
            await self._informers.run_while_used(informer)
        finally:
            unsubscribe()

    def _tell(self, line: _Line, change: Change[Any]) -> None:
        try:
            for handler in line.handlers:
                handler(change)
        finally:
            self._after_event()

    # --- news that waits ----------------------------------------------------------------------------------------------

    @property
    def has_delivered_all(self) -> bool:
        """Whether no news waits."""
        return self._learner.has_delivered_all

    @contextmanager
    def paused(self) -> Iterator[None]:
        """News waits until this ends."""
        with self._learner.paused():
            yield


class _Line:
    """One informer: who is told, whether it was asked for everything, and whether that has come."""

    def __init__(self) -> None:
        self.handlers: list[Handler[Any]] = []
        self.asked = False
        self.fresh = asyncio.Event()


def _is_missing(informer: Informer[Any]) -> bool:
    return informer.kind in OPTIONAL_KINDS and isinstance(informer.failure, NotFound)
