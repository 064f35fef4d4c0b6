"""Pod documents of a realistic size (about 4.5 KB of JSON each), as a busy cluster's API server sends them."""

from __future__ import annotations

from typing import Any

import msgspec

ZONES = ("a", "b", "c")


def pod(index: int) -> dict[str, Any]:
    """The index-th pod: hundreds share a workload, each has its own name, node, address and times."""
    workload = f"service-{index % 400:03d}"
    namespace = f"team-{index % 40:02d}"
    name = f"{workload}-6d5f7c9b8d-{index:07d}"
    stamp = f"2026-10-{1 + index % 28:02d}T08:{index % 60:02d}:11Z"
    uid = f"00000000-0000-4000-8000-{index:012d}"
    container = _container(workload, index)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": f"{workload}-6d5f7c9b8d-",
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(1_000_000 + index),
            "creationTimestamp": stamp,
            "labels": {
                "app.kubernetes.io/name": workload,
                "app.kubernetes.io/part-of": f"product-{index % 12}",
                "pod-template-hash": "6d5f7c9b8d",
                "team": namespace,
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "8080",
                "checksum/config": f"{index % 400:064x}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{workload}-6d5f7c9b8d",
                    "uid": f"00000000-0000-4000-9000-{index % 400:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed_fields(stamp, "kube-controller-manager"), _managed_fields(stamp, "kubelet")],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{workload}-config", "defaultMode": 420}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": _token_sources()}},
            ],
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": workload,
            "serviceAccount": workload,
            "nodeName": f"node-{index % 5000:05d}",
            "securityContext": {},
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 100,
                            "podAffinityTerm": {
                                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": workload}},
                                "topologyKey": "topology.kubernetes.io/zone",
                            },
                        }
                    ]
                }
            },
            "schedulerName": "default-scheduler",
            "tolerations": [
                _toleration("node.kubernetes.io/not-ready"),
                _toleration("node.kubernetes.io/unreachable"),
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": _status(container, workload, index, stamp),
    }


def pod_list(count: int, start: int = 0, **metadata: str) -> bytes:
    """A PodList of `count` pods from `start` on, encoded."""
    document = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "2000000", **metadata},
        "items": [pod(index) for index in range(start, start + count)],
    }
    return msgspec.json.encode(document)


def _container(workload: str, index: int) -> dict[str, Any]:
    return {
        "name": workload,
        "image": f"registry.example.com/products/{workload}:v1.{index % 7}.0",
        "args": ["serve", "--config=/etc/config/service.yaml", "--log-format=json"],
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "ZONE", "value": ZONES[index % 3]},
        ],
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": f"{250 * (1 + index % 8)}m", "memory": "1Gi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _probe(path: str) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _toleration(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _token_sources() -> list[dict[str, Any]]:
    return [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]


def _managed_fields(stamp: str, manager: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": stamp,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:team": {}}, "f:ownerReferences": {}},
            "f:spec": {"f:containers": {}, "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}},
        },
    }


def _status(container: dict[str, Any], workload: str, index: int, stamp: str) -> dict[str, Any]:
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp} for kind in types
        ],
        "hostIP": "192.0.2.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": stamp,
        "containerStatuses": [
            {
                "name": workload,
                "state": {"running": {"startedAt": stamp}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "started": True,
                "image": container["image"],
                "imageID": f"registry.example.com/products/{workload}@sha256:{index % 400:064x}",
                "containerID": f"containerd://{index:064x}",
            }
        ],
        "qosClass": "Burstable",
    }
