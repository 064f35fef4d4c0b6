"""Typed verbs over the Api port: every part of Restow reads and changes a cluster with this client.

Takes kinds (`model.kinds`), names and documents, returns typed objects. Reads are decoded straight from the server's
bytes into Structs that have only the fields that Restow uses. Writes take whole documents or patches as mappings, so
that unknown fields of an object are never dropped. Failures are the `ports.ApiError` tree; a response that does not fit
its kind is a `model.wire.WireError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

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
from restow.model.wire import WireError, decode_object
from restow.ports import JSON, MERGE_PATCH, Api, ApiError, Gone, Request, Verb

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch. The object of a BOOKMARK has only `metadata`."""

    type: EventType
    object: T


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """The objects of a list, and the resourceVersion of the list."""

    items: list[T]
    resource_version: str


class _RawEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Target(NamedTuple):
    """The object, collection or subresource that a write is sent to."""

    namespace: str | None
    name: str | None = None
    subresource: str | None = None


class Client:
    """Typed verbs over one Api. `manager` is the field manager that every write is recorded under."""

    def __init__(self, api: Api, *, manager: str = "restow") -> None:
        self.api = api
        self.manager = manager

    # ---- reading

    async def get(
        self, kind: Kind[T], name: str, namespace: str | None = None, *, resource_version: str | None = None
    ) -> T:
        return decode_object(kind.type, await self._get(kind, name, namespace, resource_version), f"{kind.kind} {name}")

    async def get_document(
        self, kind: Kind[Any], name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> Document:
        return decode_object(Document, await self._get(kind, name, namespace, None, subresource), f"{kind.kind} {name}")

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        fields: Selector = None,
        limit: int = 500,
    ) -> Listing[T]:
        """Every matching object, from a consistent list in pages. If the list expires half-way, it is read again in one
        piece, which cannot expire."""
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
        """The pages of one list. Raises Gone if the list expires half-way.

        `unreadable` is called for objects that cannot be decoded, which are then left out; without it they are an
        error.
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
        """Events after `resource_version`. With `initial_events`, first the present state as ADDED events, then a
        BOOKMARK with the annotation INITIAL_EVENTS_END. An ERROR event is raised as the ApiError of its Status.
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
                raw = decode_object(_RawEvent, line, what)
                if raw.type == "ERROR":
                    raise ApiError.of(read_status(bytes(raw.object), 500))
                form = kind.type if raw.type != "BOOKMARK" else cast("type[T]", MetadataOnly)
                try:
                    item = decode_object(form, raw.object, what)
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
            _Target(namespace or namespace_of(document)),
            body=document,
            query=query_of(fieldManager=self.manager, dryRun=dry(dry_run)),
        )
        return decode_object(kind.type, body, kind.kind)

    async def replace(self, kind: Kind[T], document: Mapping[str, Any]) -> T:
        """Write a whole document, as `get_document` returned it; its resourceVersion prevents lost updates."""
        document = complete(kind, document)
        body = await self._write(
            "replace",
            kind,
            _Target(namespace_of(document), document["metadata"]["name"]),
            body=document,
            query=query_of(fieldManager=self.manager),
        )
        return decode_object(kind.type, body, kind.kind)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        type: str = MERGE_PATCH,
        subresource: str | None = None,
        resource_version: str | None = None,
    ) -> T:
        """Change part of an object. With `resource_version`, raises Conflict if the object has changed since."""
        body = await self._write(
            "patch",
            kind,
            _Target(namespace, name, subresource),
            body=guarded(patch, type, resource_version),
            content_type=type,
            query=query_of(fieldManager=self.manager),
        )
        return decode_object(kind.type, body, f"{kind.kind} {name}")

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
    ) -> None:
        """Delete an object. With `uid` or `resource_version`, raises Conflict if it is another one now."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"} | delete_options(
            uid, resource_version, grace_seconds, propagation
        )
        await self._write("delete", kind, _Target(namespace, name), body=options, query={})

    async def bind(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Bind the pod with this UID to a node; `annotations` are copied to the pod in the same write."""
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
        await self._write("create", POD, _Target(namespace, name, "binding"), body=binding, query=query)

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
        """Evict the pod with this UID. TooManyRequests means that a PodDisruptionBudget does not allow it."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": delete_options(uid, None, grace_seconds, propagation),
        }
        query = query_of(fieldManager=self.manager, dryRun=dry(dry_run))
        await self._write("create", POD, _Target(namespace, name, "eviction"), body=eviction, query=query)

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
        target: _Target,
        *,
        body: Any,
        query: Mapping[str, str],
        content_type: str = JSON,
    ) -> bytes:
        request = Request(
            verb=verb,
            resource=resource_of(kind),
            namespace=target.namespace if kind.namespaced else None,
            name=target.name,
            subresource=target.subresource,
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
    """Close a stream at the end of the context, if it has `aclose`."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
