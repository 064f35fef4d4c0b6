"""Pods, their owners and their budgets, in as few words as a test needs."""

from __future__ import annotations

from typing import Any

from msgspec import convert

from restow.model.objects import Deployment, Pod, PodDisruptionBudget, ReplicaSet


def pod(name: str = "web-1", *, owner: str = "ReplicaSet web-rs", ready: bool = True, **more: Any) -> Pod:
    """A ready pod of a ReplicaSet on a node; `more` are members of metadata, spec or status, wherever they belong."""
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}}
    kind, _, owner_name = owner.partition(" ")
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": owner_name, "controller": True}
        ]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    document: dict[str, Any] = {"metadata": metadata, "spec": {"nodeName": "n1", "schedulerName": "restow"}}
    document["status"] = status
    for key, value in more.items():
        document[_HOMES.get(key, "spec")][key] = value
    return convert(document, Pod)


_HOMES = {
    **dict.fromkeys(("namespace", "labels", "annotations", "deletionTimestamp", "uid", "finalizers"), "metadata"),
    **dict.fromkeys(("phase", "startTime", "qosClass", "conditions"), "status"),
}


def deployment(name: str = "web", replicas: int = 3) -> Deployment:
    document = {"metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": {"replicas": replicas}}
    return convert(document, Deployment)


def replica_set(name: str = "web-rs", of: str | None = "web", replicas: int = 3) -> ReplicaSet:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name}
    if of:
        metadata["ownerReferences"] = [{"kind": "Deployment", "name": of, "uid": of, "controller": True}]
    return convert({"metadata": metadata, "spec": {"replicas": replicas}}, ReplicaSet)


def pdb(name: str = "web", *, allowed: int = 1, app: str = "web", **status: Any) -> PodDisruptionBudget:
    """A budget for the pods of an app; its controller has caught up."""
    told = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "observedGeneration": 1, **status}
    document = {
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": told,
    }
    return convert(document, PodDisruptionBudget)
