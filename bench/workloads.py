"""Nodes and pods for the scheduler's benchmarks: a large cluster with room, and pods of one kind in several classes.

Goes in: a kind of constraint, how many equivalence classes of pods, how many nodes. Comes out: typed objects, decoded
from documents as an informer decodes them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restow.model.objects import Document, Node, Pod

ZONE, HOST_NAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 6
KINDS = {
    "plain": "plain",
    "apart": "required anti-affinity, host name",
    "spread": "hard spread, zone",
    "together": "required affinity, zone",
}
PREFERENCES = {
    "evenly": "soft spread, zone",
    "near": "preferred affinity, zone",
    "elsewhere": "preferred anti-affinity, host name",
}


def node_document(number: int) -> Document:
    name = f"node-{number:05d}"
    room = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    labels = {HOST_NAME: name, ZONE: f"zone-{number % ZONES}", "node.kubernetes.io/instance-type": f"m{number % 4}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def pod_document(
    kind: str, number: int, classes: int, *, in_turns: bool = False, scheduler: str = "restow"
) -> Document:
    """The number-th pod to arrive; one of each class after the other. Two thousand arrive in one second, and are
    then in the order of their names: by workload, as ReplicaSets name them, unless classes take turns there, too."""
    own = number % classes
    labels = {"app": f"{kind}-{own:03d}", "tier": "bench"}
    requests = {"cpu": f"{100 + own}m", "memory": "256Mi"}
    container = {"name": "main", "image": "registry.invalid/app:1", "resources": {"requests": requests}}
    name = f"{kind}-{number:06d}" if in_turns else f"{labels['app']}-6d5f7c9b8d-{number:06d}"
    created = f"2026-11-16T08:{number // 120_000:02d}:{number // 2000 % 60:02d}Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "bench",
            "uid": f"uid-{name}",
            "labels": labels,
            "creationTimestamp": created,
        },
        "spec": {"containers": [container], "schedulerName": scheduler, **_constraint(kind, labels["app"])},
    }


def nodes(count: int) -> Iterator[Node]:
    return (msgspec.convert(node_document(number), Node) for number in range(count))


def pods(kind: str, count: int, classes: int, *, in_turns: bool = False) -> list[Pod]:
    documents = (pod_document(kind, number, classes, in_turns=in_turns) for number in range(count))
    return [msgspec.convert(document, Pod) for document in documents]


def _constraint(kind: str, app: str) -> Document:
    alike = {"matchLabels": {"app": app}}
    match kind:
        case "plain":
            return {}
        case "apart":
            return {"affinity": {"podAntiAffinity": _required(alike, HOST_NAME)}}
        case "together":
            return {"affinity": {"podAffinity": _required(alike, ZONE)}}
        case "spread" | "evenly":
            action = "DoNotSchedule" if kind == "spread" else "ScheduleAnyway"
            constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action}
            return {"topologySpreadConstraints": [constraint | {"labelSelector": alike}]}
        case "near":
            return {"affinity": {"podAffinity": _preferred(alike, ZONE)}}
        case "elsewhere":
            return {"affinity": {"podAntiAffinity": _preferred(alike, HOST_NAME)}}
    raise ValueError(kind)


def _required(selector: Document, key: str) -> Document:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": key}]}


def _preferred(selector: Document, key: str) -> Document:
    term = {"weight": 100, "podAffinityTerm": {"labelSelector": selector, "topologyKey": key}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
