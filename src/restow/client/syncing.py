"""Syncing: waiting until several informers have seen everything that exists once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final

from restow.client.informer import Informer
from restow.model.kinds import Kind
from restow.ports import NotFound

log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.2
_LOOKS_UNTIL_TOLD: Final = 50


async def all_synced(informers: Iterable[Informer[Any]], optional: Collection[Kind[Any]]) -> None:
    """Wait for them all; of optional kinds, which need not be installed, there may be none."""
    for informer in informers:
        looks = 0
        while not informer.is_synced and not _is_missing(informer, optional):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await informer.synced()
            looks += 1
            if looks % _LOOKS_UNTIL_TOLD == 0:
                log.warning("kind not listed yet", extra={"kind": informer.kind.kind, "err": str(informer.failure)})


def _is_missing(informer: Informer[Any], optional: Collection[Kind[Any]]) -> bool:
    return informer.kind in optional and isinstance(informer.failure, NotFound)
