"""Documents to try on two API servers: a few good ones, and what becomes of each when one field is set or removed.

A case is `base`, a JSON pointer into it, and the value to put there (`ABSENT` removes the field).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.conformance.documents import budget, config_map, container, lease, pod, workload
from tests.conformance.server import Document

ABSENT = object()
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

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _node_affinity(**term: Any) -> Document:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def _expression(key: str, operator: str, *values: str) -> Document:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _pod_affinity(**term: Any) -> Document:
    return {"podAntiAffinity": {REQUIRED: [term]}}


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

CONTAINER = "/spec/containers/0"
RESOURCES = f"{CONTAINER}/resources"

POD: list[tuple[str, Any]] = [
    ("/spec/containers", []),
    ("/spec/containers", ABSENT),
    ("/spec/containers", "text"),
    ("/spec/containers", [container("a"), container("a")]),
    ("/spec/containers", [container("a"), container("b")]),
    (f"{CONTAINER}/name", ABSENT),
    (f"{CONTAINER}/name", "x" * 64),
    (f"{CONTAINER}/image", ""),
    (f"{CONTAINER}/image", " app"),
    (f"{CONTAINER}/image", "app"),
    (f"{CONTAINER}/image", "app:latest"),
    (f"{CONTAINER}/image", "host:5000/app"),
    (f"{CONTAINER}/image", "app@sha256:" + "a" * 64),
    (f"{CONTAINER}/imagePullPolicy", "Sometimes"),
    (f"{CONTAINER}/imagePullPolicy", "Never"),
    (f"{CONTAINER}/command", ["sh", "-c", "true"]),
    (f"{CONTAINER}/command", "sh"),
    (f"{CONTAINER}/env", [{"name": "A", "value": "1"}]),
    (f"{CONTAINER}/env", [{"name": "", "value": "1"}]),
    (f"{CONTAINER}/env", [{"name": "A=B", "value": "1"}]),
    (f"{CONTAINER}/env", [{"name": "A", "value": 1}]),
    (f"{CONTAINER}/env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    (f"{CONTAINER}/env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}]),
    (f"{CONTAINER}/env", [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    (f"{CONTAINER}/ports", [{"containerPort": 80}]),
    (f"{CONTAINER}/ports", [{"containerPort": 0}]),
    (f"{CONTAINER}/ports", [{"containerPort": 80, "protocol": "tcp"}]),
    (f"{CONTAINER}/ports", [{"containerPort": 80, "name": "UPPER"}]),
    (f"{CONTAINER}/ports", [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
    (f"{CONTAINER}/ports", [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]),
    (f"{CONTAINER}/ports", [{"containerPort": 80, "hostIP": "nowhere"}]),
    (f"{RESOURCES}", {"requests": {"cpu": "100m", "memory": "64Mi"}}),
    (f"{RESOURCES}", {"limits": {"cpu": "1", "memory": "1Gi"}}),
    (f"{RESOURCES}", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    (f"{RESOURCES}", {"requests": {"cpu": "-1"}}),
    (f"{RESOURCES}", {"requests": {"cpu": "1.5"}}),
    (f"{RESOURCES}", {"requests": {"cpu": 1.5}}),
    (f"{RESOURCES}", {"requests": {"cpu": "0.0001"}}),
    (f"{RESOURCES}", {"requests": {"cpu": "1e3", "memory": "1E"}}),
    (f"{RESOURCES}", {"requests": {"cpu": "12e-4"}}),
    (f"{RESOURCES}", {"requests": {"memory": "1.5Gi"}}),
    (f"{RESOURCES}", {"requests": {"memory": "100m"}}),
    (f"{RESOURCES}", {"requests": {"memory": "128974848000m"}}),
    (f"{RESOURCES}", {"requests": {"memory": "1024Ki"}}),
    (f"{RESOURCES}", {"requests": {"memory": "1000k"}}),
    (f"{RESOURCES}", {"requests": {"memory": "9999999999999999999"}}),
    (f"{RESOURCES}", {"requests": {"cpu": "2c"}}),
    (f"{RESOURCES}", {"requests": {"cpu": ""}}),
    (f"{RESOURCES}", {"requests": {"cpu": " 1"}}),
    (f"{RESOURCES}", {"requests": {"cpu": None}}),
    (f"{RESOURCES}", {"requests": {"cpu": True}}),
    (f"{RESOURCES}", {"requests": {"gpu": "1"}}),
    (f"{RESOURCES}", {"requests": {"example.com/gpu": "1"}}),
    (f"{RESOURCES}", {"limits": {"example.com/gpu": "1"}}),
    (f"{RESOURCES}", {"limits": {"example.com/gpu": "1.5"}}),
    (f"{RESOURCES}", {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}),
    (f"{RESOURCES}", {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1", "memory": "1Gi"}}),
    (f"{RESOURCES}", {"limits": {"hugepages-2Mi": "4Mi"}}),
    (f"{RESOURCES}", {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "2Gi"}}),
    (f"{RESOURCES}", {"requests": {"storage": "1Gi"}}),
    (f"{RESOURCES}", {"requests": {"kubernetes.io/thing": "1"}}),
    (f"{RESOURCES}", "text"),
    (f"{CONTAINER}/livenessProbe", {"tcpSocket": {"port": 80}}),
    (f"{CONTAINER}/livenessProbe", {"httpGet": {"port": "http"}, "periodSeconds": -1}),
    (f"{CONTAINER}/livenessProbe", {}),
    (f"{CONTAINER}/readinessProbe", {"exec": {"command": ["true"]}, "successThreshold": 3}),
    (f"{CONTAINER}/livenessProbe", {"exec": {"command": ["true"]}, "successThreshold": 3}),
    (f"{CONTAINER}/volumeMounts", [{"name": "nowhere", "mountPath": "/x"}]),
    (f"{CONTAINER}/terminationMessagePolicy", "Perhaps"),
    (f"{CONTAINER}/securityContext", {"privileged": True}),
    (f"{CONTAINER}/securityContext", {"runAsUser": -1}),
    (f"{CONTAINER}/restartPolicy", "Always"),
    (f"{CONTAINER}/imagee", "typo"),
    ("/spec/initContainers", [container("init")]),
    ("/spec/initContainers", [container("main")]),
    ("/spec/initContainers", [container("side", restartPolicy="Always")]),
    ("/spec/initContainers", [container("side", restartPolicy="Sometimes")]),
    ("/spec/initContainers", [container("init", readinessProbe={"exec": {"command": ["true"]}})]),
    ("/spec/ephemeralContainers", [container("debug")]),
    ("/spec/restartPolicy", "Never"),
    ("/spec/restartPolicy", "never"),
    ("/spec/nodeName", "some-node"),
    ("/spec/nodeName", "Bad Node"),
    ("/spec/schedulerName", ""),
    ("/spec/schedulerName", "Bad Name"),
    ("/spec/nodeSelector", {"a": "b"}),
    ("/spec/nodeSelector", {"bad key": "b"}),
    ("/spec/nodeSelector", {"a": 1}),
    ("/spec/terminationGracePeriodSeconds", 0),
    ("/spec/terminationGracePeriodSeconds", -1),
    ("/spec/terminationGracePeriodSeconds", "30"),
    ("/spec/activeDeadlineSeconds", 0),
    ("/spec/activeDeadlineSeconds", 60),
    ("/spec/dnsPolicy", "Whatever"),
    ("/spec/dnsPolicy", "None"),
    ("/spec/hostNetwork", True),
    ("/spec/hostPID", True),
    ("/spec/hostname", "Bad_Name"),
    ("/spec/hostname", "host"),
    ("/spec/subdomain", "sub"),
    ("/spec/serviceAccountName", "someone"),
    ("/spec/serviceAccount", "someone"),
    ("/spec/automountServiceAccountToken", False),
    ("/spec/priorityClassName", "nobody"),
    ("/spec/priorityClassName", "system-cluster-critical"),
    ("/spec/priority", 5),
    ("/spec/priority", 0),
    ("/spec/preemptionPolicy", "Never"),
    ("/spec/preemptionPolicy", "Perhaps"),
    ("/spec/enableServiceLinks", False),
    ("/spec/imagePullSecrets", [{"name": "x"}]),
    ("/spec/readinessGates", [{"conditionType": "example.com/ready"}]),
    ("/spec/readinessGates", [{"conditionType": "not a type"}]),
    ("/spec/schedulingGates", [{"name": "example.com/wait"}]),
    ("/spec/schedulingGates", [{"name": "a"}, {"name": "a"}]),
    ("/spec/schedulingGates", [{"name": "bad gate"}]),
    ("/spec/os", {"name": "linux"}),
    ("/spec/os", {"name": "beos"}),
    ("/spec/resources", {"requests": {"cpu": "1"}}),
    ("/spec/resources", {"limits": {"cpu": "1", "memory": "1Gi"}}),
    ("/spec/resources", {"requests": {"example.com/gpu": "1"}}),
    ("/spec/tolerations", [{"operator": "Exists"}]),
    ("/spec/tolerations", [{"key": "a"}]),
    ("/spec/tolerations", [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]),
    ("/spec/tolerations", [{"key": "a", "operator": "Exists", "value": "b"}]),
    ("/spec/tolerations", [{"key": "a", "operator": "Perhaps"}]),
    ("/spec/tolerations", [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
    ("/spec/tolerations", [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}]),
    ("/spec/tolerations", [{"key": "a", "effect": "Perhaps"}]),
    ("/spec/tolerations", [{"value": "b"}]),
    ("/spec/tolerations", [{"key": "bad key", "operator": "Exists"}]),
    ("/spec/tolerations", [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]),
    ("/spec/affinity", {}),
    ("/spec/affinity", _node_affinity(**_expression("a", "In", "b"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "In"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "Exists", "b"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "Gt", "5"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "Gt", "5", "6"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "Gt", "five"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "Near", "b"))),
    ("/spec/affinity", _node_affinity(**_expression("bad key", "In", "b"))),
    ("/spec/affinity", _node_affinity(**_expression("a", "In", "bad value!"))),
    ("/spec/affinity", _node_affinity()),
    ("/spec/affinity", _node_affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])),
    ("/spec/affinity", _node_affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}])),
    ("/spec/affinity", _node_affinity(matchFields=[{"key": "spec.name", "operator": "In", "values": ["n"]}])),
    ("/spec/affinity", _node_affinity(matchFields=[{"key": "metadata.name", "operator": "Exists"}])),
    ("/spec/affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
    (
        "/spec/affinity",
        {"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": _expression("a", "In", "b")}]}},
    ),
    ("/spec/affinity", {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}),
    ("/spec/affinity", _pod_affinity(topologyKey="zone", labelSelector={"matchLabels": {"a": "b"}})),
    ("/spec/affinity", _pod_affinity(labelSelector={"matchLabels": {"a": "b"}})),
    ("/spec/affinity", _pod_affinity(topologyKey="bad key", labelSelector={})),
    ("/spec/affinity", _pod_affinity(topologyKey="zone", labelSelector={"matchLabels": {"a": "bad value!"}})),
    ("/spec/affinity", _pod_affinity(topologyKey="zone", labelSelector=_expression("a", "Near", "b"))),
    ("/spec/affinity", _pod_affinity(topologyKey="zone", labelSelector=_expression("a", "In"))),
    ("/spec/affinity", _pod_affinity(topologyKey="zone", namespaces=["Bad_Name"])),
    ("/spec/affinity", _pod_affinity(topologyKey="zone", labelSelector={}, matchLabelKeys=["a"])),
    (
        "/spec/affinity",
        {"podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}}]}},
    ),
    (
        "/spec/topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}],
    ),
    (
        "/spec/topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}],
    ),
    ("/spec/topologySpreadConstraints", [{"maxSkew": -1, "topologyKey": "", "whenUnsatisfiable": "No"}]),
    ("/spec/topologySpreadConstraints", 2 * [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
    ("/spec/volumes", [{"name": "v"}]),
    ("/spec/volumes", [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]),
    ("/spec/volumes", [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    ("/spec/volumes", [{"name": "v"}, {"name": "v"}]),
    ("/spec/volumes", [{"name": "Bad_Name"}]),
    ("/spec/volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
    ("/spec/volumes", [{"name": "v", "persistentVolumeClaim": {}}]),
    ("/spec/volumes", [{"name": "v", "hostPath": {"path": ""}}]),
    ("/spec/volumes", [{"name": "v", "configMap": {"name": "c"}}]),
    ("/spec/volumes", [{"name": "v", "configMap": {}}]),
    ("/spec/volumes", [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}]),
    (
        "/spec/volumes",
        [{"name": "v", "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}}],
    ),
    (
        "/spec/volumes",
        [
            {
                "name": "v",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    }
                },
            }
        ],
    ),
    ("/spec/resourceClaims", [{"name": "gpu", "resourceClaimName": "x"}]),
    ("/spec/resourceClaims", [{"name": "gpu"}]),
    ("/spec/securityContext", {"runAsNonRoot": True, "fsGroup": 5}),
    ("/spec/hostAliases", [{"ip": "nowhere"}]),
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
            {"required": {"nodeSelectorTerms": [_expression("a", "In", "b")]}},
        ),
        ("/spec/nodeAffinity", {"required": {"nodeSelectorTerms": [_expression("a", "Near", "b")]}}),
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
