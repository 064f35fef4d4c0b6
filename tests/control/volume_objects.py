"""Volumes, volume claims and storage classes, and pods that use them."""

from __future__ import annotations

from typing import Any

from restow.model.objects import Document
from tests.sim.simulated_cluster import pod

LOCAL_STORAGE_CLASS = {
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}

STORAGE_CLASS = {"metadata": {"name": "fast"}, "provisioner": "sim/disk", "volumeBindingMode": "WaitForFirstConsumer"}
VOLUME_CLAIM = {
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
POD_VOLUMES = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]


def local_volume(name: str, on: str, size: str = "10Gi") -> Document:
    here = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}},
        },
    }


def volume_claim(name: str, of: str = "local", mode: str = "ReadWriteOnce", size: str = "1Gi") -> Document:
    spec = {"accessModes": [mode], "storageClassName": of, "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod_with_claims(name: str, *claims: str, **spec: Any) -> Document:
    volumes = [{"name": f"v-{one}", "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, volumes=volumes, **spec)
