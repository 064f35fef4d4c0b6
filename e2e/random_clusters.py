"""Random small clusters with pods of every kind of constraint, as documents for a real API server.

Goes in: a seed. Comes out: a `RandomCluster`, the same for the same seed. Names begin with the seed, so that what is
left of one cluster never matches what the next one asks for; nodes and pods of others must be gone, though. Values are
drawn from few, so that constraints meet: about half of the pods find a node.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from e2e.random_volumes import Volumes
from restow.model.objects import Document

NAMESPACES = ("differential-a", "differential-b", "differential-c")
GATE = "restow.io/differential"
FINALIZER = "restow.io/differential"
PRIORITIES = {"differential-low": -10, "differential-middle": 0, "differential-high": 1000}
"""Classes of pods that never preempt: what has no room has to wait."""

ZONE, HOST_NAME, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
ZONES = ("z1", "z2", "z3")
APPS = ("web", "db", "cache")
DEVICE, UNKNOWN = "example.com/device", "example.com/unknown"
"""Something that some nodes have, and something that none has."""
HUGE_PAGES = "hugepages-2Mi"
TAINTS: tuple[Document, ...] = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "PreferNoSchedule"},
    {"key": "broken", "effect": "NoExecute"},
)
TOLERATIONS: tuple[Document, ...] = (
    {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "value": "web"},
    {"key": "broken", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
)
UNSCHEDULABLE: Document = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class RandomCluster(msgspec.Struct, frozen=True):
    namespaces: dict[str, dict[str, str]]
    """Names and labels."""
    nodes: list[Document]
    csi_nodes: list[Document]
    classes: list[Document]
    volumes: list[Document]
    claims: list[Document]
    csi_drivers: list[Document]
    capacities: list[Document]
    placed: list[tuple[Document, str, bool]]
    """Pods that exist already, each with its node and whether it is terminating."""
    pending: list[Document]
    """Pods to be placed, gated, in the order in which they are to be tried."""


def random_cluster(seed: int, *, pending: int = 16) -> RandomCluster:
    return _Maker(seed).cluster(pending)


class _Maker:
    def __init__(self, seed: int) -> None:
        self._rng = rng = Random(seed)
        self._prefix = f"s{seed}"
        self._names = [f"{self._prefix}-node-{number}" for number in range(rng.randint(3, 12))]
        self._volumes = Volumes(rng, self._prefix, self._names, ZONES)

    def cluster(self, pending: int) -> RandomCluster:
        rng = self._rng
        placed = [self._placed(number) for number in range(rng.randint(0, 3 * len(self._names)))]
        waiting = [self._pending(number) for number in range(pending)]
        if rng.random() < 0.6:
            waiting.append(self._last())
        return RandomCluster(
            namespaces={name: {"team": rng.choice(("red", "blue"))} for name in NAMESPACES},
            nodes=[self._node(name) for name in self._names],
            csi_nodes=[self._volumes.csi_node(name) for name in self._names if rng.random() < 0.8],
            classes=self._volumes.classes,
            volumes=self._volumes.volumes,
            claims=self._volumes.claims,
            csi_drivers=self._volumes.drivers,
            capacities=self._volumes.capacities,
            placed=placed,
            pending=waiting,
        )

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _node(self, name: str) -> Document:
        rng = self._rng
        labels = {HOST_NAME: name} if rng.random() < 0.95 else {}
        if rng.random() < 0.9:
            labels |= {ZONE: rng.choice(ZONES), "topology.kubernetes.io/region": "r1"}
        labels |= {key: rng.choice(values) for key, values in _NODE_LABELS.items() if rng.random() < 0.7}
        room = {
            "cpu": rng.choice(("1", "2", "4", "1500m")),
            "memory": rng.choice(("2Gi", "4Gi", "8Gi")),
            "pods": rng.choice(("3", "6", "20")),
            "ephemeral-storage": rng.choice(("2Gi", "10Gi")),
        }
        if rng.random() < 0.5:
            room[DEVICE] = rng.choice(("0", "1", "2", "4"))
        if rng.random() < 0.4:
            room[HUGE_PAGES] = rng.choice(("64Mi", "256Mi"))
        taints = [dict(taint) for taint in rng.sample(TAINTS, rng.choice((0, 0, 0, 1, 1, 2)))]
        taints = list({(taint["key"], taint["effect"]): taint for taint in taints}.values())
        cordoned = rng.random() < 0.12
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [*taints, UNSCHEDULABLE] if cordoned else taints, "unschedulable": cordoned},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Made", "message": "for a test"}],
            },
        }

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _placed(self, number: int) -> tuple[Document, str, bool]:
        """A pod on a node, whether it fits or not; it tolerates every taint, so it is not evicted."""
        rng = self._rng
        node = rng.choice(self._names)
        pod = self._pod(f"placed-{number}")
        spec = pod["spec"]
        spec["containers"] = [_container(rng, {"cpu": rng.choice(("50m", "200m")), "memory": "128Mi"})]
        spec["tolerations"] = [{"operator": "Exists"}]
        affinity = self._pod_affinity(often=0.25)
        if affinity:
            spec["affinity"] = affinity
        if rng.random() < 0.15:
            spec["containers"][0]["ports"] = [_host_port(rng)]
        if rng.random() < 0.1:
            self._volumes.mount(spec, pod["metadata"]["namespace"], bound=True)
        if rng.random() < 0.2:
            self._volumes.mount_disk(spec)
        terminating = rng.random() < 0.1
        if terminating:
            pod["metadata"]["finalizers"] = [FINALIZER]
        return pod, node, terminating

    def _pending(self, number: int) -> Document:
        rng = self._rng
        pod = self._pod(f"pending-{number:02d}")
        spec = pod["spec"]
        spec["schedulingGates"] = [{"name": GATE}]
        spec["containers"] = [_container(rng, self._requests()) for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.15:
            spec["initContainers"] = self._init_containers()
        if rng.random() < 0.08:
            spec["resources"] = {"requests": {"cpu": "3"}}
        if rng.random() < 0.15:
            spec["containers"][0]["ports"] = [_host_port(rng)]
        if rng.random() < 0.08:
            _put_on_host(spec, rng)
        if rng.random() < 0.2:
            spec["nodeSelector"] = dict([_pair(rng)])
        if rng.random() < 0.4:
            spec["tolerations"] = [dict(toleration) for toleration in rng.sample(TOLERATIONS, rng.choice((1, 1, 2)))]
        affinity = self._pod_affinity(often=0.3)
        if rng.random() < 0.35:
            affinity["nodeAffinity"] = self._node_affinity()
        if affinity:
            spec["affinity"] = affinity
        if rng.random() < 0.3:
            spec["topologySpreadConstraints"] = self._spread(pod["metadata"]["labels"])
        if rng.random() < 0.25:
            self._volumes.mount(spec, pod["metadata"]["namespace"])
        if rng.random() < 0.2:
            self._volumes.mount_disk(spec)
        return pod

    def _last(self) -> Document:
        """kube-scheduler waits for a volume that is never provisioned, so such a pod is the last one."""
        pod = self._pending(99)
        self._volumes.mount_on_demand(pod["spec"], pod["metadata"]["namespace"])
        return pod

    def _pod(self, name: str) -> Document:
        rng = self._rng
        return {
            "metadata": {
                "name": f"{self._prefix}-{name}",
                "namespace": rng.choice(NAMESPACES),
                "labels": {"app": rng.choice(APPS), "version": rng.choice(("1", "2"))},
            },
            "spec": {
                "priorityClassName": rng.choice(sorted(PRIORITIES)),
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
            },
        }

    def _requests(self) -> dict[str, str]:
        rng = self._rng
        requests = {}
        if rng.random() < 0.7:
            requests["cpu"] = rng.choice(("0", "100m", "300m", "700m", "1100m"))
        if rng.random() < 0.5:
            requests["memory"] = rng.choice(("64Mi", "500Mi", "1500Mi", "3G"))
        if rng.random() < 0.1:
            requests["ephemeral-storage"] = rng.choice(("1Gi", "5Gi"))
        if rng.random() < 0.12:
            requests[DEVICE] = rng.choice(("1", "2"))
        if requests.get("cpu") and rng.random() < 0.08:
            requests[HUGE_PAGES] = "64Mi"
        if rng.random() < 0.03:
            requests[UNKNOWN] = "1"
        return requests

    def _init_containers(self) -> list[Document]:
        rng = self._rng
        first = _container(rng, {"cpu": rng.choice(("200m", "1300m"))})
        second = _container(rng, {"cpu": "100m", "memory": "200Mi"}) | {"restartPolicy": "Always"}
        if rng.random() < 0.5:
            second["ports"] = [_host_port(rng)]
        order = [first, second]
        rng.shuffle(order)
        return order

    # --- constraints --------------------------------------------------------------------------------------------------

    def _node_affinity(self) -> Document:
        rng = self._rng
        affinity: Document = {}
        if rng.random() < 0.85:
            terms = [self._node_term() for _ in range(rng.choice((1, 1, 2)))]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if rng.random() < 0.4:
            preferred = {"weight": rng.randint(1, 100), "preference": {"matchExpressions": [_expression(rng)]}}
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [preferred]
        return affinity

    def _node_term(self) -> Document:
        rng = self._rng
        term: Document = {}
        if rng.random() < 0.8:
            term["matchExpressions"] = [_expression(rng) for _ in range(rng.choice((1, 1, 2)))]
        if not term or rng.random() < 0.15:
            operator = rng.choice(("In", "In", "NotIn"))
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [rng.choice(self._names)]}]
        return term

    def _pod_affinity(self, often: float) -> Document:
        rng = self._rng
        affinity: Document = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            terms: Document = {}
            if rng.random() < often:
                required = [self._pod_term() for _ in range(rng.choice((1, 1, 1, 2)))]
                terms["requiredDuringSchedulingIgnoredDuringExecution"] = required
            if rng.random() < often / 2:
                preferred = [{"weight": rng.randint(1, 100), "podAffinityTerm": self._pod_term()}]
                terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
            if terms:
                affinity[kind] = terms
        return affinity

    def _pod_term(self) -> Document:
        rng = self._rng
        term: Document = {"topologyKey": rng.choice((ZONE, ZONE, HOST_NAME, HOST_NAME, RACK))}
        if rng.random() < 0.95:
            term["labelSelector"] = _selector(rng)
        if rng.random() < 0.3:
            term["namespaces"] = rng.sample(NAMESPACES, rng.choice((1, 2)))
        if rng.random() < 0.3:
            term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "red"}}))
        if _leaves_versions(term.get("labelSelector")) and rng.random() < 0.2:
            term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
        return term

    def _spread(self, labels: dict[str, str]) -> list[Document]:
        rng = self._rng
        keys = rng.sample((ZONE, HOST_NAME, RACK), rng.choice((1, 1, 2)))
        return [self._spread_over(key, labels) for key in keys]

    def _spread_over(self, key: str, labels: dict[str, str]) -> Document:
        rng = self._rng
        constraint: Document = {
            "topologyKey": key,
            "maxSkew": rng.choice((1, 1, 2)),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": labels["app"]}} if rng.random() < 0.7 else _selector(rng),
        }
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.25:
            constraint["minDomains"] = rng.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if rng.random() < 0.35:
                constraint[policy] = rng.choice(("Honor", "Ignore"))
        if _leaves_versions(constraint["labelSelector"]) and rng.random() < 0.2:
            constraint["matchLabelKeys"] = ["version"]
        return constraint


_NODE_LABELS = {"disk": ("ssd", "hdd"), "rank": ("1", "5", "12", "high"), RACK: ("r1", "r2")}


def _container(rng: Random, requests: dict[str, str]) -> Document:
    """What cannot be overcommitted must be limited to what it requests."""
    limits = {key: value for key, value in requests.items() if key in (DEVICE, UNKNOWN, HUGE_PAGES)}
    resources = {"requests": requests, "limits": limits} if requests else {}
    return {"name": f"c{rng.getrandbits(32):08x}", "image": "registry.invalid/app:1", "resources": resources}


def _host_port(rng: Random) -> Document:
    port: Document = {"containerPort": 80, "hostPort": rng.choice((8080, 8081))}
    if rng.random() < 0.4:
        port["hostIP"] = rng.choice(("127.0.0.1", "10.0.0.1", "0.0.0.0"))
    if rng.random() < 0.3:
        port["protocol"] = rng.choice(("UDP", "TCP"))
    return port


def _put_on_host(spec: Document, rng: Random) -> None:
    """Give a pod the network of its host, where every port is a host's."""
    spec["hostNetwork"] = True
    spec["containers"][0].setdefault("ports", []).append({"containerPort": rng.choice((8081, 8082))})
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        for port in container.get("ports", ()):
            port["containerPort"] = port.get("hostPort", port["containerPort"])
        if "ports" in container:
            container["ports"] = list({_meaning(port): port for port in container["ports"]}.values())


def _meaning(port: Document) -> tuple[int, str, str]:
    return port["containerPort"], port.get("protocol", "TCP"), port.get("hostIP", "")


def _pair(rng: Random) -> tuple[str, str]:
    key = rng.choice((*_NODE_LABELS, ZONE))
    return key, rng.choice(ZONES if key == ZONE else _NODE_LABELS[key])


def _expression(rng: Random) -> Document:
    """A requirement on node labels."""
    operator = rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "rank", "operator": operator, "values": [rng.choice(("1", "4", "10"))]}
    key, value = _pair(rng)
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": sorted({value, _pair(rng)[1]})}


def _selector(rng: Random) -> dict[str, Any]:
    """A selector of pods; the empty one is of all."""
    chosen = rng.random()
    if chosen < 0.6:
        return {"matchLabels": {"app": rng.choice(APPS)}}
    if chosen < 0.65:
        return {}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    key, values = rng.choice((("app", APPS), ("version", ("1", "2"))))
    expression: Document = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = sorted(rng.sample(values, 1))
    return {"matchExpressions": [expression]}


def _leaves_versions(selector: Document | None) -> bool:
    """Whether a selector leaves the label `version` to matchLabelKeys, which may not repeat its keys."""
    return selector is not None and "version" not in str(selector)
