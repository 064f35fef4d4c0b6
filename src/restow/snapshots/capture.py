"""The living cluster, looked at once: every object that answers depend on.

Goes in: a client. Comes out: documents, page by page, for `restow snapshot`; or typed objects, all of them, as if they
had been read from a snapshot file. Kinds that are not installed have no objects; core kinds, such as nodes, are
everywhere.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

from restow.client.verbs import Client
from restow.model.inventory import Inventory
from restow.model.kinds import (
    NAMESPACE,
    NODE,
    NODE_METRICS,
    OPTIONAL_KINDS,
    OWNERS,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_METRICS,
    PRIORITY_CLASS,
    STORAGE,
    Kind,
)
from restow.model.objects import Document
from restow.model.wire import WireError
from restow.ports import ApiError, Forbidden, Gone, NotFound, NotKubernetes

T = TypeVar("T")

METRICS_KINDS: Sequence[Kind[Any]] = (NODE_METRICS, POD_METRICS)
"""What another server answers for, if there is one and it is well."""
CAPTURED_KINDS: Sequence[Kind[Any]] = (
    NAMESPACE,
    PRIORITY_CLASS,
    NODE,
    *STORAGE,
    *OWNERS,
    POD_DISRUPTION_BUDGET,
    *OPTIONAL_KINDS,
    POD,
    *METRICS_KINDS,
)

ListProgress = Callable[[Kind[Any], int], None]
"""Is told how many objects of a kind were read so far."""
Warn = Callable[[str], None]


class CannotList(Exception):
    """A kind that must be known cannot be listed; the message says which, and why."""


async def capture_documents(client: Client, heed: ListProgress, warn: Warn) -> AsyncGenerator[Document, None]:
    """Every object as kubectl would print it: whole, but for who manages which field."""
    for kind in CAPTURED_KINDS:
        with _answered(kind, warn):
            async with aclosing(_pages(client, kind.whole, heed)) as pages:
                async for page in pages:
                    for item in page:
                        item["metadata"].pop("managedFields", None)
                        yield {"apiVersion": kind.api_version, "kind": kind.kind, **item}


async def capture_inventory(client: Client, heed: ListProgress, warn: Warn) -> Inventory:
    """Every object as far as we read it. Raises CannotList."""
    objects: dict[Kind[Any], list[Any]] = {}
    for kind in CAPTURED_KINDS:
        with _answered(kind, warn):
            async with aclosing(_pages(client, kind, heed)) as pages:
                async for page in pages:
                    objects.setdefault(kind, []).extend(page)
    return Inventory(objects, {})


async def _pages(client: Client, kind: Kind[T], heed: ListProgress) -> AsyncGenerator[list[T], None]:
    """The pages of a list. If the server forgets it half-way it is read again, whole, for what was not read yet."""
    seen: set[tuple[str, str]] = set()
    try:
        async with aclosing(client.pages(kind)) as pages:
            async for page in pages:
                items = page.items or []
                seen.update(map(_name, items))
                heed(kind, len(seen))
                yield items
    except Gone:
        rest = [one for one in (await client.list(kind, limit=0)).items if _name(one) not in seen]
        heed(kind, len(seen) + len(rest))
        yield rest


def _name(item: Any) -> tuple[str, str]:
    if isinstance(item, dict):
        return item["metadata"].get("namespace", ""), item["metadata"]["name"]
    return item.metadata.namespace or "", item.metadata.name


@contextmanager
def _answered(kind: Kind[Any], warn: Warn) -> Iterator[None]:
    """A kind that does not exist has no objects; core kinds exist."""
    try:
        yield
    except NotKubernetes:
        raise
    except (ApiError, WireError) as problem:
        if kind.group and isinstance(problem, NotFound):
            return
        if not _can_do_without(kind, problem):
            raise CannotList(f"cannot list {kind.qualified_name}: {problem}") from problem
        warn(f"{kind.qualified_name} are taken for none: {problem}")


def _can_do_without(kind: Kind[Any], problem: Exception) -> bool:
    """Of a kind that need not exist, a server says only to those who may look that it does not; to all others it says
    that they may not."""
    return kind in METRICS_KINDS or (kind in OPTIONAL_KINDS and isinstance(problem, Forbidden))
