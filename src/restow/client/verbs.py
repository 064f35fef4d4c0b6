"""Typed verbs over the Api port: what every part of Restow uses to read and change a cluster.

In go kinds (`model.kinds`), names and documents; out come typed objects. Reads are decoded straight from the server's
bytes into Structs that hold only the fields we use. Writes take whole documents or patches (mappings), so nothing we
do not know about an object is ever dropped. Failures are the `ports.ApiError` tree; a reply that is not what its kind
promises is a `model.wire.WireError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from restow.client.requests import (
    Propagation,
    Selector,
    complete,
    delete_options,
    dry,
    guarded,
    namespace_of,
    query_of,
    resource_of,
    selector_text,
)
from restow.client.responses import Unreadable, read_page, read_status, unreadable_of
from restow.model.kinds import POD, Kind
from restow.model.objects import Document, MetadataOnly, ObjectList
from restow.model.wire import WireError, decode
from restow.ports import JSON, MERGE_PATCH, Api, ApiError, Gone, Request, Verb

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change seen by a watch. A BOOKMARK's object carries nothing but `metadata`."""

    type: EventType
    object: T


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """The objects of a list, and the version at which the list was true."""

    items: list[T]
    resource_version: str


class _RawEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Client:
    """Typed verbs over one Api. `manager` is the field manager that every write is recorded under."""

    def __init__(self, api: Api, *, manager: str = "restow") -> None:
        self.api = api
        self.manager = manager

    # ---- reading

    async def get(
        self, kind: Kind[T], name: str, namespace: str | None = None, *, resource_version: str | None = None
    ) -> T:
        return decode(kind.type, await self._get(kind, name, namespace, resource_version), f"{kind.kind} {name}")

    async def get_document(
        self, kind: Kind[Any], name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> Document:
        return decode(Document, await self._get(kind, name, namespace, None, subresource), f"{kind.kind} {name}")

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        fields: Selector = None,
        limit: int = 500,
    ) -> Listing[T]:
        """Every matching object, as fresh as a write, read in pages. If the list expires half-way it is read again,
        whole: a single page cannot expire."""
        try:
            return await self._gather(kind, namespace, fields, limit)
        except Gone:
            if not limit:
                raise
            return await self._gather(kind, namespace, fields, 0)

    async def pages(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        fields: Selector = None,
        limit: int = 500,
        unreadable: Callable[[Unreadable], None] | None = None,
    ) -> AsyncGenerator[ObjectList[T], None]:
        """The pages of one list; raises Gone when the server forgets it half-way.

        `unreadable` is told of objects that cannot be decoded, which are then left out; without it they are an error.
        """
        query = query_of(fieldSelector=selector_text(fields), limit=limit or None)
        token: str | None = None
        while True:
            request = Request(
                verb="list",
                resource=resource_of(kind),
                namespace=namespace,
                query=query | query_of(**{"continue": token}),
            )
            page = read_page(kind.type, (await self.api.call(request)).body, f"list of {kind.kind}", unreadable)
            yield page
            token = page.metadata.continue_ or None
            if token is None:
                return

    async def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        fields: Selector = None,
        resource_version: str | None = None,
        initial_events: bool = False,
        timeout_seconds: int | None = None,
        unreadable: Callable[[Unreadable], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after `resource_version`; with `initial_events`, first the present state as ADDED events, closed by
        a BOOKMARK annotated INITIAL_EVENTS_END. An ERROR event is raised as the ApiError of its Status.
        `unreadable` as in `pages`."""
        request = Request(
            verb="watch",
            resource=resource_of(kind),
            namespace=namespace,
            query=query_of(
                fieldSelector=selector_text(fields),
                resourceVersion=resource_version,
                resourceVersionMatch="NotOlderThan" if initial_events else None,
                sendInitialEvents=initial_events,
                allowWatchBookmarks=True,
                timeoutSeconds=timeout_seconds,
            ),
        )
        what = f"watch event of {kind.kind}"
        async with _closing(self.api.watch(request)) as lines:
            async for line in lines:
                raw = decode(_RawEvent, line, what)
                if raw.type == "ERROR":
                    raise ApiError.of(read_status(bytes(raw.object), 500))
                form = kind.type if raw.type != "BOOKMARK" else cast("type[T]", MetadataOnly)
                try:
                    item = decode(form, raw.object, what)
                except WireError as error:
                    if unreadable is None:
                        raise
                    unreadable(unreadable_of(raw.object, error))
                    continue
                yield WatchEvent(cast(EventType, raw.type), item)

    # ---- writing

    async def create(
        self, kind: Kind[T], document: Mapping[str, Any], namespace: str | None = None, *, dry_run: bool = False
    ) -> T:
        document = complete(kind, document)
        body = await self._write(
            "create",
            kind,
            namespace or namespace_of(document),
            body=document,
            query=query_of(fieldManager=self.manager, dryRun=dry(dry_run)),
        )
        return decode(kind.type, body, kind.kind)

    async def replace(self, kind: Kind[T], document: Mapping[str, Any]) -> T:
        """Put a whole document, as `get_document` gave it; its resourceVersion guards against lost updates."""
        document = complete(kind, document)
        body = await self._write(
            "replace",
            kind,
            namespace_of(document),
            document["metadata"]["name"],
            body=document,
            query=query_of(fieldManager=self.manager),
        )
        return decode(kind.type, body, kind.kind)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        type: str = MERGE_PATCH,
        subresource: str | None = None,
        dry_run: bool = False,
        resource_version: str | None = None,
    ) -> T:
        """Change part of an object. With `resource_version` it is a Conflict if the object has moved on since."""
        body = await self._write(
            "patch",
            kind,
            namespace,
            name,
            subresource,
            body=guarded(patch, type, resource_version),
            content_type=type,
            query=query_of(fieldManager=self.manager, dryRun=dry(dry_run)),
        )
        return decode(kind.type, body, f"{kind.kind} {name}")

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"} | delete_options(
            uid, resource_version, grace_seconds, propagation
        )
        if dry_run:  # in the body: a server that finds one there does not look at the query, and would really delete
            options["dryRun"] = ["All"]
        await self._write("delete", kind, namespace, name, body=options, query=query_of(dryRun=dry(dry_run)))

    async def bind(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Bind this very pod to a node; `annotations` land on the pod in the same write."""
        metadata: Document = {"name": name, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        query = query_of(fieldManager=self.manager)
        await self._write("create", POD, namespace, name, "binding", body=binding, query=query)

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for this very pod to leave, through its disruption budgets. TooManyRequests means a budget said no."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": delete_options(uid, None, grace_seconds, propagation),
        }
        query = query_of(fieldManager=self.manager, dryRun=dry(dry_run))
        await self._write("create", POD, namespace, name, "eviction", body=eviction, query=query)

    # ---- the port

    async def _get(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str | None,
        resource_version: str | None,
        subresource: str | None = None,
    ) -> bytes:
        request = Request(
            verb="get",
            resource=resource_of(kind),
            namespace=namespace,
            name=name,
            subresource=subresource,
            query=query_of(resourceVersion=resource_version),
        )
        return (await self.api.call(request)).body

    async def _write(
        self,
        verb: Verb,
        kind: Kind[Any],
        namespace: str | None,
        name: str | None = None,
        subresource: str | None = None,
        *,
        body: Any,
        query: Mapping[str, str],
        content_type: str = JSON,
    ) -> bytes:
        request = Request(
            verb=verb,
            resource=resource_of(kind),
            namespace=namespace if kind.namespaced else None,
            name=name,
            subresource=subresource,
            query=query,
            content_type=content_type,
            body=msgspec.json.encode(body),
        )
        return (await self.api.call(request)).body

    async def _gather(self, kind: Kind[T], namespace: str | None, fields: Selector, limit: int) -> Listing[T]:
        items: list[T] = []
        version = ""
        async with aclosing(self.pages(kind, namespace, fields=fields, limit=limit)) as pages:
            async for page in pages:
                items.extend(page.items or ())
                version = page.metadata.resource_version or version
        return Listing(items, version)


@asynccontextmanager
async def _closing(stream: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close a stream when leaving, if it is of the kind that can be closed."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
