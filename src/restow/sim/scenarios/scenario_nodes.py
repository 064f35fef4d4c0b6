"""The nodes of a scenario: shapes, zones, pools, labels and taints, as arrays for placing and as documents for writing.

Pools: `general`, `gpu` (tainted) and `batch` (dedicated, tainted). Allocatable is capacity less what a kubelet keeps
back.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from restow.model.objects import Document

Ints = npt.NDArray[np.int64]
"""Amounts of cpu, memory, pods and GPUs, in this order."""
Mask = npt.NDArray[np.bool_]

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
BATCH_TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}

Gi = 1024**3
_KEPT_BACK = {"cpu": 100, "memory": Gi // 2}  # milli-cores and bytes for the system


class Shape(msgspec.Struct, frozen=True):
    name: str
    cores: int
    memory: int  # GiB
    pods: int = 110
    gpus: int = 0


GENERAL = (
    Shape("std-8", 8, 32),
    Shape("std-16", 16, 64),
    Shape("std-32", 32, 128),
    Shape("cpu-16", 16, 32),
    Shape("mem-16", 16, 128),
    Shape("std-64", 64, 256, 250),
)
_GENERAL_WEIGHTS = (0.25, 0.35, 0.2, 0.08, 0.08, 0.04)
GPU = (Shape("gpu-4", 32, 256, gpus=4), Shape("gpu-8", 96, 768, gpus=8))
_GPU_WEIGHTS = (0.6, 0.4)


class ScenarioNodes:
    """All nodes: `allocatable` and `free` are [resources × nodes] integers in base units (milli-cores, bytes,
    counts)."""

    def __init__(self, size: int, zones: int, gpu_share: float, batch_share: float, rng: np.random.Generator) -> None:
        gpus = round(size * gpu_share)
        batch = round((size - gpus) * batch_share)
        self.pool = np.array(["gpu"] * gpus + ["batch"] * batch + ["general"] * (size - gpus - batch))
        rng.shuffle(self.pool)
        self._in_pool: dict[str, Mask] = {name: self.pool == name for name in ("general", "gpu", "batch")}
        general = rng.choice(len(GENERAL), size=size, p=_GENERAL_WEIGHTS)
        accelerated = rng.choice(len(GPU), size=size, p=_GPU_WEIGHTS)
        self.shapes = [
            GPU[accelerated[i]] if pool == "gpu" else GENERAL[general[i]] for i, pool in enumerate(self.pool)
        ]
        width = max(3, len(str(size - 1)))
        self.names = [f"node-{i:0{width}d}" for i in range(size)]
        self.zone: Ints = rng.permutation(np.arange(size, dtype=np.int64) % max(zones, 1))
        self.zones = max(zones, 1)
        self.ssd: Mask = rng.random(size) < 0.3
        self.allocatable: Ints = np.array([_allocatable(shape) for shape in self.shapes], dtype=np.int64).T.copy()
        self.free: Ints = self.allocatable.copy()

    def __len__(self) -> int:
        return len(self.names)

    def in_pool(self, pool: str) -> Mask:
        return self._in_pool[pool]

    def take(self, nodes: Ints, request: Ints) -> None:
        """Place one pod of this request on each of these (distinct) nodes."""
        self.free[:, nodes] -= request[:, None]

    def fits(self, request: Ints) -> Mask:
        mask: Mask = np.all(self.free >= request[:, None], axis=0)
        return mask

    def zone_of(self, node: int) -> str:
        return zone_name(int(self.zone[node]))

    def document(self, node: int, created: str, uid: str) -> Document:
        shape = self.shapes[node]
        pool = str(self.pool[node])
        capacity = {"cpu": str(shape.cores), "memory": f"{shape.memory}Gi", "pods": str(shape.pods)}
        allocatable = capacity | {
            "cpu": f"{int(self.allocatable[0, node])}m",
            "memory": str(int(self.allocatable[1, node])),
        }
        if shape.gpus:
            gpus = {"nvidia.com/gpu": str(shape.gpus)}
            capacity |= gpus
            allocatable |= gpus
        spec: Document = {"providerID": f"sim://{self.names[node]}"}
        taint = {"gpu": GPU_TAINT, "batch": BATCH_TAINT}.get(pool)
        if taint:
            spec["taints"] = [taint]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.names[node],
                "uid": uid,
                "creationTimestamp": created,
                "labels": self._labels(node, shape, pool),
            },
            "spec": spec,
            "status": {"capacity": capacity, "allocatable": allocatable, "conditions": [ready_condition(created)]},
        }

    def _labels(self, node: int, shape: Shape, pool: str) -> Mapping[str, str]:
        labels = {
            "kubernetes.io/hostname": self.names[node],
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": shape.name,
            "topology.kubernetes.io/region": "region-1",
            "topology.kubernetes.io/zone": self.zone_of(node),
            "pool": pool,
        }
        return labels | {"disktype": "ssd"} if self.ssd[node] else labels


def zone_name(zone: int) -> str:
    return f"zone-{zone + 1}"


def ready_condition(since: str) -> Document:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    }


def _allocatable(shape: Shape) -> tuple[int, int, int, int]:
    return (
        shape.cores * 1000 - _KEPT_BACK["cpu"],
        shape.memory * Gi - _KEPT_BACK["memory"],
        shape.pods,
        shape.gpus,
    )
