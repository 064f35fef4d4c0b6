"""Pods, their owners and their budgets, in as few words as a test needs."""

from __future__ import annotations

from typing import Any

from restow.model.objects import Deployment, Pod, PodDisruptionBudget, ReplicaSet
from restow.model.wire import convert


def pod(name: str = "web-1", *, owner: str = "ReplicaSet web-rs", ready: bool = True, **more: Any) -> Pod:
    """A ready pod of a ReplicaSet on a node; `more` are members of metadata, spec or status, wherever they belong."""
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}}
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
    return convert(Pod, document)


_HOMES = dict.fromkeys(("namespace", "labels", "annotations", "deletionTimestamp", "uid"), "metadata") | dict.fromkeys(
    ("phase", "startTime", "qosClass", "conditions"), "status"
)


def deployment(name: str = "web", replicas: int = 3) -> Deployment:
    return convert(
        Deployment,
        {"metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": {"replicas": replicas}},
    )


def replica_set(name: str = "web-rs", of: str | None = "web", replicas: int = 3) -> ReplicaSet:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name}
    if of:
        metadata["ownerReferences"] = [{"kind": "Deployment", "name": of, "uid": of, "controller": True}]
    return convert(ReplicaSet, {"metadata": metadata, "spec": {"replicas": replicas}})


def pdb(name: str = "web", *, allowed: int = 1, app: str = "web", **status: Any) -> PodDisruptionBudget:
    """A budget for the pods of an app, whose controller has caught up."""
    return convert(
        PodDisruptionBudget,
        {
            "metadata": {"name": name, "namespace": "shop", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {
                "disruptionsAllowed": allowed,
                "currentHealthy": 3,
                "desiredHealthy": 2,
                "observedGeneration": 1,
                **status,
            },
        },
    )
