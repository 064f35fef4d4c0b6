"""An embedded cluster to test: short words for calls, documents in and out, and builders for the objects they need."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from restow.adapters.memory import MemoryApi, ServerSettings
from restow.adapters.memory.server import DEFAULTS
from restow.model.objects import Document
from restow.ports import (
    JSON,
    Request,
    Resource,
    Verb,
)

RESOURCES = {
    plural: Resource(group, version, plural)
    for group, version, plurals in (
        ("", "v1", "pods nodes namespaces events configmaps secrets services persistentvolumeclaims bindings"),
        ("", "v1", "replicationcontrollers podtemplates"),
        ("apps", "v1", "deployments replicasets statefulsets daemonsets"),
        ("policy", "v1", "poddisruptionbudgets"),
        ("coordination.k8s.io", "v1", "leases"),
        ("scheduling.k8s.io", "v1", "priorityclasses"),
        ("storage.k8s.io", "v1", "storageclasses"),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews subjectaccessreviews"),
        ("authentication.k8s.io", "v1", "selfsubjectreviews tokenreviews"),
    )
    for plural in plurals.split()
}
CLUSTER_SCOPED = {
    *("nodes", "namespaces", "priorityclasses", "storageclasses", "customresourcedefinitions"),
    *("selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectreviews", "tokenreviews"),
}


class SetClock:
    """A wall clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> float:
        return self.seconds


class Cluster:
    def __init__(self, settings: ServerSettings = DEFAULTS, **wiring: Any) -> None:
        self.clock = SetClock()
        self.api = MemoryApi(self.clock, random.Random(1), settings, **wiring)

    def request(
        self,
        verb: Verb,
        resource: str | Resource,
        name: str | None = None,
        body: Document | bytes = b"",
        *,
        namespace: str | None = "default",
        sub: str | None = None,
        content_type: str = JSON,
        **query: str,
    ) -> Request:
        return Request(
            verb=verb,
            resource=RESOURCES[resource] if isinstance(resource, str) else resource,
            namespace=None if resource in CLUSTER_SCOPED else namespace,
            name=name,
            subresource=sub,
            query={key.rstrip("_"): value for key, value in query.items()},
            content_type=content_type,
            body=body if isinstance(body, bytes) else json.dumps(body).encode(),
        )

    async def call(self, verb: Verb, resource: str | Resource, *args: Any, **options: Any) -> Document:
        response = await self.api.call(self.request(verb, resource, *args, **options))
        document: Document = json.loads(response.body)
        return document

    async def create(self, resource: str | Resource, body: Document, **options: Any) -> Document:
        return await self.call("create", resource, None, body, **options)

    async def get(self, resource: str | Resource, name: str, **options: Any) -> Document:
        return await self.call("get", resource, name, **options)

    async def names(self, resource: str | Resource, **options: Any) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.call("list", resource, **options))["items"]]

    async def delete(
        self, resource: str | Resource, name: str, body: Document | bytes = b"", **options: Any
    ) -> Document:
        return await self.call("delete", resource, name, body, **options)

    async def bind(self, name: str, node: str = "n1") -> None:
        await self.call("create", "pods", name, {"metadata": {"name": name}, "target": {"name": node}}, sub="binding")

    async def set_status(self, resource: str, name: str, status: Document) -> Document:
        body = {**await self.get(resource, name), "status": status}
        return await self.call("replace", resource, name, body, sub="status")

    async def events(self, resource: str | Resource, **options: Any) -> AsyncGenerator[Document, None]:
        stream: Any = self.api.watch(self.request("watch", resource, **options))
        async with aclosing(stream) as frames:
            async for frame in frames:
                yield json.loads(frame)


async def collect(events: AsyncGenerator[Document, None], count: int) -> list[Document]:
    """The first few events; the stream is closed behind them."""
    listed = []
    async with aclosing(events) as stream:
        async for event in stream:
            listed.append(event)
            if len(listed) == count:
                break
    return listed


def told(events: list[Document]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def pod(name: str = "a", **metadata: Any) -> Document:
    spec = metadata.pop("spec", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "img"}], **spec},
    }


def config_map(name: str = "a", **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def owner(document: Document, *, block: bool = False) -> Document:
    reference = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
    }
    return reference | ({"blockOwnerDeletion": True} if block else {})


def budget(name: str = "b", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels or {"app": "web"}}, **spec},
    }


def definition(plural: str = "widgets", group: str = "example.com", **version: Any) -> Document:
    """A CustomResourceDefinition of kind Widget with a single version, which may be changed."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    **version,
                }
            ],
        },
    }


WIDGETS = Resource("example.com", "v1", "widgets")


def widget(name: str = "w", **parts: Any) -> Document:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **parts}


def deployment() -> Document:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod()["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
