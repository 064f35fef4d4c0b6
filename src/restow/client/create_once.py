"""Creating things whose names say which they are: whoever creates one twice has it once.

Goes in: a document with a name. Comes out: the object. Where nobody knows whether an attempt took effect, one more is
made, and what is there by then is what was made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, TypeVar

from restow.client.verbs import Client
from restow.model.kinds import Kind
from restow.ports import AlreadyExists, ApiError, NotFound, OutcomeUnknown, TooManyRequests

T = TypeVar("T")

TRIES: Final = 3
PAUSE: Final = 1.0
"""Seconds between two of them."""


async def create_once(
    client: Client, kind: Kind[T], document: Mapping[str, Any], *, tries: int | None = TRIES, adopt: bool = True
) -> T:
    """Create an object; one that was there before is the same one, or AlreadyExists where it is not to be adopted.
    Without `tries` it goes on until it is known. Raises ApiError; OutcomeUnknown where it may be there or not."""
    doubt: OutcomeUnknown | None = None
    for attempt in count(1):
        problem: ApiError
        try:
            return await _created(client, kind, document, adopt=adopt or doubt is not None)
        except OutcomeUnknown as error:
            doubt = problem = error
        except TooManyRequests:
            if doubt is None:
                raise
            problem = doubt
        except _JustGone as error:
            problem = error
        if attempt == tries:
            raise problem
        await asyncio.sleep(PAUSE)
    raise AssertionError("the last attempt returns or raises")


class _JustGone(AlreadyExists):
    """It was there, and is not any more."""


async def _created(client: Client, kind: Kind[T], document: Mapping[str, Any], *, adopt: bool) -> T:
    try:
        return await client.create(kind, document)
    except AlreadyExists as error:
        if not adopt:
            raise
        meta = document["metadata"]
        with suppress(NotFound):
            return await client.get(kind, meta["name"], meta.get("namespace"))
        raise _JustGone(error.status) from error
