"""The node_capacity as read from a snapshot."""

from __future__ import annotations

from typing import Any

import msgspec

from restow.model.objects import Node, Pod
from restow.model.queues import QUEUE_ANNOTATION
from restow.model.snapshot import Snapshot
from restow.queues.node_capacity import CapacityOfNodes, read_node_capacity
from restow.scheduling.pod_group_cache import PodGroupCache


def a_node(name: str, *, ready: str = "True", cordoned: bool = False, taint: str = "") -> Node:
    says: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"unschedulable": cordoned, "taints": [{"key": "k", "effect": taint}] if taint else []},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(says, Node)


def a_pod(name: str, node: str, cpu: str, *, queue: str = "", owner: str = "ReplicaSet") -> Pod:
    says: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "2",
            "annotations": {QUEUE_ANNOTATION: queue} if queue else {},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }
    return msgspec.convert(says, Pod)


def read(nodes: list[Node], pods: list[Pod]) -> CapacityOfNodes:
    snapshot, pod_groups = Snapshot(), PodGroupCache()
    for node in nodes:
        snapshot.apply_node(node)
    for pod in pods:
        snapshot.apply_pod(pod)
        pod_groups.apply_pod(pod)
    return read_node_capacity(snapshot, pod_groups)


def cpu(node_capacity: CapacityOfNodes, cells: Any) -> list[int]:
    numbers: list[int] = cells[node_capacity.resources.index("cpu")].tolist()
    return numbers


def test_node_capacity_has_allocatable_and_idle_by_name() -> None:
    node_capacity = read([a_node("b"), a_node("a")], [a_pod("p", "b", "3")])
    assert (
        node_capacity.names,
        cpu(node_capacity, node_capacity.allocatable),
        cpu(node_capacity, node_capacity.idle),
    ) == (
        ("a", "b"),
        [8000, 8000],
        [8000, 5000],
    )


def test_cordoned_and_unready_nodes_are_not_schedulable() -> None:
    node_capacity = read([a_node("a"), a_node("b", cordoned=True), a_node("c", ready="Unknown")], [])
    assert node_capacity.schedulable.tolist() == [True, False, False]


def test_nodes_with_hard_taints_are_not_untainted() -> None:
    effects = ("", "PreferNoSchedule", "NoSchedule", "NoExecute")
    node_capacity = read([a_node(f"n{number}", taint=effect) for number, effect in enumerate(effects)], [])
    assert node_capacity.untainted.tolist() == [True, True, False, False]


def test_queue_usage_is_known_by_node() -> None:
    node_capacity = read(
        [a_node("a"), a_node("b")], [a_pod("p", "b", "3", queue="q1"), a_pod("r", "b", "1", queue="q2")]
    )
    assert cpu(node_capacity, node_capacity.usage_per_node("q1", list(range(len(node_capacity.resources))))) == [
        0,
        3000,
    ]


def test_pods_of_daemon_sets_count_as_pinned() -> None:
    node_capacity = read([a_node("a")], [a_pod("p", "a", "1", owner="DaemonSet"), a_pod("r", "a", "2")])
    assert cpu(node_capacity, node_capacity.pinned) == [1000]


def test_deleted_node_has_no_capacity() -> None:
    assert read([a_node("a")], [a_pod("p", "gone", "1")]).names == ("a",)


def test_empty_cluster_has_an_empty_capacity() -> None:
    assert read([], []).names == ()
