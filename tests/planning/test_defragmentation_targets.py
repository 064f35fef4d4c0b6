"""The targets of the strategy Defragmentation: which nodes a pod may move to, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    SelectorSpec,
    Taint,
    TopologySpreadConstraint,
)
from tests.model.cluster.builders import pod
from tests.planning.clusters import app, move_triples, node_of_ten, refusal_reasons
from tests.planning.defragmentation_plans import bare_pod, defragmentation_plan

HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("cpu", "moved"),
    [
        pytest.param("7", False, id="at the defragment threshold"),
        pytest.param("7001m", True, id="above the threshold"),
        pytest.param("9400m", True, id="below protection, with room to it"),
        pytest.param("9500m", False, id="at protection"),
    ],
)
def test_targets_are_strictly_between_their_thresholds(cpu: str, moved: bool) -> None:
    pods = [app("p", "100m", on="a"), bare_pod("f", cpu, "t")]
    assert bool(defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods).moves) is moved


def test_most_used_target_is_filled_first_and_usage_follows_the_moves() -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="a"), bare_pod("f", "8", "t"), bare_pod("g", "7500m", "u")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t"), node_of_ten("u")], pods)
    assert move_triples(plan) == [("p", "a", "t"), ("q", "a", "u")]  # t is at 90 now: one more would be above 95


def test_equally_used_targets_are_filled_by_name() -> None:
    pods = [app("p", "1", on="a"), bare_pod("f", "8", "u"), bare_pod("g", "8", "t")]
    assert move_triples(defragmentation_plan([node_of_ten("a"), node_of_ten("t"), node_of_ten("u")], pods)) == [
        ("p", "a", "t")
    ]


def test_protection_threshold_is_reached_and_never_exceeded() -> None:
    pods = [app("p", "1", on="a"), app("q", "400m", on="a"), bare_pod("f", "8500m", "t")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods)
    assert move_triples(plan) == [("p", "a", "t")]
    assert (
        refusal_reasons(plan)["q"] == "0/1 target nodes are available: 1 would be above protectionThresholds (cpu 95%)"
    )


@pytest.mark.parametrize(("arguments", "moved"), [({}, 1), ({"protectionThresholds": {"memory": 80}}, 0)], ids=str)
def test_protection_threshold_of_another_resource_is_kept(arguments: dict[str, Any], moved: int) -> None:
    pods = [app("p", "1", "4Gi", on="a"), app("f", "8", "5Gi", on="t", kind="DaemonSet")]
    assert len(defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods, **arguments).moves) == moved


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        pytest.param({"unschedulable": True}, "were unschedulable", id="cordoned"),
        pytest.param({"taints": [Taint(key="x", effect="NoSchedule")]}, "untolerated taint", id="tainted"),
    ],
)
def test_target_has_to_pass_node_filters_of_the_scheduler(target: dict[str, Any], reason: str) -> None:
    pods = [app("p", "1", on="a"), bare_pod("f", "8", "t")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t", **target)], pods)
    assert plan.moves == ()
    assert reason in refusal_reasons(plan)["p"]


NEAR = PodAffinityTerm(topology_key=HOST, label_selector=SelectorSpec(match_labels={"app": "cache"}))
AWAY = PodAffinityTerm(topology_key=HOST, label_selector=SelectorSpec(match_labels={"app": "full"}))
EVEN = TopologySpreadConstraint(
    max_skew=1, topology_key=HOST, when_unsatisfiable="DoNotSchedule", label_selector=AWAY.label_selector
)
SSD = NodeSelectorTerm(match_expressions=[SelectorRequirement(key="disk", operator="In", values=["ssd"])])


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        pytest.param({"node_selector": {"disk": "ssd"}}, "node affinity/selector", id="a node selector"),
        pytest.param(
            {"affinity": Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[SSD])))},
            "node affinity/selector",
            id="node affinity",
        ),
        pytest.param(
            {"affinity": Affinity(pod_affinity=PodAffinity(required=[NEAR]))}, "pod affinity", id="pod affinity"
        ),
        pytest.param(
            {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[AWAY]))}, "anti-affinity", id="anti-affinity"
        ),
        pytest.param(
            {"topology_spread_constraints": [EVEN], "labels": {"app": "full"}}, "topology spread", id="hard spread"
        ),
    ],
)
def test_target_has_to_pass_affinity_and_spread_of_the_pod(wish: dict[str, Any], reason: str) -> None:
    pods = [
        app("p", "1", on="a", **wish),
        pod("f", {"cpu": "8"}, on="t", labels={"app": "full"}, phase="Running"),
        pod("c", {"cpu": "100m"}, on="a", labels={"app": "cache"}, phase="Running"),
    ]
    nodes = [node_of_ten(name, labels={HOST: name}) for name in "at"]
    plan = defragmentation_plan(nodes, pods)
    assert plan.moves == ()
    assert reason in refusal_reasons(plan)["p"]


def test_target_has_to_pass_anti_affinity_of_other_pods() -> None:
    term = PodAffinityTerm(topology_key=HOST, label_selector=SelectorSpec(match_labels={"app": "db"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    pods = [app(name, "1", on="a" if name == "p" else "b", labels={"app": "db"}, affinity=apart) for name in "pq"]
    nodes = [node_of_ten(name, labels={HOST: name}) for name in "abt"]
    plan = defragmentation_plan(nodes, [*pods, bare_pod("f", "7500m", "t")])
    assert move_triples(plan) == [("p", "a", "t")]
    assert "anti-affinity" in refusal_reasons(plan)["q"]


def test_two_pods_do_not_get_the_same_free_room() -> None:
    pods = [app("p", "100m", "6Gi", on="a"), app("q", "100m", "6Gi", on="b"), bare_pod("f", "8", "t")]
    assert len(defragmentation_plan([node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], pods).moves) == 1
