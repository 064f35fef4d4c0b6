"""How the conformance tests speak: verbs over a `ports.Api` that take and give JSON documents.

Deliberately independent of `restow.client`, so that a bug there cannot hide one in an API server. A resource is named
by its plural; namespaced ones live in the test's own namespace unless the call says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from restow.model.objects import Document
from restow.ports import APPLY_PATCH, JSON, Api, NotFound, OutcomeUnknown, Request, Resource, TooManyRequests, Verb

Names = list[str]  # the class below has a verb of that name

CORE = ("pods", "configmaps", "services", "serviceaccounts", "events", "secrets", "persistentvolumeclaims")
CLUSTER = ("namespaces", "nodes", "persistentvolumes")
GROUPS = {
    "apps/v1": ("deployments", "replicasets", "statefulsets", "daemonsets"),
    "batch/v1": ("jobs",),
    "policy/v1": ("poddisruptionbudgets",),
    "coordination.k8s.io/v1": ("leases",),
    "events.k8s.io/v1": ("events.events.k8s.io",),
    "scheduling.k8s.io/v1": ("priorityclasses",),
    "storage.k8s.io/v1": ("storageclasses",),
    "apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "authentication.k8s.io/v1": ("tokenreviews",),
    "networking.k8s.io/v1": ("ingresses", "ingressclasses", "networkpolicies"),
    "discovery.k8s.io/v1": ("endpointslices",),
    "autoscaling/v2": ("horizontalpodautoscalers",),
    "node.k8s.io/v1": ("runtimeclasses",),
}
CLUSTER_SCOPED = {
    *CLUSTER,
    *("priorityclasses", "storageclasses", "customresourcedefinitions", "tokenreviews"),
    *("ingressclasses", "runtimeclasses"),
}
WAIT_SECONDS = 20.0


def _resources() -> dict[str, Resource]:
    resources = {plural: Resource("", "v1", plural) for plural in (*CORE, *CLUSTER)}
    for api_version, plurals in GROUPS.items():
        group, version = api_version.split("/")
        resources |= {plural: Resource(group, version, plural.split(".")[0]) for plural in plurals}
    return resources


class Server:
    """An API server under test, seen from one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._resources = _resources()
        self._cluster_scoped = set(CLUSTER_SCOPED)

    async def learn(self, definition: Document) -> str:
        """Wait until a custom resource is served; from then on it goes by the name of its definition."""
        spec = definition["spec"]
        name: str = definition["metadata"]["name"]
        self._resources[name] = Resource(spec["group"], spec["versions"][0]["name"], spec["names"]["plural"])
        if spec["scope"] == "Cluster":
            self._cluster_scoped.add(name)

        async def served() -> bool:
            try:
                await self.list(name)
            except (NotFound, TooManyRequests, OutcomeUnknown):  # unknown, or its storage is being set up
                return False
            return True

        await eventually(served, f"{name} is served")
        return name

    def request(
        self,
        verb: Verb,
        plural: str,
        name: str | None = None,
        body: Document | list[Any] | bytes | None = None,
        *,
        sub: str | None = None,
        content_type: str = JSON,
        namespace: str | None = None,
        **query: str,
    ) -> Request:
        if body is None:
            body = b""
        return Request(
            verb=verb,
            resource=self._resources[plural],
            namespace=None if plural in self._cluster_scoped else (namespace or self.namespace),
            name=name,
            subresource=sub,
            query=query,
            content_type=content_type,
            body=body if isinstance(body, bytes) else msgspec.json.encode(body),
        )

    async def call(self, *args: Any, **kwargs: Any) -> Document:
        response = await self.api.call(self.request(*args, **kwargs))
        document: Document = msgspec.json.decode(response.body)
        return document

    async def create(self, plural: str, body: Document | bytes, **kwargs: Any) -> Document:
        return await self.call("create", plural, kwargs.pop("name", None), body, **kwargs)

    async def get(self, plural: str, name: str, **kwargs: Any) -> Document:
        return await self.call("get", plural, name, **kwargs)

    async def list(self, plural: str, **kwargs: Any) -> Document:
        return await self.call("list", plural, **kwargs)

    async def names(self, plural: str, **kwargs: Any) -> Names:
        return [item["metadata"]["name"] for item in (await self.list(plural, **kwargs))["items"]]

    async def replace(self, plural: str, body: Document, **kwargs: Any) -> Document:
        return await self.call("replace", plural, kwargs.pop("name", body["metadata"]["name"]), body, **kwargs)

    async def patch(self, plural: str, name: str, content_type: str, body: Any, **kwargs: Any) -> Document:
        return await self.call("patch", plural, name, body, content_type=content_type, **kwargs)

    async def apply(self, plural: str, body: Document, manager: str, **kwargs: Any) -> Document:
        name = body["metadata"]["name"]
        return await self.call("patch", plural, name, body, content_type=APPLY_PATCH, fieldManager=manager, **kwargs)

    async def delete(self, plural: str, name: str, options: Document | None = None, **kwargs: Any) -> Document:
        return await self.call("delete", plural, name, options, **kwargs)

    @asynccontextmanager
    async def watch(self, plural: str, **kwargs: Any) -> AsyncIterator[Events]:
        stream = self.api.watch(self.request("watch", plural, **kwargs))
        events = Events(stream)
        try:
            yield events
        finally:
            await events.close()


class Events:
    """A watch, read one event at a time and never waited for without limit.

    A reader task pulls from the stream, so that giving up on one event does not break the stream itself.
    """

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._queue: asyncio.Queue[Document | BaseException | None] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read(stream))

    async def _read(self, stream: AsyncIterator[bytes]) -> None:
        try:
            async for line in stream:
                self._queue.put_nowait(msgspec.json.decode(line))
            self._queue.put_nowait(None)
        except Exception as error:
            self._queue.put_nowait(error)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def next(self, seconds: float = WAIT_SECONDS) -> Document:
        event = await self._take(seconds)
        assert event is not None, "the stream ended"
        return event

    async def ended(self, seconds: float = WAIT_SECONDS) -> list[Document]:
        """Everything until the server ends the stream."""
        seen = []
        while (event := await self._take(seconds)) is not None:
            seen.append(event)
        return seen

    async def until(self, wanted: Callable[[Document], bool], seconds: float = WAIT_SECONDS) -> list[Document]:
        """Everything up to and with the first event that is wanted."""
        seen = [await self.next(seconds)]
        while not wanted(seen[-1]):
            seen.append(await self.next(seconds))
        return seen

    async def silent(self, seconds: float = 0.5) -> bool:
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False

    async def _take(self, seconds: float) -> Document | None:
        async with asyncio.timeout(seconds):
            item = await self._queue.get()
        if isinstance(item, BaseException):
            raise item
        return item

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


async def eventually(check: Callable[[], Awaitable[bool]], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait for what controllers do in their own time."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if await check():
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:.0f} s: {what}") from None
