"""Defragmentation, rule by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    ResourceRequirements,
    SelectorRequirement,
    SelectorSpec,
    Taint,
    TopologySpreadConstraint,
)
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
from restow.planning.plan import Plan
from restow.planning.strategies import make_plan
from tests.model.cluster.builders import node, pod, reservation
from tests.planning.clusters import NOW, annotated, app, cluster, moves, not_ready, owner, reasons, request, ten

HOST = "kubernetes.io/hostname"


CORE = Container(name="main", resources=ResourceRequirements(requests={"cpu": "1"}))
LARGE = Container(name="init", resources=ResourceRequirements(requests={"cpu": "3"}))
SIDECAR = replace(CORE, restart_policy="Always")


def filled(name: str, cpu: str, on: str) -> Pod:
    """Somebody who stays: nobody would make it again."""
    return pod(name, {"cpu": cpu}, on=on, phase="Running")


def bound(requests: dict[str, str], name: str, on: str) -> Pod:
    return pod(name, requests, on=on, owner=owner("app"), phase="Running")


def planned(nodes: Sequence[Node], pods: Sequence[Pod], **fields: Any) -> Plan:
    return plan_of(cluster(nodes, pods), **fields)


def plan_of(
    snapshot: Snapshot, *, max_moves: int = 50, last_migrations: dict[str, float] | None = None, **arguments: Any
) -> Plan:
    asked = request(snapshot, arguments, max_moves=max_moves, last_migrations=last_migrations or {})
    return make_plan("defragmentation", snapshot, asked)


# --- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "moved"),
    [
        pytest.param("2900m", True, id="below the low threshold"),
        pytest.param("3", False, id="exactly at it"),
        pytest.param("3100m", False, id="above it"),
    ],
)
def test_a_source_is_strictly_below_the_low_threshold(cpu: str, moved: bool) -> None:
    large = node("b", {"cpu": "40", "memory": "40Gi", "pods": "20"})
    found = planned([ten("a"), large], [app("p", cpu, on="a"), filled("f", "32", "b")])
    assert bool(found.moves) is moved


def test_the_least_used_source_comes_first() -> None:
    pods = [app("p", "2", on="a"), app("q", "1", on="b"), filled("f", "8", "t")]
    found = planned([ten("a"), ten("b"), ten("t")], pods, protectionThresholds={"cpu": 90})
    assert moves(found) == [("q", "b", "t")]


def test_sources_that_are_alike_come_by_name() -> None:
    pods = [app("p", "1", on="b"), app("q", "1", on="a"), filled("f", "8", "t")]
    found = planned([ten("a"), ten("b"), ten("t")], pods, protectionThresholds={"cpu": 90})
    assert moves(found) == [("q", "a", "t")]


def test_critical_nodes_are_no_sources_but_may_be_targets() -> None:
    critical = {"critical": "true"}
    pods = [app("p", "1", on="a"), app("q", "1", on="b"), filled("f", "8", "t")]
    found = planned([ten("a", labels=critical), ten("b"), ten("t", labels=critical)], pods)
    assert moves(found) == [("q", "b", "t")]


@pytest.mark.parametrize(
    ("since", "moved"),
    [
        pytest.param(599, False, id="within the cool-down"),
        pytest.param(600, True, id="after it"),
        pytest.param(-60, False, id="by a clock that is ahead"),
        pytest.param(-600, True, id="by a clock that was wrong"),
    ],
)
def test_a_source_rests_after_a_migration(since: int, moved: bool) -> None:
    one, full = app("p", "1", on="a"), filled("f", "8", "t")
    found = planned([ten("a"), ten("t")], [one, full], coolDownTime=600, last_migrations={"a": NOW - since})
    assert bool(found.moves) is moved
    came = {"restow.sh/moved-at": format_time(NOW - since), "restow.sh/moved-from": "b"}
    assert planned([ten("a"), ten("t")], [annotated(one, came), full], coolDownTime=600).moves == found.moves


def test_pods_that_were_moved_lately_make_both_nodes_rest() -> None:
    came = {"restow.sh/moved-at": format_time(NOW - 60), "restow.sh/moved-from": "b"}
    pods = [
        annotated(app("p", "1", on="a"), came),
        app("q", "1", on="b"),
        app("r", "1", on="c"),
        filled("f", "7500m", "t"),
    ]
    found = planned([ten("a"), ten("b"), ten("c"), ten("t")], pods, coolDownTime=600)
    assert moves(found) == [("r", "c", "t")]
    assert "2 of 3 sources rest after a migration less than 600s ago" in [one.reason for one in found.refusals]


@pytest.mark.parametrize(
    ("number", "moved"),
    [pytest.param(0, 2, id="any"), pytest.param(1, 2, id="more than asked for"), pytest.param(2, 0, id="not more")],
)
def test_only_more_sources_than_number_of_nodes_make_it_start(number: int, moved: int) -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="b"), filled("f", "7500m", "t")]
    found = planned([ten("a"), ten("b"), ten("t")], pods, numberOfNodes=number)
    assert len(found.moves) == moved
    assert (
        moved or reasons(found)[""] == "2 nodes are below lowThresholds (cpu 30%); numberOfNodes requires more than 2"
    )


# --- pods -------------------------------------------------------------------------------------------------------------


def test_large_requests_go_first() -> None:
    pods = [app("small", "1", on="a"), app("large", "1500m", on="a"), filled("f", "7500m", "t")]
    assert [one[0] for one in moves(planned([ten("a"), ten("t")], pods))] == ["large"]


@pytest.mark.parametrize(
    ("arguments", "stays", "reason"),
    [
        pytest.param({}, [], "", id="no restriction"),
        pytest.param(
            {"evictableNamespaces": {"exclude": ["x"]}},
            ["p"],
            "evictableNamespaces leaves out namespace x",
            id="excluded",
        ),
        pytest.param(
            {"evictableNamespaces": {"include": ["y"]}},
            ["p"],
            "evictableNamespaces leaves out namespace x",
            id="included",
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"tier": "batch"}}},
            ["q"],
            "its labels do not match tier=batch",
            id="labels",
        ),
    ],
)
def test_pods_may_be_left_out(arguments: dict[str, Any], stays: list[str], reason: str) -> None:
    pods = [
        app("p", "1", on="a", namespace="x", labels={"tier": "batch"}),
        app("q", "1", on="a", namespace="y"),
        filled("f", "7100m", "t"),
    ]
    found = planned([ten("a"), ten("t")], pods, **arguments)
    assert [name for name in reasons(found) if name] == stays
    assert not stays or reasons(found)[stays[0]] == reason


def test_pods_that_are_left_out_still_count_as_use() -> None:
    pods = [app("p", "2", on="a", namespace="x"), app("q", "2", on="a", namespace="y"), filled("f", "7500m", "t")]
    assert planned([ten("a"), ten("t")], pods, evictableNamespaces={"exclude": ["x"]}).moves == ()


def test_seats_of_reservations_count_as_use() -> None:
    snapshot = cluster([ten("a"), ten("t")], [app("p", "2", on="a"), filled("f", "7500m", "t")])
    snapshot.apply_reservation(reservation("r", {0: "a"}, requests={"cpu": "2"}))
    assert plan_of(snapshot).moves == ()


def test_who_may_not_move_is_named_with_the_reason() -> None:
    pods = [app("p", "1", on="a"), filled("bare", "1", "a"), filled("f", "7500m", "t")]
    found = planned([ten("a"), ten("t")], pods)
    assert reasons(found) == {"bare": "no controller would recreate it"}


# --- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "moved"),
    [
        pytest.param("7", False, id="at the defragment threshold"),
        pytest.param("7001m", True, id="above it"),
        pytest.param("9400m", True, id="below protection, with room to it"),
        pytest.param("9500m", False, id="at protection"),
    ],
)
def test_targets_are_strictly_between_their_thresholds(cpu: str, moved: bool) -> None:
    pods = [app("p", "100m", on="a"), filled("f", cpu, "t")]
    assert bool(planned([ten("a"), ten("t")], pods).moves) is moved


def test_the_most_used_target_comes_first_and_use_follows_the_moves() -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="a"), filled("f", "8", "t"), filled("g", "7500m", "u")]
    found = planned([ten("a"), ten("t"), ten("u")], pods)
    assert moves(found) == [("p", "a", "t"), ("q", "a", "u")]  # t is at 90 now: one more would be above 95


def test_targets_that_are_alike_come_by_name() -> None:
    pods = [app("p", "1", on="a"), filled("f", "8", "u"), filled("g", "8", "t")]
    assert moves(planned([ten("a"), ten("t"), ten("u")], pods)) == [("p", "a", "t")]


def test_protection_is_reached_and_never_exceeded() -> None:
    pods = [app("p", "1", on="a"), app("q", "400m", on="a"), filled("f", "8500m", "t")]
    found = planned([ten("a"), ten("t")], pods)
    assert moves(found) == [("p", "a", "t")]
    assert reasons(found)["q"] == "0/1 target nodes are available: 1 would be above protectionThresholds (cpu 95%)"


@pytest.mark.parametrize(("arguments", "moved"), [({}, 1), ({"protectionThresholds": {"memory": 80}}, 0)], ids=str)
def test_a_resource_that_is_not_the_type_may_be_protected_too(arguments: dict[str, Any], moved: int) -> None:
    pods = [app("p", "1", "4Gi", on="a"), app("f", "8", "5Gi", on="t", kind="DaemonSet")]
    assert len(planned([ten("a"), ten("t")], pods, **arguments).moves) == moved


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        pytest.param({"unschedulable": True}, "were unschedulable", id="cordoned"),
        pytest.param({"taints": [Taint(key="x", effect="NoSchedule")]}, "untolerated taint", id="tainted"),
    ],
)
def test_a_target_must_pass_the_filters_of_the_scheduler(target: dict[str, Any], reason: str) -> None:
    pods = [app("p", "1", on="a"), filled("f", "8", "t")]
    found = planned([ten("a"), ten("t", **target)], pods)
    assert found.moves == ()
    assert reason in reasons(found)["p"]


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
def test_so_must_it_for_what_the_pod_wants(wish: dict[str, Any], reason: str) -> None:
    pods = [
        app("p", "1", on="a", **wish),
        pod("f", {"cpu": "8"}, on="t", labels={"app": "full"}, phase="Running"),
        pod("c", {"cpu": "100m"}, on="a", labels={"app": "cache"}, phase="Running"),
    ]
    nodes = [ten(name, labels={HOST: name}) for name in "at"]
    found = planned(nodes, pods)
    assert found.moves == ()
    assert reason in reasons(found)["p"]


def test_so_must_it_for_what_other_pods_want() -> None:
    term = PodAffinityTerm(topology_key=HOST, label_selector=SelectorSpec(match_labels={"app": "db"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    pods = [app(name, "1", on="a" if name == "p" else "b", labels={"app": "db"}, affinity=apart) for name in "pq"]
    nodes = [ten(name, labels={HOST: name}) for name in "abt"]
    found = planned(nodes, [*pods, filled("f", "7500m", "t")])
    assert moves(found) == [("p", "a", "t")]
    assert "anti-affinity" in reasons(found)["q"]


def test_two_pods_never_plan_on_the_same_hole() -> None:
    pods = [app("p", "100m", "6Gi", on="a"), app("q", "100m", "6Gi", on="b"), filled("f", "8", "t")]
    assert len(planned([ten("a"), ten("b"), ten("t")], pods).moves) == 1


# --- resources --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu"])
def test_any_resource_may_be_what_is_scattered(resource: str) -> None:
    """Of the two others all nodes have enough and nobody asks for any."""
    offers = {"cpu": "100", "memory": "100Gi", "nvidia.com/gpu": "100", "pods": "20", resource: "10"}
    pods = [bound({resource: "1"}, "p", "a"), bound({resource: "8"}, "f", "t")]
    found = planned([node("a", offers), node("t", offers)], pods, resourceType=resource)
    assert moves(found) == [("p", "a", "t")]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"containers": [CORE, CORE, CORE]}, id="every container"),
        pytest.param({"containers": [CORE], "init_containers": [LARGE]}, id="an init container that asks for more"),
        pytest.param({"containers": [CORE], "init_containers": [SIDECAR, SIDECAR]}, id="sidecars"),
        pytest.param({"containers": [CORE], "overhead": {"cpu": "2"}}, id="overhead"),
    ],
)
def test_use_is_all_that_a_pod_asks_for(more: dict[str, Any]) -> None:
    """Three cores of ten, which is not below the threshold; a single container would be."""
    one = app("p", "1", on="a")
    pods = [replace(one, spec=replace(one.spec, **more)), filled("f", "7500m", "t")]
    assert planned([ten("a"), ten("t")], pods).moves == ()
    assert planned([ten("a"), ten("t")], [one, pods[1]]).moves


# --- nodes that are neither -------------------------------------------------------------------------------------------


def test_nodes_without_the_resource_are_neither() -> None:
    gpus = {"cpu": "10", "memory": "10Gi", "pods": "20", "example.com/gpu": "4"}
    one = {"cpu": "1", "example.com/gpu": "1"}
    pods = [app("p", "1", on="plain"), bound(one, "g", "a"), *(bound(one, f"f{number}", "t") for number in range(3))]
    nodes = [ten("plain"), node("a", gpus), node("t", gpus)]
    found = planned(nodes, pods, resourceType="example.com/gpu", protectionThresholds={"example.com/gpu": 100})
    assert moves(found) == [("g", "a", "t")]


def test_nodes_that_are_not_ready_are_neither() -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="b"), filled("f", "8", "t"), filled("g", "8", "u")]
    nodes = [not_ready(ten("a")), ten("b"), not_ready(ten("t")), ten("u")]
    assert moves(planned(nodes, pods)) == [("q", "b", "u")]


def test_nodes_in_between_are_neither() -> None:
    assert planned([ten("a"), ten("m")], [app("p", "1", on="a"), filled("f", "5", "m")]).moves == ()


def test_no_target_at_all_is_said() -> None:
    found = planned([ten("a")], [app("p", "1", on="a")])
    assert reasons(found)[""] == (
        "no node is between defragmentThresholds (cpu 70%) and protectionThresholds (cpu 95%)"
    )


# --- only if emptied, and limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("emptied", "room", "moved"),
    [
        pytest.param(False, "8500m", 1, id="by default, what can move does"),
        pytest.param(True, "8500m", 0, id="half-emptied nodes help nobody"),
        pytest.param(True, "7500m", 2, id="all of them find a place"),
    ],
)
def test_a_source_may_be_all_or_nothing(emptied: bool, room: str, moved: int) -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="a"), filled("f", room, "t")]
    found = planned([ten("a"), ten("t")], pods, onlyIfEmptied=emptied)
    assert len(found.moves) == moved
    assert moved or reasons(found)["p"] == "a could not be emptied: 1 of 2 pods find no target"


def test_a_guest_that_stays_keeps_the_others_there() -> None:
    pods = [app("p", "1", on="a"), filled("bare", "1", "a"), filled("f", "7500m", "t")]
    found = planned([ten("a"), ten("t")], pods, onlyIfEmptied=True)
    assert found.moves == ()
    assert reasons(found)["p"] == "a could not be emptied: 1 of 2 pods stay there"


def test_a_given_up_source_leaves_its_room_to_the_next() -> None:
    pods = [
        app("p", "1", on="a"),
        app("q", "1", "9Gi", on="a"),
        app("r", "2500m", on="b"),
        app("f", "7100m", "2Gi", on="t", kind="DaemonSet"),
    ]
    found = planned([ten("a"), ten("b"), ten("t")], pods, onlyIfEmptied=True, protectionThresholds={"cpu": 100})
    assert moves(found) == [("r", "b", "t")]


def test_the_limit_of_moves_is_kept_and_said() -> None:
    pods = [app(f"p{number}", "100m", on=f"n{number}") for number in range(5)]
    found = planned(
        [*(ten(f"n{number}") for number in range(5)), ten("t")], [*pods, filled("f", "8", "t")], max_moves=2
    )
    assert len(found.moves) == 2
    assert reasons(found)[""] == "3 more sources are left: the limit of 2 moves is reached"


def test_the_effect_is_what_was_asked_for() -> None:
    found = planned([ten("a"), ten("t")], [app("p", "1", on="a"), filled("f", "8", "t")])
    assert (found.before["freeNodes"], found.after["freeNodes"]) == (0, 1)
