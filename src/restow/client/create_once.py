"""Creates an object exactly once, although the answer to a create may be lost.

The name must identify the object, so that an existing object of that name is the one that was meant. If the outcome of
a try is unknown, it is tried again; AlreadyExists then means that the first try took effect.
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

MAX_TRIES: Final = 3
RETRY_SECONDS: Final = 1.0
"""Seconds between two tries."""


async def create_once(
    client: Client, kind: Kind[T], document: Mapping[str, Any], *, tries: int | None = MAX_TRIES, adopt: bool = True
) -> T:
    """Create an object and return it. With `adopt`, an existing object of the name is returned, else raises
    AlreadyExists. With `tries` None, tries until the outcome is known. Raises ApiError; OutcomeUnknown if the object
    may exist."""
    unknown: OutcomeUnknown | None = None
    for attempt in count(1):
        problem: ApiError
        try:
            return await _create_or_get(client, kind, document, adopt=adopt or unknown is not None)
        except OutcomeUnknown as error:
            unknown = problem = error
        except TooManyRequests:
            # Nothing was written by this try. But after an unknown outcome, an earlier one may have been.
            if unknown is None:
                raise
            problem = unknown
        except _JustDeleted as error:
            problem = error
        if attempt == tries:
            raise problem
        await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError("the last attempt returns or raises")


class _JustDeleted(AlreadyExists):
    """The object existed at the create, and not any more at the read."""


async def _create_or_get(client: Client, kind: Kind[T], document: Mapping[str, Any], *, adopt: bool) -> T:
    try:
        return await client.create(kind, document)
    except AlreadyExists as error:
        if not adopt:
            raise
        meta = document["metadata"]
        with suppress(NotFound):
            return await client.get(kind, meta["name"], meta.get("namespace"))
        raise _JustDeleted(error.status) from error
