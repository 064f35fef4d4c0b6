"""Random volumes and claims for random clusters: bound ones, ones that wait for their first consumer, ones that never
will be bound, and disks that pods name themselves.

Goes in: a Random, and the names of nodes and zones. Comes out: specs of pods that mount, and beside them the classes,
volumes, claims, and what a driver can still make, to create. Pods may share a claim or a disk, so that volumes meet
limits and exclusive modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from restow.model.objects import Document

DRIVER = "disk.example.com"
ZONE = "topology.kubernetes.io/zone"
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
            _storage_class(self.on_demand, f"{prefix}.example.com", "WaitForFirstConsumer") | self._only_some_zone(),
        ]
        self.drivers: list[Document] = []
        self.capacities: list[Document] = []
        if rng.random() < 0.7:
            self._limit_what_is_made()
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
        """Give a pod a claim that needs a new volume; no provisioner runs here."""
        spec["volumes"] = [_claimed(_name(self._new(namespace, self.on_demand, self._rng.choice(_SIZES))))]

    def mount_disk(self, spec: Document) -> None:
        """Give a pod one or two of few disks, the old way."""
        rng = self._rng
        disks = [_disk(rng, f"{self._prefix}-{rng.choice('ab')}") for _ in range(rng.choice((1, 1, 2)))]
        kinds = {next(iter(disk)): disk for disk in disks}
        spec["volumes"] = [*spec.get("volumes", ()), *({"name": kind.lower(), **kinds[kind]} for kind in sorted(kinds))]

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
            volume["metadata"]["labels"] = {ZONE: rng.choice(self._zones)}
        elif reach < 0.6:
            volume["spec"]["nodeAffinity"] = _required(ZONE, rng.sample(self._zones, 2))
        elif reach < 0.75:
            volume["spec"]["nodeAffinity"] = _required("kubernetes.io/hostname", [rng.choice(self._nodes)])
        self.volumes.append(volume)
        return volume

    def _limit_what_is_made(self) -> None:
        """The driver says how much it can still make where; where it says nothing, it makes nothing."""
        rng, name = self._rng, f"{self._prefix}.example.com"
        says = rng.random() < 0.8
        self.drivers.append({"metadata": {"name": name}, "spec": {"storageCapacity": says, "attachRequired": True}})
        for number in range(rng.randint(0, 3)):
            capacity: Document = {
                "metadata": {"name": f"{self._prefix}-capacity-{number}", "namespace": "default"},
                "storageClassName": self.on_demand,
                "capacity": rng.choice(("512Mi", "3Gi", "100Gi")),
            }
            if rng.random() < 0.9:
                capacity["nodeTopology"] = self._part_of_the_cluster()
            if rng.random() < 0.3:
                capacity["maximumVolumeSize"] = rng.choice(("1Gi", "2Gi"))
            self.capacities.append(capacity)

    def _part_of_the_cluster(self) -> Document:
        rng = self._rng
        chosen = rng.random()
        if chosen < 0.5:
            return {"matchLabels": {ZONE: rng.choice(self._zones)}}
        if chosen < 0.8:
            operator = rng.choice(("In", "NotIn"))
            return {"matchExpressions": [{"key": ZONE, "operator": operator, "values": rng.sample(self._zones, 2)}]}
        return {}

    def _only_some_zone(self) -> Document:
        if self._rng.random() < 0.5:
            return {}
        expression = {"key": ZONE, "values": [self._rng.choice(self._zones)]}
        return {"allowedTopologies": [{"matchLabelExpressions": [expression]}]}


def _disk(rng: Random, name: str) -> Document:
    read_only = rng.random() < 0.5
    match rng.choice(("gce", "ebs", "iscsi", "rbd")):
        case "gce":
            return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}
        case "ebs":
            return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}
        case "iscsi":
            target = {"targetPortal": "192.0.2.1:3260", "iqn": f"iqn.2026-01.com.example:{name}", "lun": 0}
            return {"iscsi": target | {"readOnly": read_only}}
    monitors = rng.sample(("192.0.2.1:6789", "192.0.2.2:6789", "192.0.2.3:6789"), 2)
    pool = {"pool": rng.choice(("rbd", "fast"))} if rng.random() < 0.5 else {}
    return {"rbd": {"monitors": monitors, "image": name, "readOnly": read_only, **pool}}


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
