"""LoadAware: pods go from nodes that are really busy to nodes that are really idle."""

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
from tests.planning.clusters import NOW, annotated, app, cluster, moves, reasons, request, ten


def used(nodes: Mapping[str, str], pods: Mapping[str, str], *, age: float = 30) -> UsageSamples:
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


def planned(nodes: Sequence[Node], pods: Sequence[Pod], use: UsageSamples | None, **arguments: Any) -> Plan:
    snapshot = cluster(nodes, pods)
    last_migrations = arguments.pop("last_migrations", {})
    asked = request(snapshot, {**LIMITS, **arguments}, measured_usage=use, last_migrations=last_migrations)
    return make_plan("load-aware", snapshot, asked)


NODES = [ten("a"), ten("b"), ten("c")]
PODS = [app("big", on="a"), app("small", on="a")]
BUSY = {"a": "9", "b": "1", "c": "2"}


def test_the_heaviest_pod_goes_to_the_idlest_node_until_the_source_is_not_busy() -> None:
    found = planned(NODES, PODS, used(BUSY, {"big": "3", "small": "1"}))
    assert moves(found) == [("big", "a", "b")]
    assert (found.before["busyNodes"], found.after["busyNodes"]) == (1, 0)


def test_a_target_does_not_become_busy_itself() -> None:
    found = planned(NODES, PODS, used({"a": "9", "b": "3900m", "c": "3900m"}, {"big": "4", "small": "1"}))
    assert moves(found) == [("small", "a", "b")]
    assert "and with it each would be above targetThresholds" in reasons(found)["big"]


def test_pods_without_metrics_are_left_alone() -> None:
    found = planned(NODES, PODS, used(BUSY, {"small": "3"}))
    assert moves(found) == [("small", "a", "b")]
    assert reasons(found)["big"] == "its usage is not measured"


def test_who_uses_nothing_of_what_is_overused_stays() -> None:
    found = planned(NODES, PODS, used(BUSY, {"big": "0"}))
    assert not found.moves
    assert reasons(found)["big"] == "it uses no cpu, which is overused on its node"


def test_who_uses_only_what_is_not_overused_any_more_stays() -> None:
    idle = UsageSample(NOW, {"cpu": 1000, "memory": 1})
    full = UsageSample(NOW, {"cpu": 9000, "memory": 9 * 1024**3})
    pods = {
        ("default", "big"): UsageSample(NOW, {"cpu": 3000, "memory": 0}),
        ("default", "small"): UsageSample(NOW, {"cpu": 2000, "memory": 0}),
    }
    limits = {"thresholds": {"cpu": 40, "memory": 40}, "targetThresholds": {"cpu": 70, "memory": 70}}
    found = planned(NODES, PODS, UsageSamples({"a": full, "b": idle, "c": idle}, pods), **limits)
    assert moves(found) == [("big", "a", "b")]
    assert reasons(found)["small"] == "it uses no memory, which is overused on its node"


@pytest.mark.parametrize(
    ("use", "told"),
    [
        pytest.param(None, "measured usage is not available: usage metrics were not read", id="metrics were not read"),
        pytest.param(
            used({}, {}), "measured usage is not available: metrics.k8s.io reports no node", id="metrics of no node"
        ),
        pytest.param(used(BUSY, {"big": "3"}, age=400), "3 nodes were measured more than 300s ago", id="long ago"),
        pytest.param(used({"a": "5"}, {}), "2 of 3 Ready nodes are not measured", id="some are not measured"),
        pytest.param(used(dict.fromkeys("abc", "5"), {}), "none of 3 measured nodes is above", id="nobody is busy"),
        pytest.param(used({"a": "9", "b": "5"}, {}), "0 of 2 measured nodes are below thresholds", id="nobody is idle"),
    ],
)
def test_nothing_moves_when(use: UsageSamples | None, told: str) -> None:
    found = planned(NODES, PODS, use)
    assert not found.moves and any(told in one.reason for one in found.refusals), found.refusals


@pytest.mark.parametrize(
    ("nodes", "pods", "moved"),
    [
        pytest.param({"cpu": 9000, "memory": 1}, {"cpu": 3000, "memory": 1}, True, id="all that matters is known"),
        pytest.param({"cpu": 9000}, {"cpu": 3000, "memory": 1}, False, id="of nodes only cpu"),
        pytest.param({"cpu": 9000, "memory": 1}, {"cpu": 3000}, False, id="of pods only cpu"),
    ],
)
def test_who_is_measured_in_part_is_not_measured(nodes: Vector, pods: Vector, moved: bool) -> None:
    idle = {"cpu": 1000, "memory": 1}
    use = UsageSamples(
        {"a": UsageSample(NOW, nodes), "b": UsageSample(NOW, idle), "c": UsageSample(NOW, idle)},
        {("default", "big"): UsageSample(NOW, pods)},
    )
    limits = {"thresholds": {"cpu": 40, "memory": 40}, "targetThresholds": {"cpu": 70, "memory": 70}}
    found = planned(NODES, PODS, use, **limits)
    assert bool(found.moves) is moved
    told = any("1 of 3 Ready nodes are not measured" in one.reason for one in found.refusals)
    assert told is ("memory" not in nodes)


def test_enough_nodes_have_to_be_idle() -> None:
    assert not planned(NODES, PODS, used(BUSY, {"big": "3"}), numberOfNodes=2).moves
    assert planned(NODES, PODS, used(BUSY, {"big": "3"}), numberOfNodes=1).moves


def test_the_scheduler_has_its_say() -> None:
    closed = [ten("a"), ten("b", unschedulable=True), ten("c")]
    assert moves(planned(closed, PODS, used(BUSY, {"big": "3"}))) == [("big", "a", "c")]


@pytest.mark.parametrize("node", ["a", "b"], ids=["a source", "a target"])
def test_a_node_that_a_migration_touched_rests(node: str) -> None:
    touched = {node: NOW - 100}
    found = planned(NODES[:2], PODS, used(BUSY, {"big": "3"}), coolDownTime=600, last_migrations=touched)
    assert not found.moves
    told = "1 of 2 measured nodes rest after a migration less than 600s ago"
    assert told in [one.reason for one in found.refusals]
    assert planned(NODES[:2], PODS, used(BUSY, {"big": "3"}), coolDownTime=60, last_migrations=touched).moves


def test_what_was_moved_here_lately_is_not_sent_back() -> None:
    notes = {"restow.sh/moved-at": format_time(NOW - 100), "restow.sh/moved-from": "b"}
    pods = [annotated(app("big", on="a"), notes)]
    assert not planned(NODES, pods, used(BUSY, {"big": "3"}), coolDownTime=600).moves


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"thresholds": {"cpu": 80}}, "thresholds.cpu: is 80, above targetThresholds.cpu, which is 70"),
        ({"thresholds": {"disk": 8}}, "thresholds.disk: only cpu, memory and pods are measured"),
        ({"maxAge": "0s"}, "maxAge: must be above 0"),
        ({"numberOfNodes": -1}, "numberOfNodes: must not be negative"),
        ({"coolDownTime": -1}, "coolDownTime: must not be negative"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_mistakes_are_told_with_their_path(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(WireError) as error:
        read_load_aware({**LIMITS, **arguments})
    assert told in str(error.value)
