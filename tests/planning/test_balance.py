"""The strategy NodeResourceBalance, rule by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from restow.model.objects import Node, Pod
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.planning.arguments import read_balance
from restow.planning.balance import imbalance_rates, imbalance_threshold
from restow.planning.move_ordering import OrderedMoves
from restow.planning.plan import Plan, PlanRefusal
from restow.planning.strategies import make_plan
from restow.scheduling.framework import Cycle
from tests.model.cluster.builders import node, pod
from tests.planning.clusters import (
    ENGINE,
    NOW,
    app,
    move_triples,
    node_of_ten,
    not_ready_node,
    plan_request,
    refusal_reasons,
    snapshot_of,
    with_annotations,
)


def balance_plan(nodes: Sequence[Node], pods: Sequence[Pod], **fields: Any) -> Plan:
    return balance_plan_of(snapshot_of(nodes, pods), **fields)


def balance_plan_of(
    snapshot: Snapshot, *, max_moves: int = 50, last_migrations: dict[str, float] | None = None, **arguments: Any
) -> Plan:
    request = plan_request(snapshot, arguments, max_moves=max_moves, last_migrations=last_migrations or {})
    return make_plan("balance", snapshot, request)


def daemon_pod(name: str, cpu: str, memory: str, on: str) -> Pod:
    """A DaemonSet pod, which stays on its node."""
    return app(name, cpu, memory, on=on, of="agents", kind="DaemonSet")


def uneven_cluster(*movable: Pod) -> tuple[list[Node], list[Pod]]:
    """Node a is full of cpu, node b of memory, c and d are even."""
    nodes = [node_of_ten(name) for name in "abcd"]
    pods = [
        daemon_pod("a0", "5", "3Gi", "a"),
        daemon_pod("b0", "4", "6Gi", "b"),
        daemon_pod("c0", "5", "5Gi", "c"),
        daemon_pod("d0", "5", "5Gi", "d"),
    ]
    return nodes, [*pods, *movable]


# --- story 1 ----------------------------------------------------------------------------------------------------------


def opposite_nodes() -> Snapshot:
    """Node a: 90% of cpu, 50% of memory; node b the other way round."""
    pods = [app(f"a{number}", "3", "1Gi", on="a") for number in range(3)]
    pods += [app(f"b{number}", "1", "3Gi", on="b") for number in range(3)]
    return snapshot_of(
        [node_of_ten("a"), node_of_ten("b")],
        [*pods, daemon_pod("fa", "0", "2Gi", "a"), daemon_pod("fb", "2", "0", "b")],
    )


NEWCOMER = pod("newcomer", {"cpu": "1500m", "memory": "1536Mi"})


def test_balance_makes_room_for_a_pod_that_fitted_on_no_node() -> None:
    snapshot = opposite_nodes()
    assert not len(ENGINE.feasible_rows(Cycle(NEWCOMER, snapshot, NOW)))
    plan = balance_plan_of(snapshot, maxThreshold=0.1)
    assert plan.moves
    for move in plan.moves:
        moved = snapshot.pods.known[move.uid].pod
        snapshot.apply_pod(replace(moved, spec=replace(moved.spec, node_name=move.target)))
    assert len(ENGINE.feasible_rows(Cycle(NEWCOMER, snapshot, NOW)))


def test_measures_after_a_plan_are_those_before_the_next_one() -> None:
    snapshot = opposite_nodes()
    plan = balance_plan_of(snapshot, maxThreshold=0.1)
    for move in plan.moves:
        moved = snapshot.pods.known[move.uid].pod
        snapshot.apply_pod(replace(moved, spec=replace(moved.spec, node_name=move.target)))
    assert plan.moves
    assert plan.after == balance_plan_of(snapshot, maxThreshold=0.1).before | {"threshold": plan.after["threshold"]}


def test_measures_after_a_plan_leave_out_dropped_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = OrderedMoves((), (PlanRefusal(namespace="default", pod="a0", reason="no order"),))
    monkeypatch.setattr("restow.planning.balance.order_moves", lambda *asked, **limits: dropped)
    plan = balance_plan_of(opposite_nodes(), maxThreshold=0.1)
    assert plan.after == plan.before


def test_two_equally_imbalanced_nodes_are_not_above_mean_plus_deviation() -> None:
    """Mean 0.2 and deviation 0: no node is strictly above the threshold. That is what `maxThreshold` is for."""
    plan = balance_plan_of(opposite_nodes())
    assert plan.moves == ()
    assert refusal_reasons(plan) == {"": "0 of 2 nodes are above the threshold 0.200"}


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_imbalance_rate_of_two_resources_is_half_their_difference() -> None:
    snapshot = snapshot_of([node_of_ten("a")], [app("p", "9", "5Gi", on="a")])
    assert imbalance_rates(snapshot, ["cpu", "memory"]).tolist() == pytest.approx([0.2])


def test_imbalance_rate_of_three_resources_is_their_standard_deviation() -> None:
    snapshot = snapshot_of([node_of_ten("a")], [app("p", "9", "5Gi", on="a")])
    expected = float(np.std([0.9, 0.5, 1 / 20]))
    assert imbalance_rates(snapshot, ["cpu", "memory", "pods"]).tolist() == pytest.approx([expected])


def test_imbalance_rate_leaves_out_resources_that_a_node_does_not_offer() -> None:
    snapshot = snapshot_of([node("a", {"cpu": "10", "pods": "20"})], [app("p", "9", "0", on="a")])
    assert imbalance_rates(snapshot, ["cpu", "memory"]).tolist() == [0.0]


def test_threshold_is_mean_plus_deviation_of_ready_nodes_or_max_threshold() -> None:
    rates, ready = np.array([0.0, 0.2, 0.9]), np.array([True, True, False])
    assert imbalance_threshold(rates, ready, None) == pytest.approx(0.1 + 0.1)
    assert imbalance_threshold(rates, ready, 0.15) == 0.15
    assert imbalance_threshold(rates, ready, 0.5) == pytest.approx(0.2)


def test_nodes_that_are_not_ready_are_neither_sources_nor_targets() -> None:
    nodes, pods = uneven_cluster(app("p", "3", "0", on="a"))
    assert balance_plan([not_ready_node(nodes[0]), *nodes[1:]], pods).moves == ()
    assert balance_plan([nodes[0], not_ready_node(nodes[1]), *nodes[2:]], pods).moves == ()


def test_most_imbalanced_node_is_the_first_source() -> None:
    nodes, pods = uneven_cluster(app("p", "3", "0", on="a"), app("q", "2", "0", on="e"))
    pods += [daemon_pod("e0", "5", "4Gi", "e"), daemon_pod("f0", "3", "6Gi", "f")]
    plan = balance_plan([*nodes, node_of_ten("e"), node_of_ten("f")], pods, maxThreshold=0.1)
    assert [one[1] for one in move_triples(plan)] == ["a", "e"]


# --- pods -------------------------------------------------------------------------------------------------------------


def test_pod_stays_if_its_removal_would_raise_the_imbalance() -> None:
    nodes, pods = uneven_cluster(app("p", "0", "1Gi", on="a"))
    plan = balance_plan(nodes, pods, maxThreshold=0.01)
    assert plan.moves == ()
    assert refusal_reasons(plan)["p"] == "without it the imbalance of a would rise from 0.050 to 0.100"


def test_pods_move_off_a_node_until_it_is_not_above_the_threshold() -> None:
    nodes, pods = uneven_cluster(*(app(f"p{number}", "1", "0", on="a") for number in range(4)))
    plan = balance_plan(nodes, pods, maxThreshold=0.2)
    assert len(plan.moves) == 2  # 0.9 and 0.3 of a: 0.3; two less: 0.2
    assert plan.after["nodesAbove"] <= 1


def candidate(name: str, **fields: Any) -> Pod:
    """A candidate that is like the others but for one thing."""
    metadata = {key: fields.pop(key) for key in ("annotations", "created", "qos") if key in fields}
    one = app(name, fields.pop("cpu", "1"), "0", on="a", **fields)
    one = with_annotations(one, metadata.get("annotations") or {})
    one = replace(one, metadata=replace(one.metadata, creation_timestamp=format_time(metadata.get("created", 1000))))
    return replace(one, status=replace(one.status, qos_class=metadata.get("qos", "Burstable")))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            {"labels": {"koordinator.sh/priority-class": "koord-free"}, "priority": 9},
            {"labels": {"koordinator.sh/priority-class": "koord-prod"}, "priority": 1},
            id="1 lower class of priority, before priority",
        ),
        pytest.param({"priority": 1, "qos": "Guaranteed"}, {"priority": 2, "qos": "BestEffort"}, id="2 lower priority"),
        pytest.param(
            {"qos": "BestEffort", "labels": {"koordinator.sh/qosClass": "LSE"}},
            {"qos": "Burstable", "labels": {"koordinator.sh/qosClass": "LSR"}},
            id="3 lower quality of service of Kubernetes, before Koordinator's",
        ),
        pytest.param(
            {
                "labels": {"koordinator.sh/qosClass": "LS"},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"},
            },
            {"labels": {"koordinator.sh/qosClass": "LSR"}},
            id="4 lower quality of service of Koordinator",
        ),
        pytest.param(
            {"annotations": {"scheduling.koordinator.sh/eviction-cost": "9"}},
            {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}},
            id="5 lower deletion cost",
        ),
        pytest.param(
            {},
            {"annotations": {"scheduling.koordinator.sh/eviction-cost": "1"}, "cpu": "2"},
            id="6 lower eviction cost",
        ),
        pytest.param({"cpu": "2", "created": 1}, {"cpu": "1", "created": 9}, id="7 lower rate without it"),
        pytest.param({"created": 9}, {"created": 1}, id="8 newer"),
    ],
)
@pytest.mark.parametrize("names", [("p", "q"), ("q", "p")], ids=["by name", "against names"])
def test_cheapest_pod_to_evict_moves_first(
    names: tuple[str, str], first: dict[str, Any], second: dict[str, Any]
) -> None:
    nodes, pods = uneven_cluster(candidate(names[0], **dict(first)), candidate(names[1], **dict(second)))
    assert move_triples(balance_plan(nodes, pods, max_moves=1, maxThreshold=0.05))[0][0] == names[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(
            {"evictableNamespaces": {"exclude": ["default"]}}, "evictableNamespaces leaves out", id="namespace"
        ),
        pytest.param({"labelSelector": {"matchLabels": {"a": "b"}}}, "its labels do not match a=b", id="labels"),
    ],
)
def test_pods_left_out_by_arguments_stay(arguments: dict[str, Any], reason: str) -> None:
    plan = balance_plan(*uneven_cluster(app("p", "3", "0", on="a")), **arguments)
    assert plan.moves == ()
    assert reason in refusal_reasons(plan)["p"]


# --- targets ----------------------------------------------------------------------------------------------------------


def test_target_with_the_largest_gain_is_chosen() -> None:
    assert move_triples(balance_plan(*uneven_cluster(app("p", "3", "0", on="a")))) == [("p", "a", "b")]


def test_pod_stays_if_no_target_would_gain() -> None:
    nodes, pods = uneven_cluster(app("p", "3", "0", on="a"))
    plan = balance_plan([nodes[0], *nodes[2:]], [pod for pod in pods if pod.spec.node_name != "b"])
    assert plan.moves == ()
    assert refusal_reasons(plan)["p"] == "2 other nodes have room for it, but it would lower the imbalance of none"


def test_pods_without_requests_do_not_move() -> None:
    plan = balance_plan(*uneven_cluster(app("idle", "0", "0", on="a"), app("p", "3", "0", on="a")))
    assert move_triples(plan) == [("p", "a", "b")]


def test_nodes_exchange_pods_of_their_overused_resources() -> None:
    pods = [
        app("p", "5", "0", on="a"),
        app("q", "0", "5Gi", on="b"),
        daemon_pod("fa", "4", "1Gi", "a"),
        daemon_pod("fb", "1", "4Gi", "b"),
    ]
    plan = balance_plan([node_of_ten("a"), node_of_ten("b")], pods, maxThreshold=0.1)
    assert set(move_triples(plan)) == {("p", "a", "b"), ("q", "b", "a")}
    assert plan.after["nodesAbove"] == 0


# --- never in circles -------------------------------------------------------------------------------------------------


def test_pod_does_not_move_back_within_the_cool_down() -> None:
    came = {"restow.sh/moved-at": format_time(NOW - 60), "restow.sh/moved-from": "b"}
    nodes, pods = uneven_cluster(with_annotations(app("p", "3", "0", on="a"), came))
    assert move_triples(balance_plan(nodes, pods)) == [("p", "a", "b")]
    resting = balance_plan(nodes, pods, coolDownTime=600)
    assert resting.moves == ()
    assert refusal_reasons(resting)[""].endswith("; 1 of them rest after a migration less than 600s ago")


def test_repeated_balance_runs_come_to_rest() -> None:
    snapshot = opposite_nodes()
    seen = [float(imbalance_rates(snapshot, ["cpu", "memory"]).sum())]
    for _ in range(10):
        plan = balance_plan_of(snapshot, maxThreshold=0.05)
        for move in plan.moves:
            moved = snapshot.pods.known[move.uid].pod
            snapshot.apply_pod(replace(moved, spec=replace(moved.spec, node_name=move.target)))
        seen.append(float(imbalance_rates(snapshot, ["cpu", "memory"]).sum()))
    assert seen == sorted(seen, reverse=True)
    assert plan.moves == ()


def test_limit_of_moves_is_kept_and_reported() -> None:
    plan = balance_plan(
        *uneven_cluster(*(app(f"p{number}", "1", "0", on="a") for number in range(4))), max_moves=1, maxThreshold=0.1
    )
    assert len(plan.moves) == 1
    reason = "1 node stays above the threshold 0.100; the highest is a with 0.250; the limit of 1 move is reached"
    assert refusal_reasons(plan)[""] == reason


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"resources": ["cpu"]}, "resources: must list at least two different resources", id="one resource"
        ),
        pytest.param({"resources": ["cpu", "cpu"]}, "lists cpu, cpu", id="one resource twice"),
        pytest.param({"maxThreshold": 15}, "maxThreshold: must be from 0 to 1, is 15", id="percentage above 100"),
        pytest.param({"maxTreshold": 0.1}, "maxTreshold: unknown field", id="misspelt argument"),
    ],
)
def test_wrong_balance_arguments_are_refused_with_their_path(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_balance(arguments)
    assert message in str(caught.value)
