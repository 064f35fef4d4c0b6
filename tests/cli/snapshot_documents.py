"""Documents for snapshot files, and reading the documents that a command printed."""

from __future__ import annotations

from typing import Any

from restow.model.yaml_text import load_documents

QUEUE, GROUP = "scheduling.volcano.sh/queue-name", "scheduling.k8s.io/group-name"

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


def node(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "restow", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "spec": spec}


def running_replica(name: str, cpu: str, on: str, **spec: Any) -> dict[str, Any]:
    document = pod(name, cpu, nodeName=on, **spec)
    document["metadata"]["ownerReferences"] = [OWNER]
    document["status"] = {"phase": "Running"}
    return document


def labelled(document: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], **metadata}}


def documents_in(printed: str) -> list[Any]:
    """Parse YAML documents, with the C parser, because definitions are large."""
    return [document for _, document in load_documents(printed)]
