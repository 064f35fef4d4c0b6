"""What is behind kubectl: a server that is changed behind its back, and what is written to it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from restow.adapters.memory import MemoryApi
from restow.ports import MERGE_PATCH, ApiError, Request, Resource

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
METRICS = {"timestamp": "2026-01-31T12:00:00Z", "window": "30s"}
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1", env: [{name: A, value: "1"}]}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1', b: '2'}\n"


def measured(plural: str) -> list[dict[str, Any]]:
    usage = {"cpu": "250m", "memory": "1Gi"}
    if plural == "nodes":
        return [{"metadata": {"name": "n1"}, **METRICS, "usage": usage}]
    containers = [{"name": "main", "usage": usage}]
    return [{"metadata": {"name": "p", "namespace": "default"}, **METRICS, "containers": containers}]


class Cluster:
    """An embedded API server and short ways to change it behind kubectl's back."""

    def __init__(self, api: MemoryApi) -> None:
        self.api = api

    async def create(
        self, resource: Resource, document: dict[str, Any], namespace: str | None = None
    ) -> dict[str, Any]:
        body = msgspec.json.encode(document)
        response = await self.api.call(Request(verb="create", resource=resource, namespace=namespace, body=body))
        return msgspec.json.decode(response.body, type=dict[str, Any])

    async def status(self, resource: Resource, name: str, status: dict[str, Any], namespace: str | None = None) -> None:
        await self.api.call(
            Request(
                verb="patch",
                resource=resource,
                namespace=namespace,
                name=name,
                subresource="status",
                content_type=MERGE_PATCH,
                body=msgspec.json.encode({"status": status}),
            )
        )

    async def node(self, name: str) -> None:
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await self.create(NODES, {"metadata": {"name": name}, "status": status})

    async def pod(self, name: str, **spec: Any) -> None:
        """A pod of a ReplicaSet of the same name: kubectl drains only pods with a controller."""
        labels = {"app": name}
        containers = [{"name": "main", "image": "nginx"}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        replicas = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        owner = await self.create(REPLICA_SETS, {"metadata": {"name": name}, "spec": replicas}, "default")
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
        metadata = {
            "name": name,
            "labels": labels,
            "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
        }
        await self.create(PODS, {"metadata": metadata, "spec": {"containers": containers, **spec}}, "default")

    async def run_kubelet(self) -> None:
        """Bound pods become Ready; deleted ones go away."""
        async for frame in self.api.watch(Request(verb="watch", resource=PODS)):
            event = msgspec.json.decode(frame)
            pod = event["object"]
            if event["type"] == "DELETED":
                continue
            with suppress(ApiError):
                if "deletionTimestamp" in pod["metadata"]:
                    await self._remove(pod)
                elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    ready = {"type": "Ready", "status": "True"}
                    running = {"name": "main", "ready": True, "state": {"running": {}}, "restartCount": 0}
                    recorded = {
                        "phase": "Running",
                        "conditions": [ready],
                        "containerStatuses": [running | {"image": "i", "imageID": ""}],
                    }
                    await self.status(PODS, pod["metadata"]["name"], recorded, pod["metadata"]["namespace"])

    async def _remove(self, pod: dict[str, Any]) -> None:
        at_once = msgspec.json.encode({"gracePeriodSeconds": 0})
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        await self.api.call(Request(verb="delete", resource=PODS, namespace=namespace, name=name, body=at_once))


def columns(text: str) -> list[list[str]]:
    """The cells of printed tables; cells are two or more spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
