"""The strategy Defragmentation, rule by rule; its targets are in `test_defragmentation_targets`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Container, ResourceRequirements
from restow.model.times import format_time
from tests.model.cluster.builders import node, reservation
from tests.planning.clusters import (
    NOW,
    app,
    move_triples,
    node_of_ten,
    not_ready_node,
    refusal_reasons,
    snapshot_of,
    with_annotations,
)
from tests.planning.defragmentation_plans import (
    bare_pod,
    defragmentation_plan,
    defragmentation_plan_of,
    pod_with_requests,
)

CORE = Container(name="main", resources=ResourceRequirements(requests={"cpu": "1"}))
LARGE = Container(name="init", resources=ResourceRequirements(requests={"cpu": "3"}))
SIDECAR = replace(CORE, restart_policy="Always")


# --- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "moved"),
    [
        pytest.param("2900m", True, id="below the threshold"),
        pytest.param("3", False, id="at the threshold"),
        pytest.param("3100m", False, id="above the threshold"),
    ],
)
def test_sources_are_strictly_below_the_low_threshold(cpu: str, moved: bool) -> None:
    large = node("b", {"cpu": "40", "memory": "40Gi", "pods": "20"})
    plan = defragmentation_plan([node_of_ten("a"), large], [app("p", cpu, on="a"), bare_pod("f", "32", "b")])
    assert bool(plan.moves) is moved


def test_least_used_source_is_emptied_first() -> None:
    pods = [app("p", "2", on="a"), app("q", "1", on="b"), bare_pod("f", "8", "t")]
    plan = defragmentation_plan(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], pods, protectionThresholds={"cpu": 90}
    )
    assert move_triples(plan) == [("q", "b", "t")]


def test_equally_used_sources_are_emptied_by_name() -> None:
    pods = [app("p", "1", on="b"), app("q", "1", on="a"), bare_pod("f", "8", "t")]
    plan = defragmentation_plan(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], pods, protectionThresholds={"cpu": 90}
    )
    assert move_triples(plan) == [("q", "a", "t")]


def test_critical_nodes_are_no_sources_but_can_be_targets() -> None:
    critical = {"critical": "true"}
    pods = [app("p", "1", on="a"), app("q", "1", on="b"), bare_pod("f", "8", "t")]
    plan = defragmentation_plan(
        [node_of_ten("a", labels=critical), node_of_ten("b"), node_of_ten("t", labels=critical)], pods
    )
    assert move_triples(plan) == [("q", "b", "t")]


@pytest.mark.parametrize(
    ("since", "moved"),
    [
        pytest.param(599, False, id="within the cool-down"),
        pytest.param(600, True, id="after the cool-down"),
        pytest.param(-60, False, id="time slightly in the future"),
        pytest.param(-600, True, id="time far in the future by a wrong clock"),
    ],
)
def test_source_rests_within_the_cool_down_after_a_migration(since: int, moved: bool) -> None:
    one, full = app("p", "1", on="a"), bare_pod("f", "8", "t")
    plan = defragmentation_plan(
        [node_of_ten("a"), node_of_ten("t")], [one, full], coolDownTime=600, last_migrations={"a": NOW - since}
    )
    assert bool(plan.moves) is moved
    came = {"restow.sh/moved-at": format_time(NOW - since), "restow.sh/moved-from": "b"}
    assert (
        defragmentation_plan(
            [node_of_ten("a"), node_of_ten("t")], [with_annotations(one, came), full], coolDownTime=600
        ).moves
        == plan.moves
    )


def test_annotations_of_moved_pods_make_source_and_target_rest() -> None:
    came = {"restow.sh/moved-at": format_time(NOW - 60), "restow.sh/moved-from": "b"}
    pods = [
        with_annotations(app("p", "1", on="a"), came),
        app("q", "1", on="b"),
        app("r", "1", on="c"),
        bare_pod("f", "7500m", "t"),
    ]
    plan = defragmentation_plan(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("c"), node_of_ten("t")], pods, coolDownTime=600
    )
    assert move_triples(plan) == [("r", "c", "t")]
    assert "2 of 3 sources rest after a migration less than 600s ago" in [refusal.reason for refusal in plan.refusals]


@pytest.mark.parametrize(
    ("number", "moved"),
    [
        pytest.param(0, 2, id="zero: any number"),
        pytest.param(1, 2, id="more than number of nodes"),
        pytest.param(2, 0, id="as many as number of nodes"),
    ],
)
def test_defragmentation_starts_with_more_sources_than_number_of_nodes(number: int, moved: int) -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="b"), bare_pod("f", "7500m", "t")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], pods, numberOfNodes=number)
    assert len(plan.moves) == moved
    assert (
        moved
        or refusal_reasons(plan)[""] == "2 nodes are below lowThresholds (cpu 30%); numberOfNodes requires more than 2"
    )


# --- pods -------------------------------------------------------------------------------------------------------------


def test_pods_with_large_requests_move_first() -> None:
    pods = [app("small", "1", on="a"), app("large", "1500m", on="a"), bare_pod("f", "7500m", "t")]
    assert [one[0] for one in move_triples(defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods))] == [
        "large"
    ]


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
def test_pods_left_out_by_arguments_stay(arguments: dict[str, Any], stays: list[str], reason: str) -> None:
    pods = [
        app("p", "1", on="a", namespace="x", labels={"tier": "batch"}),
        app("q", "1", on="a", namespace="y"),
        bare_pod("f", "7100m", "t"),
    ]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods, **arguments)
    assert [name for name in refusal_reasons(plan) if name] == stays
    assert not stays or refusal_reasons(plan)[stays[0]] == reason


def test_pods_left_out_by_arguments_count_as_usage() -> None:
    pods = [app("p", "2", on="a", namespace="x"), app("q", "2", on="a", namespace="y"), bare_pod("f", "7500m", "t")]
    assert (
        defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods, evictableNamespaces={"exclude": ["x"]}).moves
        == ()
    )


def test_seats_of_reservations_count_as_usage() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("t")], [app("p", "2", on="a"), bare_pod("f", "7500m", "t")])
    snapshot.apply_reservation(reservation("r", {0: "a"}, requests={"cpu": "2"}))
    assert defragmentation_plan_of(snapshot).moves == ()


def test_pods_that_may_not_move_are_refusals_with_a_reason() -> None:
    pods = [app("p", "1", on="a"), bare_pod("bare", "1", "a"), bare_pod("f", "7500m", "t")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods)
    assert refusal_reasons(plan) == {"bare": "no controller would recreate it"}


# --- resources --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu"])
def test_any_resource_can_be_the_resource_type(resource: str) -> None:
    """All nodes have enough of the two other resources, and no pod requests them."""
    offers = {"cpu": "100", "memory": "100Gi", "nvidia.com/gpu": "100", "pods": "20", resource: "10"}
    pods = [pod_with_requests({resource: "1"}, "p", "a"), pod_with_requests({resource: "8"}, "f", "t")]
    plan = defragmentation_plan([node("a", offers), node("t", offers)], pods, resourceType=resource)
    assert move_triples(plan) == [("p", "a", "t")]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"containers": [CORE, CORE, CORE]}, id="every container"),
        pytest.param({"containers": [CORE], "init_containers": [LARGE]}, id="larger init container"),
        pytest.param({"containers": [CORE], "init_containers": [SIDECAR, SIDECAR]}, id="sidecars"),
        pytest.param({"containers": [CORE], "overhead": {"cpu": "2"}}, id="overhead"),
    ],
)
def test_usage_counts_all_requests_of_a_pod(more: dict[str, Any]) -> None:
    """Three cores of ten, which is not below the threshold; a single container would be."""
    one = app("p", "1", on="a")
    pods = [replace(one, spec=replace(one.spec, **more)), bare_pod("f", "7500m", "t")]
    assert defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods).moves == ()
    assert defragmentation_plan([node_of_ten("a"), node_of_ten("t")], [one, pods[1]]).moves


# --- nodes that are neither -------------------------------------------------------------------------------------------


def test_nodes_without_the_resource_are_neither_sources_nor_targets() -> None:
    gpus = {"cpu": "10", "memory": "10Gi", "pods": "20", "example.com/gpu": "4"}
    one = {"cpu": "1", "example.com/gpu": "1"}
    pods = [
        app("p", "1", on="plain"),
        pod_with_requests(one, "g", "a"),
        *(pod_with_requests(one, f"f{number}", "t") for number in range(3)),
    ]
    nodes = [node_of_ten("plain"), node("a", gpus), node("t", gpus)]
    plan = defragmentation_plan(
        nodes, pods, resourceType="example.com/gpu", protectionThresholds={"example.com/gpu": 100}
    )
    assert move_triples(plan) == [("g", "a", "t")]


def test_nodes_that_are_not_ready_are_neither_sources_nor_targets() -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="b"), bare_pod("f", "8", "t"), bare_pod("g", "8", "u")]
    nodes = [not_ready_node(node_of_ten("a")), node_of_ten("b"), not_ready_node(node_of_ten("t")), node_of_ten("u")]
    assert move_triples(defragmentation_plan(nodes, pods)) == [("q", "b", "u")]


def test_nodes_between_the_thresholds_are_neither_sources_nor_targets() -> None:
    assert (
        defragmentation_plan(
            [node_of_ten("a"), node_of_ten("m")], [app("p", "1", on="a"), bare_pod("f", "5", "m")]
        ).moves
        == ()
    )


def test_missing_targets_are_reported() -> None:
    plan = defragmentation_plan([node_of_ten("a")], [app("p", "1", on="a")])
    assert refusal_reasons(plan)[""] == (
        "no node is between defragmentThresholds (cpu 70%) and protectionThresholds (cpu 95%)"
    )


# --- only if emptied, and limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("emptied", "room", "moved"),
    [
        pytest.param(False, "8500m", 1, id="by default pods move one by one"),
        pytest.param(True, "8500m", 0, id="source is left alone if a pod finds no target"),
        pytest.param(True, "7500m", 2, id="all pods find a target"),
    ],
)
def test_source_is_emptied_as_a_whole_if_asked_for(emptied: bool, room: str, moved: int) -> None:
    pods = [app("p", "1", on="a"), app("q", "1", on="a"), bare_pod("f", room, "t")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods, onlyIfEmptied=emptied)
    assert len(plan.moves) == moved
    assert moved or refusal_reasons(plan)["p"] == "a could not be emptied: 1 of 2 pods find no target"


def test_pod_that_stays_keeps_all_pods_of_the_node_there_if_asked_for() -> None:
    pods = [app("p", "1", on="a"), bare_pod("bare", "1", "a"), bare_pod("f", "7500m", "t")]
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t")], pods, onlyIfEmptied=True)
    assert plan.moves == ()
    assert refusal_reasons(plan)["p"] == "a could not be emptied: 1 of 2 pods stay there"


def test_source_that_cannot_be_emptied_leaves_the_room_to_the_next() -> None:
    pods = [
        app("p", "1", on="a"),
        app("q", "1", "9Gi", on="a"),
        app("r", "2500m", on="b"),
        app("f", "7100m", "2Gi", on="t", kind="DaemonSet"),
    ]
    plan = defragmentation_plan(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("t")],
        pods,
        onlyIfEmptied=True,
        protectionThresholds={"cpu": 100},
    )
    assert move_triples(plan) == [("r", "b", "t")]


def test_limit_of_moves_is_kept_and_reported() -> None:
    pods = [app(f"p{number}", "100m", on=f"n{number}") for number in range(5)]
    plan = defragmentation_plan(
        [*(node_of_ten(f"n{number}") for number in range(5)), node_of_ten("t")],
        [*pods, bare_pod("f", "8", "t")],
        max_moves=2,
    )
    assert len(plan.moves) == 2
    assert refusal_reasons(plan)[""] == "3 more sources are left: the limit of 2 moves is reached"


def test_emptied_source_is_a_free_node_afterwards() -> None:
    plan = defragmentation_plan([node_of_ten("a"), node_of_ten("t")], [app("p", "1", on="a"), bare_pod("f", "8", "t")])
    assert (plan.before["freeNodes"], plan.after["freeNodes"]) == (0, 1)
