"""Measures of small clusters, compared with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from restow.model.objects import Pod
from restow.model.pods import stays_with_node
from restow.model.resources import parse_amounts
from restow.planning.measures import (
    cluster_overview,
    count_slots,
    mean_and_deviation,
    node_imbalance,
    ready_rows,
    utilisation_percent,
)
from tests.model.cluster.builders import node, pod, reservation
from tests.planning.clusters import app, node_of_ten, owner, snapshot_of


def test_nodes_with_daemonset_pods_only_are_free() -> None:
    pods = [app("web", on="a"), app("agent", on="b", of="agents", kind="DaemonSet"), app("web-2", on="c")]
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("c"), node_of_ten("d")], pods)
    snapshot.apply_reservation(reservation("r", {0: "d"}))
    assert cluster_overview(snapshot, ())["freeNodes"] == 1  # b; d has a seat of a reservation


@pytest.mark.parametrize(
    ("one", "stays"),
    [
        pytest.param(app("p", kind="DaemonSet"), True, id="of a DaemonSet"),
        pytest.param(app("p", kind="ReplicaSet"), False, id="of a ReplicaSet"),
        pytest.param(pod("p"), False, id="bare"),
        pytest.param(pod("p", owner=owner("n", "Node")), False, id="owned by a Node, without the mirror annotation"),
    ],
)
def test_pods_that_stay_with_their_node_are_recognised(one: Pod, stays: bool) -> None:
    assert stays_with_node(one) is stays


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param({"cpu": "4"}, 2 + 1, id="remainders are lost"),
        pytest.param({"cpu": "1", "memory": "10Gi"}, 1, id="scarcest resource decides"),
        pytest.param({"example.com/gpu": "1"}, 0, id="resource that no node offers"),
        pytest.param({"cpu": "1m"}, 20 + 19, id="number of pods is a resource"),
    ],
)
def test_slots_count_pods_that_fit(shape: dict[str, str], expected: int) -> None:
    cordoned = node_of_ten("c", unschedulable=True)
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b"), cordoned], [app("p", "3", on="b")])
    assert count_slots(snapshot, parse_amounts(shape)) == expected


def test_utilisation_counts_pods_and_reservations() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node("b", {"memory": "1Gi"})], [app("p", "3", on="a")])
    snapshot.apply_reservation(reservation("r", {0: "a"}, requests={"cpu": "2"}))
    rates = utilisation_percent(snapshot, "cpu")
    assert rates[0] == 50.0
    assert np.isnan(rates[1])


def test_imbalance_is_the_deviation_over_the_resources_that_a_node_offers() -> None:
    cpu, memory, gpu = np.array([0.9, 0.5, 0.4]), np.array([0.5, 0.5, np.nan]), np.array([0.7, 0.5, np.nan])
    assert node_imbalance([cpu, memory])[0] == pytest.approx(0.2)  # half the difference of two
    assert node_imbalance([cpu, memory, gpu])[1:].tolist() == [0.0, 0.0]


def test_mean_and_deviation_of_no_values_are_zero() -> None:
    assert mean_and_deviation(np.zeros(0)) == (0.0, 0.0)


def test_overview_leaves_free_nodes_out_of_the_mean_utilisation() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("p", "4", on="a")])
    assert cluster_overview(snapshot, ["cpu"]) == {"nodes": 2, "freeNodes": 1, "utilisation.cpu": 40.0}


def test_node_without_ready_condition_is_ready() -> None:
    assert ready_rows(snapshot_of([node_of_ten("a")], [])).tolist() == [True]
