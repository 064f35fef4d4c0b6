"""Lists a live cluster once: every object that scheduling and planning depend on.

Goes in: a client. Comes out: documents, page by page, for `restow snapshot`; or an inventory of typed objects, as if
they had been read from a snapshot file. A kind that is not installed has no objects. Core kinds, such as nodes, exist
in every cluster: if one of them cannot be listed, that is an error.
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
"""Kinds that a separate API server serves, if one is installed and works."""
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
"""Called with a kind and the number of its objects that were read so far."""
Warn = Callable[[str], None]


class CannotList(Exception):
    """A kind that is needed cannot be listed; the message says which kind, and why."""


async def capture_documents(client: Client, list_progress: ListProgress, warn: Warn) -> AsyncGenerator[Document, None]:
    """Every object as kubectl prints it, without managedFields. Raises CannotList."""
    for kind in CAPTURED_KINDS:
        with _handling_list_errors(kind, warn):
            async with aclosing(_pages(client, kind.whole, list_progress)) as pages:
                async for page in pages:
                    for item in page:
                        item["metadata"].pop("managedFields", None)
                        yield {"apiVersion": kind.api_version, "kind": kind.kind, **item}


async def capture_inventory(client: Client, list_progress: ListProgress, warn: Warn) -> Inventory:
    """Every object, with the fields that Restow reads. Raises CannotList."""
    objects: dict[Kind[Any], list[Any]] = {}
    for kind in CAPTURED_KINDS:
        with _handling_list_errors(kind, warn):
            async with aclosing(_pages(client, kind, list_progress)) as pages:
                async for page in pages:
                    objects.setdefault(kind, []).extend(page)
    return Inventory(objects, {})


async def _pages(client: Client, kind: Kind[T], list_progress: ListProgress) -> AsyncGenerator[list[T], None]:
    """The pages of a list."""
    seen: set[tuple[str, str]] = set()
    try:
        async with aclosing(client.pages(kind)) as pages:
            async for page in pages:
                items = page.items or []
                seen.update(map(_name_of, items))
                list_progress(kind, len(seen))
                yield items
    except Gone:
        # The continue token has expired: the server has compacted that resourceVersion. A list without a limit needs
        # no token; from it come only the objects that no page has had.
        missing = [item for item in (await client.list(kind, limit=0)).items if _name_of(item) not in seen]
        list_progress(kind, len(seen) + len(missing))
        yield missing


def _name_of(item: Any) -> tuple[str, str]:
    """Namespace and name of a document or of a typed object."""
    if isinstance(item, dict):
        return item["metadata"].get("namespace", ""), item["metadata"]["name"]
    return item.metadata.namespace or "", item.metadata.name


@contextmanager
def _handling_list_errors(kind: Kind[Any], warn: Warn) -> Iterator[None]:
    """While a kind is listed: ignore that it is not installed, warn if it can be done without, raise CannotList
    otherwise."""
    try:
        yield
    except NotKubernetes:
        raise
    except (ApiError, WireError) as error:
        if kind.group and isinstance(error, NotFound):
            return
        if not _can_do_without(kind, error):
            raise CannotList(f"cannot list {kind.qualified_name}: {error}") from error
        warn(f"cannot list {kind.qualified_name}, assuming there are none: {error}")


def _can_do_without(kind: Kind[Any], error: Exception) -> bool:
    """Whether a kind that cannot be listed is taken to have no objects."""
    # An API server answers NotFound for a kind that is not installed only to clients with the right to list it. All
    # others get Forbidden, so Forbidden says nothing about a kind that need not be installed.
    return kind in METRICS_KINDS or (kind in OPTIONAL_KINDS and isinstance(error, Forbidden))
