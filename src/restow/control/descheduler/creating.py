"""Creating things whose names say which they are: whoever writes one twice writes it once."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from restow.client.verbs import Client
from restow.control.descheduler.settings import Settings
from restow.model.kinds import Kind
from restow.model.objects import Document
from restow.ports import AlreadyExists, NotFound, OutcomeUnknown

T = TypeVar("T")


async def create_once(client: Client, kind: Kind[T], document: Document, settings: Settings) -> T:
    """Create an object; one that is there already is the same one. Raises ApiError."""
    meta = document["metadata"]
    for attempt in range(1, settings.tries + 1):
        try:
            return await client.create(kind, document)
        except AlreadyExists:
            try:
                return await client.get(kind, meta["name"], meta.get("namespace"))
            except NotFound:  # it has just gone
                if attempt == settings.tries:
                    raise
        except OutcomeUnknown:
            if attempt == settings.tries:
                raise
            await asyncio.sleep(settings.try_again)
    raise AssertionError("the last attempt returns or raises")
