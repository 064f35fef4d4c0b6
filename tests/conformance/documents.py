"""Small documents for the conformance tests; each builder gives the least a server accepts."""

from __future__ import annotations

from typing import Any

from restow.model.objects import Document

SCHEDULER = "restow-conformance"  # no scheduler has this name, so a real control plane leaves the pods pending
NODE = "restow-conformance-node"
IMAGE = "registry.invalid/app:1"


def metadata(name: str, **more: Any) -> Document:
    return {"name": name, **more}


def config_map(name: str = "settings", data: dict[str, str] | None = None, **meta: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name, **meta), "data": data or {"a": "1"}}


def container(name: str = "main", **more: Any) -> Document:
    return {"name": name, "image": IMAGE, **more}


def pod_spec(**spec: Any) -> Document:
    return {"schedulerName": SCHEDULER, "containers": [container()], **spec}


def pod(name: str = "pod", *, spec: Document | None = None, **meta: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, **meta), "spec": pod_spec(**(spec or {}))}


def workload(kind: str, name: str, *, spec: Document | None = None, **meta: Any) -> Document:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet without replicas, so that no controller makes pods."""
    base: Document = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
    }
    if kind != "DaemonSet":
        base["replicas"] = 0
    if kind == "StatefulSet":
        base["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata(name, **meta), "spec": {**base, **(spec or {})}}


def deployment(name: str = "web", **more: Any) -> Document:
    return workload("Deployment", name, **more)


def budget(name: str, labels: dict[str, str], **spec: Any) -> Document:
    selector = {"matchLabels": labels}
    kind = "PodDisruptionBudget"
    return {"apiVersion": "policy/v1", "kind": kind, "metadata": metadata(name), "spec": {"selector": selector, **spec}}


def binding(pod_name: str, node: str = NODE, **meta: Any) -> Document:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata(pod_name, **meta), "target": target}


def eviction(pod_name: str, options: Document | None = None) -> Document:
    document: Document = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata(pod_name)}
    return {**document, "deleteOptions": options} if options else document


def lease(name: str = "lock", **spec: Any) -> Document:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(name), "spec": spec}


def definition(
    group: str, schema: Document, *, kind: str = "Widget", scope: str = "Namespaced", **version: Any
) -> Document:
    """A CustomResourceDefinition of one version; `schema` is what stands beside metadata in the object."""
    plural = f"{kind.lower()}s"
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": schema}},
        **version,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata(f"{plural}.{group}"),
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served],
        },
    }
