"""The plugins that upstream's users expect, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.cluster import Occupant
from restow.model.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
    SelectorSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from restow.planning.move_simulation import MoveSimulation
from tests.planning.clusters import app, move_triples, node_of_ten, refusal_reasons, snapshot_of
from tests.planning.descheduling.plugin_requests import failed_pod, run_profile, with_age, with_restarts

HOST = "kubernetes.io/hostname"
AFFINITY = "RemovePodsViolatingNodeAffinity"
TAINTS = "RemovePodsViolatingNodeTaints"
ANTI = "RemovePodsViolatingInterPodAntiAffinity"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
DUPLICATES = "RemoveDuplicates"
LIFE = "PodLifeTime"
RESTARTS = "RemovePodsHavingTooManyRestarts"
FAILED = "RemoveFailedPods"


def host(name: str, **labels: str) -> Any:
    return node_of_ten(name, labels={HOST: name, **labels})


def term(key: str, value: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=[SelectorRequirement(key=key, operator="In", values=[value])])


# --- node affinity ----------------------------------------------------------------------------------------------------


def requiring(value: str) -> Affinity:
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[term("disk", value)])))


def preferring(value: str) -> Affinity:
    terms = [PreferredSchedulingTerm(weight=10, preference=term("disk", value))]
    return Affinity(node_affinity=NodeAffinity(preferred=terms))


def test_node_affinity_plugin_moves_pods_off_nodes_that_lost_required_labels() -> None:
    pods = [app("p", on="a", affinity=requiring("ssd")), app("q", on="a")]
    found = run_profile(snapshot_of([host("a"), host("b"), host("c", disk="ssd")], pods), AFFINITY)
    assert move_triples(found.plan) == [("p", "a", "c")]
    assert found.planner_of == {"uid-p": AFFINITY}


def test_node_affinity_plugin_gives_the_reason_if_no_node_has_the_labels() -> None:
    found = run_profile(snapshot_of([host("a"), host("b")], [app("p", on="a", affinity=requiring("ssd"))]), AFFINITY)
    assert not found.plan.moves
    why = refusal_reasons(found.plan)["p"]
    assert why.startswith("it requires labels that a does not have, but no other node takes it: 0/"), why


PREFERRED = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(PREFERRED, [("p", "a", "c")], id="if preferences are asked for"),
        pytest.param(None, [], id="not by default"),
    ],
)
def test_node_affinity_plugin_moves_pods_to_preferred_nodes(
    arguments: dict[str, Any] | None, expected: list[Any]
) -> None:
    pods = [app("p", on="a", affinity=preferring("ssd")), app("q", on="c", affinity=preferring("ssd"))]
    found = run_profile(snapshot_of([host("a"), host("b"), host("c", disk="ssd")], pods), AFFINITY, arguments=arguments)
    assert move_triples(found.plan) == expected


# --- taints -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "arguments", "leaves"),
    [
        pytest.param("NoSchedule", None, True, id="a taint for newcomers"),
        pytest.param("PreferNoSchedule", None, False, id="a preference"),
        pytest.param("PreferNoSchedule", {"includePreferNoSchedule": True}, True, id="a preference that is to count"),
        pytest.param("NoSchedule", {"excludedTaints": ["team"]}, False, id="excluded by key"),
        pytest.param("NoSchedule", {"excludedTaints": ["team=b"]}, True, id="another value excluded"),
        pytest.param("NoSchedule", {"includedTaints": ["team=a"]}, True, id="included by value"),
        pytest.param("NoSchedule", {"includedTaints": ["disk"]}, False, id="not among those included"),
    ],
)
def test_node_taints_plugin_moves_pods_that_do_not_tolerate_a_taint(
    effect: str, arguments: dict[str, Any] | None, leaves: bool
) -> None:
    tainted = node_of_ten("a", taints=[Taint(key="team", value="a", effect=effect)])
    tolerant = app("q", on="a", tolerations=[Toleration(key="team", operator="Exists")])
    found = run_profile(
        snapshot_of([tainted, node_of_ten("b")], [app("p", on="a"), tolerant]), TAINTS, arguments=arguments
    )
    assert move_triples(found.plan) == ([("p", "a", "b")] if leaves else [])


# --- anti-affinity ----------------------------------------------------------------------------------------------------


def averse(to: str) -> Affinity:
    selector = SelectorSpec(match_labels={"app": to})
    return Affinity(
        pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(topology_key=HOST, label_selector=selector)])
    )


def test_anti_affinity_plugin_moves_one_of_two_pods() -> None:
    db: dict[str, Any] = {"labels": {"app": "db"}, "affinity": averse("db")}
    pods = [with_age(app("old", on="a", **db), 500), with_age(app("new", on="a", **db), 100)]
    found = run_profile(snapshot_of([host("a"), host("b")], pods), ANTI)
    assert move_triples(found.plan) == [("new", "a", "b")]


def test_anti_affinity_plugin_moves_the_pod_of_lower_priority() -> None:
    db: dict[str, Any] = {"labels": {"app": "db"}, "affinity": averse("db")}
    pods = [with_age(app("low", on="a", priority=1, **db), 500), with_age(app("high", on="a", priority=9, **db), 100)]
    assert move_triples(run_profile(snapshot_of([host("a"), host("b")], pods), ANTI).plan) == [("low", "a", "b")]


def test_anti_affinity_plugin_leaves_pods_without_a_free_domain() -> None:
    db: dict[str, Any] = {"labels": {"app": "db"}, "affinity": averse("db")}
    found = run_profile(snapshot_of([host("a"), host("b")], [app(f"p{n}", on="a", **db) for n in range(3)]), ANTI)
    assert len(found.plan.moves) == 1
    assert "whose anti-affinity rules that out, but no other node takes it" in refusal_reasons(found.plan)["p1"]


# --- topology spread --------------------------------------------------------------------------------------------------


def spreading(skew: int = 1, how: str = "DoNotSchedule") -> list[TopologySpreadConstraint]:
    selector = SelectorSpec(match_labels={"app": "web"})
    constraint = TopologySpreadConstraint(
        max_skew=skew, topology_key="zone", when_unsatisfiable=how, label_selector=selector
    )
    return [constraint]


def web(name: str, on: str, **fields: Any) -> Pod:
    constraints = fields.pop("constraints", None) or spreading()
    return app(name, on=on, labels={"app": "web"}, topology_spread_constraints=constraints, **fields)


ZONES = [
    node_of_ten("a", labels={"zone": "x"}),
    node_of_ten("b", labels={"zone": "y"}),
    node_of_ten("c", labels={"zone": "z"}),
]


def test_topology_spread_plugin_moves_pods_from_the_fullest_zone_to_the_emptiest() -> None:
    pods = [web(f"p{n}", "a") for n in range(5)] + [web("q", "b")]
    found = run_profile(snapshot_of(ZONES, pods), SPREAD)
    counts = {"a": 5, "b": 1, "c": 0}
    for move in found.plan.moves:
        counts[move.source] -= 1
        counts[move.target] += 1
    assert counts == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("constraints", "arguments", "moved"),
    [
        pytest.param(spreading(2), None, 0, id="within maxSkew"),
        pytest.param(spreading(1), None, 1, id="beyond maxSkew"),
        pytest.param(spreading(1, "ScheduleAnyway"), None, 0, id="soft, not asked for"),
        pytest.param(spreading(1, "ScheduleAnyway"), {"constraints": ["ScheduleAnyway"]}, 1, id="soft, asked for"),
    ],
)
def test_topology_spread_plugin_accepts_a_skew_within_max_skew(constraints: Any, arguments: Any, moved: int) -> None:
    pods = [web("p", "a", constraints=constraints), web("q", "a", constraints=constraints)]
    found = run_profile(snapshot_of(ZONES[:2], pods), SPREAD, arguments=arguments)
    assert len(found.plan.moves) == moved


def test_topology_spread_plugin_ignores_zones_that_pods_may_not_use() -> None:
    closed = node_of_ten("b", labels={"zone": "y"}, unschedulable=True)
    assert not run_profile(snapshot_of([ZONES[0], closed], [web("p", "a"), web("q", "a")]), SPREAD).plan.moves


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_duplicates_plugin_moves_replicas_until_each_node_has_its_share() -> None:
    found = run_profile(
        snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("c")], [app(f"p{n}", on="a") for n in range(3)]),
        DUPLICATES,
    )
    assert sorted(move.target for move in found.plan.moves) == ["b", "c"]


@pytest.mark.parametrize(
    ("nodes", "arguments"),
    [
        pytest.param([node_of_ten("a")], None, id="there is no other node"),
        pytest.param([node_of_ten("a"), node_of_ten("b", unschedulable=True)], None, id="the other one is closed"),
        pytest.param(
            [node_of_ten("a"), node_of_ten("b")], {"excludeOwnerKinds": ["ReplicaSet"]}, id="their kind is left out"
        ),
    ],
)
def test_duplicates_plugin_leaves_replicas_together_if(nodes: Any, arguments: Any) -> None:
    assert not run_profile(
        snapshot_of(nodes, [app("p", on="a"), app("q", on="a")]), DUPLICATES, arguments=arguments
    ).plan.moves


# --- age and restarts -------------------------------------------------------------------------------------------------


def test_life_time_plugin_moves_the_oldest_pods_first() -> None:
    pods = [with_age(app("young", on="a"), 99), with_age(app("old", on="a"), 200), with_age(app("older", on="a"), 300)]
    found = run_profile(
        snapshot_of([node_of_ten("a"), node_of_ten("b")], pods), LIFE, arguments={"maxPodLifeTimeSeconds": 100}
    )
    assert [move.pod for move in found.plan.moves] == ["older", "old"]


def test_life_time_plugin_leaves_pods_in_other_states() -> None:
    pods = [with_restarts(with_age(app("p", on="a"), 200), 1, "CrashLoopBackOff"), with_age(app("q", on="a"), 200)]
    arguments = {"maxPodLifeTimeSeconds": 100, "states": ["CrashLoopBackOff"]}
    found = run_profile(snapshot_of([node_of_ten("a"), node_of_ten("b")], pods), LIFE, arguments=arguments)
    assert [move.pod for move in found.plan.moves] == ["p"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, ["often"], id="main containers"),
        pytest.param({"includingInitContainers": True}, ["init", "often"], id="init containers too"),
        pytest.param({"states": ["CrashLoopBackOff"]}, ["often"], id="in a state"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "none"}}}, [], id="of other labels"),
        pytest.param({"namespaces": {"exclude": ["default"]}}, [], id="of other namespaces"),
    ],
)
def test_restarts_plugin_moves_pods_that_restart_too_often(arguments: dict[str, Any], expected: list[str]) -> None:
    pods = [
        with_restarts(app("seldom", on="a"), 9),
        with_restarts(app("often", on="a"), 10, "CrashLoopBackOff"),
        with_restarts(app("init", on="a"), 5, init=8),
    ]
    found = run_profile(
        snapshot_of([node_of_ten("a"), node_of_ten("b")], pods),
        RESTARTS,
        arguments={"podRestartThreshold": 10, **arguments},
    )
    assert sorted(move.pod for move in found.plan.moves) == expected


# --- failed pods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(None, ["p", "q"], id="all of them"),
        pytest.param({"reasons": ["NodeAffinity"]}, ["p"], id="by the reason of the pod"),
        pytest.param({"reasons": ["Error"]}, ["q"], id="by the reason of a container"),
        pytest.param({"exitCodes": [3]}, ["q"], id="by exit code"),
        pytest.param({"excludeOwnerKinds": ["ReplicaSet"]}, [], id="not of some owners"),
        pytest.param({"minPodLifetimeSeconds": 100}, ["q"], id="only old ones"),
    ],
)
def test_failed_pods_plugin_removes_matching_pods(arguments: dict[str, Any] | None, expected: list[str]) -> None:
    ended = [
        with_age(failed_pod(app("p", on="a"), "NodeAffinity"), 50),
        with_age(failed_pod(app("q", on="a"), exit_code=3), 500),
        app("done", on="a", phase="Succeeded"),
    ]
    found = run_profile(snapshot_of([node_of_ten("a")], []), FAILED, arguments=arguments, ended=ended)
    assert [one.pod.metadata.name for one in found.removals] == expected


# --- many replicas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [SPREAD, DUPLICATES])
def test_spreading_plugins_look_at_staying_pods_a_constant_number_of_times(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = MoveSimulation.occupant

    def counted_look(simulation: MoveSimulation, uid: str) -> Occupant | None:
        looks.append(uid)
        return look(simulation, uid)

    monkeypatch.setattr(MoveSimulation, "occupant", counted_look)
    pods = [web(f"p{number}", on=f"n{number // 20}", cpu="10m", memory="1Mi") for number in range(200)]
    nodes = [node_of_ten(f"n{number}", labels={"zone": "x" if number < 10 else "y"}) for number in range(20)]
    found = run_profile(snapshot_of(nodes, pods), name, busy={one.metadata.uid: "it stays" for one in pods})
    assert move_triples(found.plan) == [] and len(found.plan.refusals) == 200
    assert len(looks) < 10 * len(pods)
