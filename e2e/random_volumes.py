"""Random volumes and claims for random clusters: bound ones, ones that wait for their first consumer, ones that never
will be bound.

Goes in: a Random, and the names of nodes and zones. Comes out: specs of pods that mount, and beside them the classes,
volumes and claims to create. Pods may share a claim, so that volumes meet limits and exclusive modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from restow.model.objects import Document

DRIVER = "disk.example.com"
_SIZES = ("1Gi", "2Gi", "5Gi")


class Volumes:
    def __init__(self, rng: Random, prefix: str, nodes: Sequence[str], zones: Sequence[str]) -> None:
        self._rng = rng
        self._prefix = prefix
        self._nodes = nodes
        self._zones = zones
        self.waiting, self.immediate = f"{prefix}-waiting", f"{prefix}-immediate"
        self.on_demand = f"{prefix}-on-demand"
        self.classes = [
            _storage_class(self.waiting, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            _storage_class(self.immediate, "kubernetes.io/no-provisioner", "Immediate"),
            _storage_class(self.on_demand, "nobody.example.com", "WaitForFirstConsumer") | self._only_some_zone(),
        ]
        self.volumes: list[Document] = []
        self.claims: list[Document] = []
        for _ in range(rng.randint(0, 6)):
            self._volume(self.waiting, rng.choice(_SIZES))

    def csi_node(self, name: str) -> Document:
        count = self._rng.choice((1, 2, 5, None))
        driver: Document = {"name": DRIVER, "nodeID": name, "topologyKeys": None}
        if count is not None:
            driver["allocatable"] = {"count": count}
        return {"metadata": {"name": name}, "spec": {"drivers": [driver]}}

    def mount(self, spec: Document, namespace: str, *, bound: bool = False) -> None:
        """Give a pod one or two claims of its namespace."""
        names = {self._claim(namespace, bound=bound) for _ in range(self._rng.choice((1, 1, 2)))}
        spec["volumes"] = [_claimed(name) for name in sorted(names)]

    def mount_on_demand(self, spec: Document, namespace: str) -> None:
        """Give a pod a claim whose volume would have to be made; nobody here makes it."""
        spec["volumes"] = [_claimed(_name(self._new(namespace, self.on_demand, "1Gi")))]

    # ------------------------------------------------------------------------------------------------------------------

    def _claim(self, namespace: str, *, bound: bool) -> str:
        rng = self._rng
        known = [claim for claim in self.claims if claim["metadata"]["namespace"] == namespace]
        known = [claim for claim in known if not bound or "volumeName" in claim["spec"]]
        if known and rng.random() < 0.35:
            return _name(rng.choice(known))
        chosen = rng.random()
        if bound or chosen < 0.5:
            return self._bound(namespace)
        if chosen < 0.85:
            return _name(self._new(namespace, self.waiting, rng.choice(_SIZES)))
        if chosen < 0.92:
            return _name(self._new(namespace, self.immediate, "100Gi"))
        return f"{self._prefix}-missing"

    def _bound(self, namespace: str) -> str:
        rng = self._rng
        mode = rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
        volume = self._volume(rng.choice((self.waiting, self.immediate)), "3Gi", mode)
        claim = self._new(namespace, volume["spec"]["storageClassName"], "3Gi", mode)
        claim["spec"]["volumeName"] = _name(volume)
        volume["spec"]["claimRef"] = {"namespace": namespace, "name": _name(claim)}
        return _name(claim)

    def _new(self, namespace: str, storage_class: str, size: str, mode: str = "ReadWriteOnce") -> Document:
        claim: Document = {
            "metadata": {"name": f"{self._prefix}-claim-{len(self.claims)}", "namespace": namespace},
            "spec": {
                "accessModes": [mode],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": size}},
            },
        }
        self.claims.append(claim)
        return claim

    def _volume(self, storage_class: str, size: str, mode: str = "ReadWriteOnce") -> Document:
        rng = self._rng
        name = f"{self._prefix}-volume-{len(self.volumes)}"
        volume: Document = {
            "metadata": {"name": name, "labels": {}},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": [mode],
                "storageClassName": storage_class,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": DRIVER, "volumeHandle": name},
            },
        }
        reach = rng.random()
        if reach < 0.35:
            volume["metadata"]["labels"] = {"topology.kubernetes.io/zone": rng.choice(self._zones)}
        elif reach < 0.6:
            volume["spec"]["nodeAffinity"] = _required("topology.kubernetes.io/zone", rng.sample(self._zones, 2))
        elif reach < 0.75:
            volume["spec"]["nodeAffinity"] = _required("kubernetes.io/hostname", [rng.choice(self._nodes)])
        self.volumes.append(volume)
        return volume

    def _only_some_zone(self) -> Document:
        if self._rng.random() < 0.5:
            return {}
        expression = {"key": "topology.kubernetes.io/zone", "values": [self._rng.choice(self._zones)]}
        return {"allowedTopologies": [{"matchLabelExpressions": [expression]}]}


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name


def _claimed(name: str) -> Document:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def _storage_class(name: str, provisioner: str, mode: str) -> Document:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def _required(key: str, values: Sequence[str]) -> Document:
    expression = {"key": key, "operator": "In", "values": sorted(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
