"""Generated clusters: every hard constraint holds, nothing is over-committed, the same seed gives the same cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.affinity import node_constraint, volume_constraint
from restow.model.objects import Node, PersistentVolume, Pod
from restow.model.resources import PODS, add_vectors, parse_amounts, pod_requests, vector_fits
from restow.model.taints import untolerated_taint
from restow.sim.scenarios import Scenario, generate_documents, generate_snapshot

share = st.floats(0, 0.5)
scenarios = st.builds(
    Scenario,
    seed=st.integers(0, 2**31),
    nodes=st.integers(1, 60),
    pods=st.integers(0, 400),
    zones=st.integers(1, 5),
    namespaces=st.integers(1, 5),
    utilisation=st.floats(0.05, 1.0),
    skew=st.floats(0, 1),
    gpu=share,
    batch=share,
    pinned=share,
    apart=share,
    spread=share,
    budgets=st.floats(0, 1),
    daemon_sets=st.integers(0, 3),
    pending=st.integers(0, 3),
)


class Cluster:
    """A generated cluster, read back through the model."""

    def __init__(self, items: Iterable[dict[str, Any]]) -> None:
        self.items = msgspec.json.decode(msgspec.json.encode(list(items)))
        self.nodes = {node.metadata.name: node for node in self.read("Node", Node)}
        self.pods = self.read("Pod", Pod)
        self.placed = [pod for pod in self.pods if pod.spec.node_name]

    def read(self, kind: str, type_: type[Any]) -> list[Any]:
        return [msgspec.convert(item, type_) for item in self.items if item["kind"] == kind]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.items if item["kind"] == kind]

    def zone(self, pod: Pod) -> str:
        labels: dict[str, str] = self.nodes[pod.spec.node_name or ""].metadata.labels or {}
        return labels["topology.kubernetes.io/zone"]


@given(scenarios)
@settings(max_examples=30, deadline=None)
def test_generated_clusters_are_valid(scenario: Scenario) -> None:
    cluster = Cluster(generate_documents(scenario))
    _nothing_over_committed(cluster)
    _node_constraints_hold(cluster)
    _apart_and_spread_hold(cluster)
    _volumes_reach_their_pods(cluster)
    _owners_exist_and_count(cluster)
    _names_are_unique(cluster)


def _nothing_over_committed(cluster: Cluster) -> None:
    used: dict[str, dict[str, int]] = defaultdict(dict)
    for pod in cluster.placed:
        used[pod.spec.node_name or ""] = add_vectors(used[pod.spec.node_name or ""], {**pod_requests(pod), PODS: 1})
    for name, vector in used.items():
        assert vector_fits(vector, parse_amounts(cluster.nodes[name].status.allocatable)), name


def _node_constraints_hold(cluster: Cluster) -> None:
    for pod in cluster.placed:
        node = cluster.nodes[pod.spec.node_name or ""]
        assert node_constraint(pod.spec).matches(node.metadata.name, node.metadata.labels)
        assert not untolerated_taint(node.spec.taints, pod.spec.tolerations)


def _apart_and_spread_hold(cluster: Cluster) -> None:
    apart: Counter[tuple[str, str]] = Counter()
    spread: dict[str, Counter[str]] = defaultdict(Counter)
    domains: dict[str, set[str]] = {}
    for pod in cluster.placed:
        app = (pod.metadata.labels or {})["app"]
        if pod.spec.affinity and pod.spec.affinity.pod_anti_affinity:
            apart[app, pod.spec.node_name or ""] += 1
        if pod.spec.topology_spread_constraints:
            spread[app][cluster.zone(pod)] += 1
            constraint = node_constraint(pod.spec)
            domains[app] = {
                (node.metadata.labels or {})["topology.kubernetes.io/zone"]
                for node in cluster.nodes.values()
                if constraint.matches(node.metadata.name, node.metadata.labels)
            }
    assert all(count == 1 for count in apart.values())
    for app, counts in spread.items():
        assert max(counts.values()) - min(counts[zone] for zone in domains[app]) <= 1


def _volumes_reach_their_pods(cluster: Cluster) -> None:
    volumes = {volume.metadata.name: volume for volume in cluster.read("PersistentVolume", PersistentVolume)}
    claims = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item for item in cluster.of("PersistentVolumeClaim")
    }
    for pod in cluster.placed:
        node = cluster.nodes[pod.spec.node_name or ""]
        for source in pod.spec.volumes or ():
            assert source.persistent_volume_claim is not None
            claim = claims[pod.metadata.namespace or "", source.persistent_volume_claim.claim_name]
            volume = volumes[claim["spec"]["volumeName"]]
            assert volume.spec.claim_ref.uid == claim["metadata"]["uid"]
            constraint = volume_constraint(volume.spec.node_affinity.required)
            assert constraint.matches(node.metadata.name, node.metadata.labels)


def _owners_exist_and_count(cluster: Cluster) -> None:
    owners = {item["metadata"]["uid"]: item for item in cluster.items}
    owned: Counter[str] = Counter()
    for item in cluster.items:
        for reference in item["metadata"].get("ownerReferences", ()):
            assert owners[reference["uid"]]["metadata"]["name"] == reference["name"]
            owned[reference["uid"]] += item["kind"] == "Pod"
    for kind, field in (("ReplicaSet", "replicas"), ("StatefulSet", "replicas"), ("Job", "completions")):
        for item in cluster.of(kind):
            assert owned[item["metadata"]["uid"]] == item["spec"][field], item["metadata"]["name"]


def _names_are_unique(cluster: Cluster) -> None:
    keys = Counter(
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in cluster.items
    )
    assert set(keys.values()) <= {1}
    assert len({item["metadata"]["uid"] for item in cluster.items}) == len(cluster.items)


def test_the_same_seed_gives_the_same_cluster() -> None:
    texts = [msgspec.json.encode(generate_snapshot(Scenario(seed=seed))) for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("utilisation", "skew"), [pytest.param(0.3, 0.2, id="quiet and even"), pytest.param(0.7, 0.9, id="busy and skewed")]
)
def test_generated_utilisation_is_near_the_requested_one(utilisation: float, skew: float) -> None:
    cluster = Cluster(generate_documents(Scenario(nodes=200, pods=3000, utilisation=utilisation, skew=skew, gpu=0)))
    asked = sum(pod_requests(pod)["cpu"] for pod in cluster.placed)
    there = sum(parse_amounts(node.status.allocatable)["cpu"] for node in cluster.nodes.values())
    assert asked / there == pytest.approx(utilisation, abs=0.12)


def test_skew_scatters_the_free_room() -> None:
    def spread(skew: float) -> float:
        cluster = Cluster(generate_documents(Scenario(nodes=100, pods=1000, skew=skew, gpu=0, spread=0)))
        used: Counter[str] = Counter()
        for pod in cluster.placed:
            used[pod.spec.node_name or ""] += pod_requests(pod)["cpu"]
        shares = [used[name] / parse_amounts(node.status.allocatable)["cpu"] for name, node in cluster.nodes.items()]
        return max(shares) - sorted(shares)[len(shares) // 10]

    assert spread(0.9) > spread(0.1)


def test_pending_pods_fit_no_node_now_but_some_node_when_empty() -> None:
    cluster = Cluster(generate_documents(Scenario(nodes=40, pods=400, pending=4)))
    free = {name: parse_amounts(node.status.allocatable) for name, node in cluster.nodes.items()}
    for pod in cluster.placed:
        requests = {**pod_requests(pod), PODS: 1}
        room = free[pod.spec.node_name or ""]
        free[pod.spec.node_name or ""] = {name: room[name] - requests.get(name, 0) for name in room}
    waiting = [pod for pod in cluster.pods if not pod.spec.node_name]
    assert len(waiting) == 4
    for pod in waiting:
        constraint = node_constraint(pod.spec)
        allowed = [
            name
            for name, node in cluster.nodes.items()
            if constraint.matches(name, node.metadata.labels)
            and not untolerated_taint(node.spec.taints, pod.spec.tolerations)
        ]
        assert not any(vector_fits(pod_requests(pod), free[name]) for name in allowed)
        assert any(
            vector_fits(pod_requests(pod), parse_amounts(cluster.nodes[name].status.allocatable)) for name in allowed
        )
