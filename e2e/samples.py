"""Documents to try on two API servers: a few good ones, and what becomes of each when one field is set or removed.

A case is `base`, a JSON pointer into it, and the value to put there (`ABSENT` removes the field).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from e2e.pod_samples import ABSENT, POD, expression
from restow.model.objects import Document
from tests.conformance.documents import budget, config_map, container, lease, pod, workload

LONG = "x" * 300
NAMESPACE = "differential"  # where all of it lives


def _job() -> Document:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}}


def _node() -> Document:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/gpu": "4"}
    spec = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-x"}, "spec": spec, "status": status}


def _claim() -> Document:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": spec}


def _volume() -> Document:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume"}, "spec": spec}


def _storage_class() -> Document:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return {**kind, "metadata": {"name": "fast"}, "provisioner": "example.com/disk"}


def _priority() -> Document:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": "important"}, "value": 1000}


def _service() -> Document:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "None"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": spec}


def _event() -> Document:
    involved = {"kind": "Pod", "name": "a", "namespace": NAMESPACE}
    document = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "event"}, "involvedObject": involved}
    return {**document, "reason": "Because", "type": "Normal", "firstTimestamp": "2026-01-01T00:00:00Z"}


def _namespace() -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space"}}


def _secret() -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "data": {"a": "eA=="}}


BASES: dict[str, tuple[str, Document]] = {
    "pod": ("pods", pod("pod")),
    "deployment": ("deployments", workload("Deployment", "web")),
    "replicaset": ("replicasets", workload("ReplicaSet", "web")),
    "statefulset": ("statefulsets", workload("StatefulSet", "web")),
    "daemonset": ("daemonsets", workload("DaemonSet", "web")),
    "job": ("jobs", _job()),
    "node": ("nodes", _node()),
    "configmap": ("configmaps", config_map()),
    "secret": ("secrets", _secret()),
    "service": ("services", _service()),
    "namespace": ("namespaces", _namespace()),
    "claim": ("persistentvolumeclaims", _claim()),
    "volume": ("persistentvolumes", _volume()),
    "storageclass": ("storageclasses", _storage_class()),
    "budget": ("poddisruptionbudgets", budget("keep", {"app": "web"}, minAvailable=1)),
    "lease": ("leases", lease("lock", holderIdentity="me", leaseDurationSeconds=15)),
    "priorityclass": ("priorityclasses", _priority()),
    "event": ("events", _event()),
}

# The same mistakes in the metadata of everything.
METADATA: list[tuple[str, Any]] = [
    ("/metadata/name", "Upper"),
    ("/metadata/name", "with.dots"),
    ("/metadata/name", "x" * 64),
    ("/metadata/name", LONG),
    ("/metadata/name", "-dash"),
    ("/metadata/name", ""),
    ("/metadata/name", 5),
    ("/metadata/generateName", "Upper-"),
    ("/metadata/labels", {"a": "1", "example.com/b": "2"}),
    ("/metadata/labels", {"a": 1}),
    ("/metadata/labels", {"bad key": "1"}),
    ("/metadata/labels", {"/": "1"}),
    ("/metadata/labels", {"a": "-"}),
    ("/metadata/labels", None),
    ("/metadata/annotations", {"a": "any text at all"}),
    ("/metadata/annotations", {"UPPER.example.com/B": "x"}),
    ("/metadata/annotations", {"bad key": "x"}),
    ("/metadata/annotations", {"big": "x" * (256 * 1024)}),
    ("/metadata/finalizers", ["example.com/x"]),
    ("/metadata/finalizers", ["x y"]),
    ("/metadata/namespace", "Upper"),
    ("/metadata/uid", "anything"),
    ("/metadata/creationTimestamp", None),
    ("/metadata/creationTimestamp", "yesterday"),
    ("/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}]),
    ("/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]),
    (
        "/metadata/ownerReferences",
        [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in ("x", "y")],
    ),
    ("/unknown", 1),
    ("/spec", None),
    ("/spec", "text"),
    ("/status", {"unknown": 1}),
    ("/kind", ABSENT),
    ("/apiVersion", "v9"),
]

TEMPLATED: list[tuple[str, Any]] = [
    ("/spec/selector", ABSENT),
    ("/spec/selector", {}),
    ("/spec/selector", {"matchLabels": {"app": "other"}}),
    ("/spec/selector", {"matchLabels": {"app": "bad value!"}}),
    ("/spec/selector", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
    ("/spec/selector", {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}),
    ("/spec/template", ABSENT),
    ("/spec/template/metadata", ABSENT),
    ("/spec/template/metadata/labels", {"app": "web", "bad key": "x"}),
    ("/spec/template/spec/containers", []),
    ("/spec/template/spec/containers/0/image", ABSENT),
    ("/spec/template/spec/containers/0/resources", {"requests": {"cpu": "x"}}),
    ("/spec/template/spec/containers/0/resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    ("/spec/template/spec/restartPolicy", "OnFailure"),
    ("/spec/template/spec/activeDeadlineSeconds", 5),
    ("/spec/template/spec/schedulerName", ABSENT),
    ("/spec/template/spec/volumes", [{"name": "v", "emptyDir": {}}]),
    ("/spec/minReadySeconds", 5),
    ("/spec/minReadySeconds", -1),
    ("/spec/revisionHistoryLimit", 3),
    ("/spec/revisionHistoryLimit", -1),
    ("/spec/unknown", 1),
]

REPLICATED: list[tuple[str, Any]] = [
    ("/spec/replicas", ABSENT),
    ("/spec/replicas", -1),
    ("/spec/replicas", 3),
    ("/spec/replicas", "3"),
    ("/spec/replicas", 1.5),
    ("/spec/replicas", 2**40),
]

OWN: dict[str, list[tuple[str, Any]]] = {
    "pod": POD,
    "deployment": [
        *TEMPLATED,
        *REPLICATED,
        ("/spec/strategy", {"type": "Recreate"}),
        ("/spec/strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        ("/spec/strategy", {"type": "Sideways"}),
        ("/spec/strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        ("/spec/strategy", {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 1}}),
        ("/spec/strategy", {"rollingUpdate": {"maxSurge": "half"}}),
        ("/spec/strategy", {"rollingUpdate": {"maxUnavailable": "200%"}}),
        ("/spec/progressDeadlineSeconds", 5),
        ("/spec/progressDeadlineSeconds", -5),
        ("/spec/paused", True),
    ],
    "replicaset": [*TEMPLATED, *REPLICATED],
    "statefulset": [
        *TEMPLATED,
        *REPLICATED,
        ("/spec/serviceName", ABSENT),
        ("/spec/podManagementPolicy", "Parallel"),
        ("/spec/podManagementPolicy", "Sideways"),
        ("/spec/updateStrategy", {"type": "OnDelete"}),
        ("/spec/updateStrategy", {"type": "Sideways"}),
        ("/spec/updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}),
        ("/spec/ordinals", {"start": 5}),
        ("/spec/volumeClaimTemplates", [{"metadata": {"name": "data"}, "spec": _claim()["spec"]}]),
    ],
    "daemonset": [
        *TEMPLATED,
        ("/spec/updateStrategy", {"type": "OnDelete"}),
        ("/spec/updateStrategy", {"type": "Sideways"}),
        ("/spec/updateStrategy", {"rollingUpdate": {"maxUnavailable": 2}}),
        ("/spec/updateStrategy", {"rollingUpdate": {"maxUnavailable": 0}}),
    ],
    "job": [
        ("/spec/parallelism", 3),
        ("/spec/parallelism", -1),
        ("/spec/completions", 3),
        ("/spec/completions", -1),
        ("/spec/completionMode", "Indexed"),
        ("/spec/completionMode", "Sideways"),
        ("/spec/backoffLimit", 0),
        ("/spec/backoffLimit", -1),
        ("/spec/activeDeadlineSeconds", 5),
        ("/spec/ttlSecondsAfterFinished", 5),
        ("/spec/ttlSecondsAfterFinished", -5),
        ("/spec/suspend", True),
        ("/spec/selector", {"matchLabels": {"a": "b"}}),
        ("/spec/manualSelector", True),
        ("/spec/template/spec/restartPolicy", "Always"),
        ("/spec/template/spec/restartPolicy", ABSENT),
        ("/spec/template/spec/restartPolicy", "OnFailure"),
        ("/spec/template", ABSENT),
    ],
    "node": [
        ("/spec/taints", [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
        ("/spec/taints", [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]),
        ("/spec/taints", [{"key": "a"}]),
        ("/spec/taints", [{"effect": "NoSchedule"}]),
        ("/spec/taints", [{"key": "bad key", "effect": "NoSchedule"}]),
        ("/spec/taints", [{"key": "a", "value": "bad value!", "effect": "NoSchedule"}]),
        ("/spec/unschedulable", True),
        ("/spec/podCIDR", "10.0.0.0/24"),
        ("/spec/providerID", "x"),
        ("/status/capacity", {"cpu": "x"}),
        ("/status/capacity", {"cpu": "-1"}),
        ("/status/capacity", {"cpu": "8"}),
        ("/status/allocatable", {"cpu": "7500m"}),
        ("/status/allocatable", {"example.com/gpu": "1.5"}),
        ("/status/conditions", [{"type": "Ready", "status": "True"}]),
    ],
    "configmap": [
        ("/data", {"a": 1}),
        ("/data", {"bad key!": "x"}),
        ("/data", None),
        ("/binaryData", {"b": "eA=="}),
        ("/binaryData", {"b": "not base64!"}),
        ("/binaryData", {"a": "eA=="}),
        ("/immutable", True),
        ("/data", {"a": "x" * (1024 * 1024)}),
    ],
    "secret": [
        ("/data", {"a": "not base64!"}),
        ("/stringData", {"b": "x"}),
        ("/type", "kubernetes.io/basic-auth"),
        ("/type", "kubernetes.io/dockerconfigjson"),
        ("/immutable", True),
    ],
    "service": [
        ("/spec/ports", []),
        ("/spec/ports", [{"port": 0}]),
        ("/spec/ports", [{"port": 80}, {"port": 81}]),
        ("/spec/ports", [{"port": 80, "name": "a", "targetPort": "web"}, {"port": 81, "name": "b"}]),
        ("/spec/type", "Sideways"),
        ("/spec/sessionAffinity", "ClientIP"),
    ],
    "namespace": [("/spec/finalizers", ["example.com/x"]), ("/spec/finalizers", ["x"])],
    "claim": [
        ("/spec/accessModes", []),
        ("/spec/accessModes", ["Sometimes"]),
        ("/spec/accessModes", ["ReadWriteOncePod"]),
        ("/spec/accessModes", ["ReadWriteOncePod", "ReadWriteOnce"]),
        ("/spec/resources", ABSENT),
        ("/spec/resources", {"requests": {"storage": "0"}}),
        ("/spec/resources", {"requests": {"storage": "-1"}}),
        ("/spec/storageClassName", ""),
        ("/spec/storageClassName", "fast"),
        ("/spec/volumeMode", "Block"),
        ("/spec/volumeMode", "Sideways"),
        ("/spec/volumeName", "v"),
        ("/spec/selector", {"matchLabels": {"a": "b"}}),
    ],
    "volume": [
        ("/spec/accessModes", []),
        ("/spec/capacity", ABSENT),
        ("/spec/hostPath", ABSENT),
        ("/spec/persistentVolumeReclaimPolicy", "Delete"),
        ("/spec/persistentVolumeReclaimPolicy", "Sideways"),
        ("/spec/storageClassName", "fast"),
        ("/spec/claimRef", {"namespace": "default", "name": "c"}),
        (
            "/spec/nodeAffinity",
            {"required": {"nodeSelectorTerms": [expression("a", "In", "b")]}},
        ),
        ("/spec/nodeAffinity", {"required": {"nodeSelectorTerms": [expression("a", "Near", "b")]}}),
    ],
    "storageclass": [
        ("/provisioner", ABSENT),
        ("/reclaimPolicy", "Retain"),
        ("/reclaimPolicy", "Sideways"),
        ("/volumeBindingMode", "WaitForFirstConsumer"),
        ("/volumeBindingMode", "Sideways"),
        ("/allowVolumeExpansion", True),
    ],
    "budget": [
        ("/spec", {}),
        ("/spec/minAvailable", 0),
        ("/spec/minAvailable", "50%"),
        ("/spec/minAvailable", "50"),
        ("/spec/minAvailable", "150%"),
        ("/spec/minAvailable", -1),
        ("/spec/maxUnavailable", 1),
        ("/spec/selector", {"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        ("/spec/selector", {}),
        ("/spec/selector", ABSENT),
        ("/spec/unhealthyPodEvictionPolicy", "AlwaysAllow"),
        ("/spec/unhealthyPodEvictionPolicy", "Sideways"),
    ],
    "lease": [
        ("/spec/leaseDurationSeconds", 0),
        ("/spec/leaseTransitions", -1),
        ("/spec/renewTime", "2026-01-01T00:00:00.000000Z"),
        ("/spec/renewTime", "2026-01-01T00:00:00Z"),
        ("/spec/renewTime", "now"),
        ("/spec/holderIdentity", ""),
    ],
    "priorityclass": [
        ("/value", 2_000_000_001),
        ("/value", ABSENT),
        ("/globalDefault", True),
        ("/preemptionPolicy", "Never"),
        ("/preemptionPolicy", "Sideways"),
        ("/metadata/name", "system-mine"),
    ],
    "event": [
        ("/involvedObject/namespace", "other"),
        ("/involvedObject", ABSENT),
        ("/type", "Sideways"),
        ("/count", 3),
    ],
}


def cases(base: str) -> Iterator[tuple[str, Document]]:
    """The variants of one base: what was changed, in words, and the document."""
    document = BASES[base][1]
    yield "as it is", copy.deepcopy(document)
    for number, (pointer, value) in enumerate((*METADATA, *OWN[base])):
        yield f"{pointer} {_shown(value)} ({number})", changed(document, pointer, value)


def changed(document: Document, pointer: str, value: Any) -> Document:
    result: Any = copy.deepcopy(document)
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    place = result
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    if value is ABSENT:
        place.pop(last, None)
    else:
        place[int(last) if isinstance(place, list) else last] = copy.deepcopy(value)
    assert isinstance(result, dict)
    return result


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else repr(value)[:60].replace("::", ":")
