"""Random clusters with all difficulties at once: a v1 List of everything that planning reads.

Pods that are spread, keep apart or stay together, have volumes in one zone, claim ports, ask for devices that few nodes
have or for nothing; some wait, some terminate, some are on nodes that do not exist. Gangs that lack members, queues
that are closed, limited or missing, nodes that are locked for them, budgets that allow nothing, reservations that hold
room. `wild` ones have over-committed nodes, nodes that offer nothing or everything, and quantities beyond all bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from restow.model.objects import Pod
from restow.model.resources import parse_amounts, pod_requests
from restow.model.wire import convert_document

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = ("x", "y", "z", "w")
ZONES = ("z0", "z1", "z2")
Item = dict[str, Any]

_CPU = ("0", "100m", "250m", "500m", "1", "2", "3", "1500m", "0.1", "1e-1", "7", "333m")
_MEMORY = ("0", "1", "64Mi", "128Mi", "512Mi", "1Gi", "1G", "2Gi", "3Gi", "1500M", "123456789", "1e9")


def difficult_cluster(seed: int, *, wild: bool) -> Item:
    return {"apiVersion": "v1", "kind": "List", "items": list(_ClusterDrawing(Random(seed), wild).items())}


class _ClusterDrawing:
    def __init__(self, rng: Random, wild: bool) -> None:
        self._rng = rng
        self._wild = wild
        self._nodes: dict[str, Item] = {}
        self._free: dict[str, dict[str, int]] = {}
        self._kinds = {app: rng.choice(sorted(CONSTRAINTS)) for app in APPS}
        self._has_queues, self._has_volumes = self._chance(0.4), self._chance(0.5)

    def items(self) -> Iterator[Item]:
        count = self._rng.choice([0, 1, 2, 3, 5, 8]) if self._wild else self._rng.randint(2, 7)
        self._nodes = {f"n{number}": self._node(number) for number in range(count)}
        self._free = {name: dict(parse_amounts(one["status"]["allocatable"])) for name, one in self._nodes.items()}
        yield from self._nodes.values()
        for number in range(self._rng.choice([self._rng.randint(0, 12), self._rng.randint(0, 35)])):
            yield from self._pod(number)
        yield from self._storage() if self._has_volumes else ()
        yield from self._gangs()
        yield from self._queues() if self._has_queues else ()
        yield from self._budgets()
        yield from self._reservations() if self._nodes else ()

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _node(self, number: int) -> Item:
        pick = self._rng.choice
        offers = {
            "cpu": pick(["4", "8", "10"]),
            "memory": pick(["8Gi", "16Gi", "10G"]),
            "pods": pick(["110", "20", "8"]),
        }
        if self._chance(0.4):
            offers["nvidia.com/gpu"] = pick(["1", "2", "4", "8"])
        if self._chance(0.2):
            offers["example.com/part"] = pick(["100", "1000"])
        if self._wild and self._chance(0.3):
            offers = pick(
                [{}, {**offers, "cpu": "0"}, {**offers, "pods": "0"}, {"cpu": "9e9", "memory": "7Ei", "pods": "9"}]
            )
        name = f"n{number}"
        labels = {HOST: name} if self._chance(0.1) else {HOST: name, ZONE: f"z{number % pick([1, 2, 3])}"}
        spec: Item = {"unschedulable": True} if self._chance(0.1) else {}
        if self._chance(0.1):
            spec["taints"] = [{"key": "k", "effect": pick(["NoSchedule", "NoExecute", "PreferNoSchedule"])}]
        status: Item = {"allocatable": offers, "capacity": offers}
        if self._chance(0.1):
            status["conditions"] = [{"type": "Ready", "status": pick(["True", "False", "Unknown"])}]
        return _object("v1", "Node", name, None, spec=spec, status=status, labels=labels)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _pod(self, number: int) -> Iterator[Item]:
        pick, app = self._rng.choice, self._rng.choice(APPS)
        namespace, spec = pick(["default", "default", "other"]), self._spec(app)
        where = self._where(spec)
        status: Item = {"phase": "Running" if where else "Pending"}
        if where:
            spec["nodeName"] = where
        elif self._nodes and self._chance(0.2):
            status["nominatedNodeName"] = pick(sorted(self._nodes))
        if self._chance(0.05):
            status = {"phase": pick(["Succeeded", "Failed"])}
        if self._has_volumes and self._chance(0.3):
            spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": f"c{number}"}}]
            yield from self._claim(number, namespace)
        one = _object("v1", "Pod", f"p{number:02d}", namespace, spec=spec, status=status, labels={"app": app})
        one["metadata"] |= {"uid": f"u{number}", "creationTimestamp": f"2026-01-01T00:00:{number:02d}Z"}
        one["metadata"]["annotations"] = self._annotations(waits=where is None)
        if self._chance(0.9):
            kind = pick(["ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet"])
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": app, "uid": f"rs-{app}", "controller": True}
            one["metadata"]["ownerReferences"] = [owner]
        if self._chance(0.05):
            one["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
        yield one

    def _spec(self, app: str) -> Item:
        pick = self._rng.choice
        asks = {"cpu": pick(_CPU), "memory": pick(_MEMORY)}
        for share, name, some in (
            (0.15, "nvidia.com/gpu", ["1", "2"]),
            (0.1, "example.com/part", ["10", "250", "500"]),
            (0.03 * self._wild, "example.com/none", ["1", "9223372036854775807"]),
            (0.03 * self._wild, "memory", ["9Ei", "1e30", "7Ei"]),
            (0.03 * self._wild, "cpu", ["9e15", "1e30", "1n", "9223372036854775807"]),
        ):
            if self._chance(share):
                asks[name] = pick(some)
        container: Item = {"name": "c", "image": "i", "resources": {} if self._chance(0.08) else {"requests": asks}}
        spec: Item = {"containers": [container], "schedulerName": pick(["restow"] * 12 + ["another"])}
        spec |= CONSTRAINTS[self._kinds[app]](app)
        if self._kinds[app] == "port":
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        for share, more in (
            (0.1, {"initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"cpu": pick(_CPU)}}}]}),
            (0.05, {"overhead": {"cpu": "100m"}}),
            (0.1, {"tolerations": [{"operator": "Exists"}]}),
            (0.08, {"nodeSelector": {ZONE: pick(ZONES[:2])}}),
            (0.2, {"priority": pick([0, 10, 1000, -5])}),
            (0.03, {"schedulingGates": [{"name": "g"}]}),
        ):
            spec |= more if self._chance(share) else {}
        return spec

    def _where(self, spec: Item) -> str | None:
        """A node; a tame one has room for it."""
        draw = self._rng.random()
        if draw >= 0.8 or not self._nodes or "schedulingGates" in spec:
            return None
        if draw >= 0.75:
            return "ghost"
        if self._wild:
            return self._rng.choice(sorted(self._nodes))
        asked = {**pod_requests(convert_document(Pod, {"metadata": {"name": "p"}, "spec": spec}, "p")), "pods": 1}
        for name in self._rng.sample(sorted(self._nodes), len(self._nodes)):
            free = self._free[name]
            if all(free.get(each, 0) >= amount for each, amount in asked.items()):
                self._free[name] = {each: amount - asked.get(each, 0) for each, amount in free.items()}
                return name
        return None

    def _annotations(self, *, waits: bool) -> dict[str, str]:
        pick = self._rng.choice
        told = {
            "scheduling.k8s.io/group-name": (
                0.4 if waits else 0.1,
                pick(["g1", "g2", "g3"] if waits else ["g1", "g2"]),
            ),
            "volcano.sh/task-spec": (0.3, pick(["ps", "worker"])),
            "scheduling.volcano.sh/queue-name": (0.5 * self._has_queues, pick(["q1", "q2", "default", "q3"])),
            "restow.sh/use-reservation": (0.05, pick(["r1", "r2"])),
        }
        return {name: value for name, (share, value) in told.items() if self._chance(share)}

    # --- what is around them ------------------------------------------------------------------------------------------

    def _claim(self, number: int, namespace: str) -> Iterator[Item]:
        """A claim, mostly bound to a volume of one zone; sometimes not even the claim exists."""
        name, pick = f"c{number}", self._rng.choice
        asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        if self._chance(0.6):
            at = {"key": ZONE, "operator": "In", "values": [pick(ZONES)]}
            modes = [pick(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])]
            volume = {
                "capacity": {"storage": "1Gi"},
                "accessModes": modes,
                "storageClassName": "std",
                "claimRef": {"namespace": namespace, "name": name, "uid": f"uid-{name}"},
                "csi": {"driver": "d.example.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [at]}]}},
            }
            yield _object("v1", "PersistentVolume", f"v{number}", None, spec=volume, status={"phase": "Bound"})
            spec = {**asks, "accessModes": modes, "storageClassName": "std", "volumeName": f"v{number}"}
            one = _object("v1", "PersistentVolumeClaim", name, namespace, spec=spec, status={"phase": "Bound"})
            one["metadata"] |= {"uid": f"uid-{name}", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
            yield one
        elif self._chance(0.8):
            spec = {**asks, "storageClassName": pick(["std", "local", "missing"])}
            yield _object("v1", "PersistentVolumeClaim", name, namespace, spec=spec, status={"phase": "Pending"})

    def _storage(self) -> Iterator[Item]:
        for name, provisioner in (("std", "d.example.com"), ("local", "kubernetes.io/no-provisioner")):
            one = _object("storage.k8s.io/v1", "StorageClass", name, None)
            yield one | {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        for name in self._nodes:
            if self._chance(0.5):
                room = {"count": self._rng.choice([1, 2, 5])}
                drivers = [{"name": "d.example.com", "nodeID": name, "topologyKeys": [ZONE], "allocatable": room}]
                yield _object("storage.k8s.io/v1", "CSINode", name, None, spec={"drivers": drivers})

    def _gangs(self) -> Iterator[Item]:
        pick = self._rng.choice
        for name in ("g1", "g2"):
            spec: Item = {"minMember": self._rng.randint(1, 4)}
            if self._chance(0.4):
                spec["minTaskMember"] = {"ps": 1, "worker": self._rng.randint(0, 2)}
            if self._has_queues and self._chance(0.5):
                spec["queue"] = pick(["q1", "q2"])
            if self._chance(0.3):
                spec["minResources"] = {"cpu": pick(["1", "8", "100"])}
            status = {"phase": pick(["Inqueue", "Pending", "Running"])}
            yield _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, "default", spec=spec, status=status)

    def _queues(self) -> Iterator[Item]:
        pick = self._rng.choice
        for name in ("q1", "q2"):
            spec: Item = {"weight": 1}
            if self._chance(0.5):
                spec["capability"] = {"cpu": pick(["1", "2", "5"]), "memory": pick(["8Gi", "16Ei"])}
            if self._chance(0.3):
                spec["guarantee"] = {"resource": {"cpu": pick(["2", "4"])}}
            status: Item = {"state": pick(["Open", "Open", "Open", "Closed"])}
            if self._nodes and self._chance(0.4):
                status["reservation"] = {"nodes": [pick(sorted(self._nodes))]}
            yield _object("scheduling.volcano.sh/v1beta1", "Queue", name, None, spec=spec, status=status)

    def _budgets(self) -> Iterator[Item]:
        for app in APPS:
            if self._chance(0.3):
                allowed = self._rng.choice([0, 1, 1, 2])
                spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
                status = {"disruptionsAllowed": allowed, "currentHealthy": 5, "desiredHealthy": 1, "expectedPods": 5}
                yield _object("policy/v1", "PodDisruptionBudget", app, "default", spec=spec, status=status)

    def _reservations(self) -> Iterator[Item]:
        pick = self._rng.choice
        for name in ("r1", "r2"):
            if self._chance(0.65):
                continue
            app, asks = pick(APPS), {"cpu": pick(["1", "2"]), "memory": "1Gi"}
            containers = [{"name": "c", "image": "i", "resources": {"requests": asks}}]
            template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers}}
            spec = {
                "schedulerName": "restow",
                "tasks": [{"name": "t", "replicas": 1, "template": template}],
                "matchPolicy": pick(["Fits", "Template"]),
                "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            }
            held = [{"task": "t", "index": 0, "nodeName": pick(sorted(self._nodes))}]
            status = {"state": {"phase": "Available"}, "placements": held} if self._chance(0.7) else {}
            yield _object("batch.volcano.sh/v1alpha1", "Reservation", name, "default", spec=spec, status=status)


def _object(
    version: str, kind: str, name: str, namespace: str | None, *, labels: dict[str, str] | None = None, **parts: Item
) -> Item:
    metadata: Item = {"name": name, "labels": labels or {}, "uid": f"{kind}-{namespace}-{name}"}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def _near(side: str, key: str) -> Any:
    def made(app: str) -> Item:
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
        return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    return made


def _even(key: str, most: int) -> Any:
    def made(app: str) -> Item:
        selector = {"matchLabels": {"app": app}}
        even = {"maxSkew": most, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        return {"topologySpreadConstraints": [even]}

    return made


CONSTRAINTS = {
    "none": lambda app: {},
    "nothing else": lambda app: {},
    "port": lambda app: {},
    "apart": _near("podAntiAffinity", HOST),
    "zones apart": _near("podAntiAffinity", ZONE),
    "together": _near("podAffinity", HOST),
    "in one zone": _near("podAffinity", ZONE),
    "even over zones": _even(ZONE, 1),
    "even over nodes": _even(HOST, 1),
}
