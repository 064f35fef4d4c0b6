"""The strategy LoadAware: pods move from nodes with a high measured load to nodes with a low one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from restow.model.objects import ContainerMetrics, Node, NodeMetrics, ObjectMeta, Pod, PodMetrics
from restow.model.resources import Vector
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.planning.arguments import read_load_aware
from restow.planning.plan import Plan
from restow.planning.strategies import make_plan
from restow.planning.usage_samples import UsageSample, UsageSamples, samples_from_metrics
from tests.planning.clusters import (
    NOW,
    app,
    move_triples,
    node_of_ten,
    plan_request,
    refusal_reasons,
    snapshot_of,
    with_annotations,
)


def usage_samples(nodes: Mapping[str, str], pods: Mapping[str, str], *, age: float = 30) -> UsageSamples:
    """Cores that nodes and pods use."""
    at = format_time(NOW - age)
    by_node = [
        NodeMetrics(metadata=ObjectMeta(name=name), timestamp=at, usage={"cpu": cpu}) for name, cpu in nodes.items()
    ]
    by_pod = [
        PodMetrics(
            metadata=ObjectMeta(name=name, namespace="default"),
            timestamp=at,
            containers=[ContainerMetrics(name="main", usage={"cpu": cpu})],
        )
        for name, cpu in pods.items()
    ]
    return samples_from_metrics(by_node, by_pod)


LIMITS = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 70}}


def load_aware_plan(nodes: Sequence[Node], pods: Sequence[Pod], use: UsageSamples | None, **arguments: Any) -> Plan:
    snapshot = snapshot_of(nodes, pods)
    last_migrations = arguments.pop("last_migrations", {})
    request = plan_request(snapshot, {**LIMITS, **arguments}, measured_usage=use, last_migrations=last_migrations)
    return make_plan("load-aware", snapshot, request)


NODES = [node_of_ten("a"), node_of_ten("b"), node_of_ten("c")]
PODS = [app("big", on="a"), app("small", on="a")]
BUSY = {"a": "9", "b": "1", "c": "2"}


def test_heaviest_pods_move_to_the_least_loaded_node_until_the_source_is_not_busy() -> None:
    plan = load_aware_plan(NODES, PODS, usage_samples(BUSY, {"big": "3", "small": "1"}))
    assert move_triples(plan) == [("big", "a", "b")]
    assert (plan.before["busyNodes"], plan.after["busyNodes"]) == (1, 0)


def test_target_does_not_become_busy() -> None:
    plan = load_aware_plan(
        NODES, PODS, usage_samples({"a": "9", "b": "3900m", "c": "3900m"}, {"big": "4", "small": "1"})
    )
    assert move_triples(plan) == [("small", "a", "b")]
    assert "and with it each would be above targetThresholds" in refusal_reasons(plan)["big"]


def test_pods_without_usage_samples_stay() -> None:
    plan = load_aware_plan(NODES, PODS, usage_samples(BUSY, {"small": "3"}))
    assert move_triples(plan) == [("small", "a", "b")]
    assert refusal_reasons(plan)["big"] == "its usage is not measured"


def test_pod_that_uses_nothing_of_the_overused_resource_stays() -> None:
    plan = load_aware_plan(NODES, PODS, usage_samples(BUSY, {"big": "0"}))
    assert not plan.moves
    assert refusal_reasons(plan)["big"] == "it uses no cpu, which is overused on its node"


def test_pod_stays_once_the_resource_it_uses_is_not_overused_any_more() -> None:
    idle = UsageSample(NOW, {"cpu": 1000, "memory": 1})
    full = UsageSample(NOW, {"cpu": 9000, "memory": 9 * 1024**3})
    pods = {
        ("default", "big"): UsageSample(NOW, {"cpu": 3000, "memory": 0}),
        ("default", "small"): UsageSample(NOW, {"cpu": 2000, "memory": 0}),
    }
    limits = {"thresholds": {"cpu": 40, "memory": 40}, "targetThresholds": {"cpu": 70, "memory": 70}}
    plan = load_aware_plan(NODES, PODS, UsageSamples({"a": full, "b": idle, "c": idle}, pods), **limits)
    assert move_triples(plan) == [("big", "a", "b")]
    assert refusal_reasons(plan)["small"] == "it uses no memory, which is overused on its node"


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        pytest.param(None, "measured usage is not available: usage metrics were not read", id="metrics were not read"),
        pytest.param(
            usage_samples({}, {}),
            "measured usage is not available: metrics.k8s.io reports no node",
            id="metrics of no node",
        ),
        pytest.param(
            usage_samples(BUSY, {"big": "3"}, age=400),
            "3 nodes were measured more than 300s ago",
            id="samples are too old",
        ),
        pytest.param(
            usage_samples({"a": "5"}, {}), "2 of 3 Ready nodes are not measured", id="some nodes are not measured"
        ),
        pytest.param(
            usage_samples(dict.fromkeys("abc", "5"), {}), "none of 3 measured nodes is above", id="no node is busy"
        ),
        pytest.param(
            usage_samples({"a": "9", "b": "5"}, {}), "0 of 2 measured nodes are below thresholds", id="no node is idle"
        ),
    ],
)
def test_no_pod_moves_without_recent_samples_busy_and_idle_nodes(use: UsageSamples | None, reason: str) -> None:
    plan = load_aware_plan(NODES, PODS, use)
    assert not plan.moves and any(reason in refusal.reason for refusal in plan.refusals), plan.refusals


@pytest.mark.parametrize(
    ("nodes", "pods", "moved"),
    [
        pytest.param({"cpu": 9000, "memory": 1}, {"cpu": 3000, "memory": 1}, True, id="all resources are measured"),
        pytest.param({"cpu": 9000}, {"cpu": 3000, "memory": 1}, False, id="nodes have cpu samples only"),
        pytest.param({"cpu": 9000, "memory": 1}, {"cpu": 3000}, False, id="pods have cpu samples only"),
    ],
)
def test_node_or_pod_that_is_measured_in_part_is_ignored(nodes: Vector, pods: Vector, moved: bool) -> None:
    idle = {"cpu": 1000, "memory": 1}
    use = UsageSamples(
        {"a": UsageSample(NOW, nodes), "b": UsageSample(NOW, idle), "c": UsageSample(NOW, idle)},
        {("default", "big"): UsageSample(NOW, pods)},
    )
    limits = {"thresholds": {"cpu": 40, "memory": 40}, "targetThresholds": {"cpu": 70, "memory": 70}}
    plan = load_aware_plan(NODES, PODS, use, **limits)
    assert bool(plan.moves) is moved
    reason = any("1 of 3 Ready nodes are not measured" in refusal.reason for refusal in plan.refusals)
    assert reason is ("memory" not in nodes)


def test_load_aware_starts_with_more_idle_nodes_than_number_of_nodes() -> None:
    assert not load_aware_plan(NODES, PODS, usage_samples(BUSY, {"big": "3"}), numberOfNodes=2).moves
    assert load_aware_plan(NODES, PODS, usage_samples(BUSY, {"big": "3"}), numberOfNodes=1).moves


def test_cordoned_node_is_no_target() -> None:
    closed = [node_of_ten("a"), node_of_ten("b", unschedulable=True), node_of_ten("c")]
    assert move_triples(load_aware_plan(closed, PODS, usage_samples(BUSY, {"big": "3"}))) == [("big", "a", "c")]


@pytest.mark.parametrize("node", ["a", "b"], ids=["a source", "a target"])
def test_node_rests_within_the_cool_down_after_a_migration(node: str) -> None:
    touched = {node: NOW - 100}
    plan = load_aware_plan(
        NODES[:2], PODS, usage_samples(BUSY, {"big": "3"}), coolDownTime=600, last_migrations=touched
    )
    assert not plan.moves
    reason = "1 of 2 measured nodes rest after a migration less than 600s ago"
    assert reason in [refusal.reason for refusal in plan.refusals]
    assert load_aware_plan(
        NODES[:2], PODS, usage_samples(BUSY, {"big": "3"}), coolDownTime=60, last_migrations=touched
    ).moves


def test_pod_does_not_move_back_within_the_cool_down() -> None:
    notes = {"restow.sh/moved-at": format_time(NOW - 100), "restow.sh/moved-from": "b"}
    pods = [with_annotations(app("big", on="a"), notes)]
    assert not load_aware_plan(NODES, pods, usage_samples(BUSY, {"big": "3"}), coolDownTime=600).moves


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"thresholds": {"cpu": 80}}, "thresholds.cpu: is 80, above targetThresholds.cpu, which is 70"),
        ({"thresholds": {"disk": 8}}, "thresholds.disk: only cpu, memory and pods are measured"),
        ({"maxAge": "0s"}, "maxAge: must be above 0"),
        ({"numberOfNodes": -1}, "numberOfNodes: must not be negative"),
        ({"coolDownTime": -1}, "coolDownTime: must not be negative"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_wrong_load_aware_arguments_are_refused_with_their_path(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(WireError) as error:
        read_load_aware({**LIMITS, **arguments})
    assert reason in str(error.value)
