"""A cycle: several plugins on one snapshot, booked one after the other, within limits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.eviction.protections import PREFER_NO_EVICTION as RELUCTANT
from restow.eviction.protections import Protections
from restow.model.cluster.storage.storage import StorageObject
from restow.model.objects import ClaimVolume, EmptyDirVolume, Namespace, ObjectMeta, Pod, Taint, Volume
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
from restow.planning.cycle_limits import CycleLimits
from restow.planning.defragmentation import plan_defragmentation
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.policy import DeschedulerProfile
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.profile_cycle import GuardedEvictionRules, run_cycle
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.planning.plan import Move, Place, Plan
from restow.planning.plan_request import DisruptionLimit, EvictionRules, PlanRequest
from restow.planning.replay import replay_plan
from tests.model.cluster.builders import pod
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
from tests.planning.descheduling.plugin_requests import PLUGINS, failed_pod, profile_section, run_profile, with_age
from tests.scheduling.plugins.volume_builders import claim, csi_volume, volume

LIFE, TAINTS = "PodLifeTime", "RemovePodsViolatingNodeTaints"
OLD = {"maxPodLifeTimeSeconds": 100}
TAINT = [Taint(key="gone", effect="NoSchedule")]


class Stubborn:
    """Mobility, but that what one pod draws on is used up."""

    def __init__(self, rules: EvictionRules, name: str, allowances: list[DisruptionLimit]) -> None:
        self.is_ours, self.refusal_reason = rules.is_ours, rules.refusal_reason
        self._name, self._allowances = name, allowances

    def disruption_limits(self, pod: Pod) -> list[DisruptionLimit]:
        return self._allowances if pod.metadata.name == self._name else []


def planner(name: str, *wanted: tuple[str, str, str], breaks: bool = False, places: tuple[Place, ...] = ()) -> Planner:
    """A plugin that wants certain moves whatever the cluster is like."""

    def plan(snapshot: Snapshot, asked: PlanRequest) -> Plan:
        if breaks:
            raise ZeroDivisionError("division by zero")
        made = [
            Move(order=order, wave=1, namespace="default", pod=pod, uid=f"uid-{pod}", source=source, target=target)
            for order, (pod, source, target) in enumerate(wanted, start=1)
        ]
        return Plan(strategy=name, moves=tuple(made[: asked.max_moves]), places=places)

    return Planner(name=name, point="balance", plan=plan, check=lambda arguments: None)


def cycle(snapshot: Snapshot, *planners: Planner, limits: CycleLimits | None = None, **fields: Any) -> Any:
    asked = plan_request(snapshot, **fields)
    assert isinstance(asked.eviction_rules, ConfiguredEvictionRules)
    asked = replace(asked, eviction_rules=GuardedEvictionRules(asked.eviction_rules))
    return run_cycle(DeschedulerProfile(name="it", planners=planners, limits=limits or CycleLimits()), snapshot, asked)


def test_second_plugin_does_not_use_room_that_the_first_has_taken() -> None:
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("t")],
        [app("p", "4", on="a"), app("q", "4", on="b"), app("r", "5", on="t")],
    )
    found = cycle(snapshot, planner("one", ("p", "a", "t")), planner("two", ("q", "b", "t")))
    assert move_triples(found.plan) == [("p", "a", "t")]
    assert "cannot go to t" in found.failures["two"]


WAITS = pod("waits", {"cpu": "9"})
ON_A = (Place(namespace="default", pod="waits", node="a"),)


def test_second_plugin_does_not_use_places_of_the_first() -> None:
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("c")], [app("p", "4", on="a"), app("q", "4", on="c")]
    )
    first, second = planner("one", ("p", "a", "b"), places=ON_A), planner("two", ("q", "c", "a"))
    found = cycle(snapshot, first, second, pending=(WAITS,))
    assert (move_triples(found.plan), found.plan.places) == ([("p", "a", "b")], ON_A)
    assert "cannot go to a" in found.failures["two"]


def test_pending_pod_gets_no_place_if_a_limit_keeps_pods_there() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("p", on="a"), app("q", on="a")])
    plan = planner("one", ("p", "a", "b"), ("q", "a", "b"), places=ON_A)
    found = cycle(snapshot, plan, limits=CycleLimits(per_node=1), pending=(WAITS,))
    assert (move_triples(found.plan), found.plan.places) == ([("p", "a", "b")], ON_A)  # 9 of 10 are free without p
    found = cycle(snapshot, plan, limits=CycleLimits(per_node=0), pending=(WAITS,))
    assert (move_triples(found.plan), found.plan.places) == ([], ())


def test_moves_of_all_plugins_are_one_valid_plan() -> None:
    nodes = [node_of_ten("a", taints=TAINT), node_of_ten("b"), node_of_ten("c")]
    pods = [app("p", on="a"), with_age(app("q", on="b"), 200)]
    snapshot = snapshot_of(nodes, pods)
    found = run_profile(snapshot, LIFE, TAINTS, arguments=OLD)
    assert [(move.pod, move.order, move.wave) for move in found.plan.moves] == [("q", 1, 1), ("p", 2, 2)]
    assert replay_plan(snapshot, found.plan, plan_request(snapshot)).valid
    assert found.planner_of == {"uid-p": TAINTS, "uid-q": LIFE}


def test_plugin_that_raises_is_named_and_the_others_go_on() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("p", on="a")])
    found = cycle(snapshot, planner("bad", breaks=True), planner("good", ("p", "a", "b")))
    assert found.failures == {"bad": "division by zero"} and move_triples(found.plan) == [("p", "a", "b")]


def test_profile_without_plugins_gives_the_reason() -> None:
    told = [one.reason for one in cycle(snapshot_of([node_of_ten("a")], [])).plan.refusals]
    assert told == [
        "the profile enables no plugin: name some under plugins.deschedule.enabled or plugins.balance.enabled"
    ]


def test_cycle_leaves_the_snapshot_as_it_was() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [with_age(app("p", on="a"), 200)])
    before = {uid: one.node for uid, one in snapshot.pods.known.items()}
    run_profile(snapshot, LIFE, arguments=OLD)
    assert {uid: one.node for uid, one in snapshot.pods.known.items()} == before


@pytest.mark.parametrize(
    ("limits", "moved"),
    [
        pytest.param({"maxNoOfPodsToEvictPerNode": 1}, ["p1", "p3"], id="of each node"),
        pytest.param({"maxNoOfPodsToEvictPerNamespace": 3}, ["p1", "p2", "p3"], id="of a namespace"),
        pytest.param({"maxNoOfPodsToEvictTotal": 2}, ["p1", "p2"], id="in all"),
        pytest.param({"maxNoOfPodsToEvictTotal": 0}, [], id="none"),
    ],
)
def test_cycle_moves_no_more_pods_than_allowed(limits: dict[str, Any], moved: list[str]) -> None:
    pods = [with_age(app(f"p{n}", on="a" if n < 3 else "b"), 300 - n) for n in range(1, 5)]
    found = run_profile(
        snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("c")], pods), LIFE, arguments=OLD, **limits
    )
    assert sorted(move.pod for move in found.plan.moves) == moved


def test_cycle_reports_the_limit_that_is_reached() -> None:
    pods = [with_age(app(f"p{n}", on="a"), 300 - n) for n in range(1, 3)]
    found = run_profile(
        snapshot_of([node_of_ten("a"), node_of_ten("b")], pods), LIFE, arguments=OLD, maxNoOfPodsToEvictPerNode=1
    )
    assert refusal_reasons(found.plan)["p2"] == "maxNoOfPodsToEvictPerNode allows 1 pod of node a per cycle"


EMPTIED = {"onlyIfEmptied": True, "protectionThresholds": {"cpu": 100}}


def two_sources() -> list[Pod]:
    """Two on a, one on b, and room for all of them on t."""
    pods = [app("p1", on="a"), app("p2", on="a", namespace="other"), app("q", "2100m", on="b")]
    return [*pods, pod("stays", {"cpu": "7100m"}, on="t", phase="Running")]


@pytest.mark.parametrize(
    ("limits", "moved", "told"),
    [
        pytest.param({}, ["p1", "p2"], "1 of 1 pods find no target", id="none: the smaller source first"),
        pytest.param(
            {"maxNoOfPodsToEvictPerNode": 1}, ["q"], "a could not be emptied: maxNoOfPodsToEvictPerN", id="node"
        ),
        pytest.param({"maxNoOfPodsToEvictPerNamespace": 1}, ["p1", "p2"], "b could not be emptied", id="namespace"),
        pytest.param({"maxNoOfPodsToEvictTotal": 1}, ["q"], "a could not be emptied: only 1 more move", id="in all"),
    ],
)
def test_defragmentation_does_not_begin_a_node_that_limits_keep_from_being_emptied(
    limits: dict[str, Any], moved: list[str], told: str
) -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], two_sources())
    found = run_profile(snapshot, "Defragmentation", arguments=EMPTIED, **limits)
    assert sorted(move.pod for move in found.plan.moves) == moved
    assert any(told in reason for reason in refusal_reasons(found.plan).values()), refusal_reasons(found.plan)


def test_defragmentation_counts_moves_of_earlier_plugins_before_it_begins_a_node() -> None:
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], [*two_sources(), with_age(app("old", on="a"), 200)]
    )
    found = run_profile(snapshot, LIFE, "Defragmentation", arguments=OLD, maxNoOfPodsToEvictPerNode=2)
    assert sorted(move.pod for move in found.plan.moves if move.source == "a") == ["old", "p1"]


def test_defragmentation_does_not_begin_a_node_that_cannot_be_emptied_in_order() -> None:
    """What p2 draws on is used up, so that it cannot be brought anywhere."""
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("t")], two_sources())
    asked = replace(plan_request(snapshot, EMPTIED, max_moves=3), allow_stops=False)
    none = [DisruptionLimit("the budget of p2", 0)]
    asked = replace(asked, eviction_rules=Stubborn(asked.eviction_rules, "p2", none))
    found = plan_defragmentation(snapshot, asked)
    assert move_triples(found) == [], found
    assert "a could not be emptied: no order of moves" in refusal_reasons(found)["p1"]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"maxNoOfPodsToEvictPerNode": 2}, "maxNoOfPodsToEvictPerNode"),
        ({"maxNoOfPodsToEvictTotal": 2}, "a cycle moves and removes 2 pods at most"),
    ],
    ids=["of a node", "in all"],
)
def test_cycle_limits_count_removals(limits: dict[str, Any], why: str) -> None:
    ended = [failed_pod(app(f"f{n}", on="a")) for n in range(3)]
    found = run_profile(snapshot_of([node_of_ten("a")], []), "RemoveFailedPods", ended=ended, **limits)
    assert len(found.removals) == 2
    assert why in refusal_reasons(found.plan)["f2"]


def test_failed_pod_that_may_not_be_removed_gets_a_reason() -> None:
    found = run_profile(
        snapshot_of([node_of_ten("a")], []), "RemoveFailedPods", ended=[failed_pod(pod("bare", {}, on="a"))]
    )
    assert found.removals == ()
    told = "no controller would recreate it; failed pods may be evicted with evictFailedBarePods"
    assert refusal_reasons(found.plan) == {"bare": told}


def test_pods_with_a_live_job_are_left_alone() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [with_age(app("p", on="a"), 200)])
    found = run_profile(snapshot, LIFE, arguments=OLD, busy={"uid-p": "job x moves it already"})
    assert not found.plan.moves
    assert "job x moves it already" in refusal_reasons(found.plan)["p"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param({"minReplicas": 2}, "its workload has 1 replica, and minReplicas is 2", id="small workloads"),
        pytest.param({"labelSelector": {"matchLabels": {"a": "b"}}}, "its labels do not match a=b", id="other labels"),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}, "no PodDisruptionBudget", id="no budget"
        ),
        pytest.param({"priorityThreshold": {"value": 0}}, "its priority 0 is not below the threshold 0", id="priority"),
        pytest.param(
            {"namespaceLabelSelector": {"matchLabels": {"team": "b"}}},
            "the labels of its namespace do not match team=b",
            id="other namespaces",
        ),
    ],
)
def test_default_evictor_protects(arguments: dict[str, Any], why: str) -> None:
    snapshot = snapshot_of([node_of_ten("a", taints=TAINT), node_of_ten("b")], [app("p", on="a")])
    snapshot.apply_namespace(Namespace(metadata=ObjectMeta(name="default", labels={"team": "a"})))
    found = run_profile(snapshot, "DefaultEvictor", TAINTS, arguments=arguments)
    assert not found.plan.moves and why in refusal_reasons(found.plan)["p"]


CLAIMED: dict[str, Any] = {"volumes": [Volume(name="disk", persistent_volume_claim=ClaimVolume(claim_name="data"))]}
ONLY_FAST = {"protectedStorageClasses": [{"name": "fast"}]}


@pytest.mark.parametrize(
    ("arguments", "kind", "moved"),
    [
        pytest.param({}, "slow", True, id="unless that is asked for"),
        pytest.param({"ignorePvcPods": True}, "slow", False, id="in the old spelling"),
        pytest.param({"podProtections": {"extraEnabled": ["PodsWithPVC"]}}, "slow", False, id="in the new spelling"),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": {"PodsWithPVC": ONLY_FAST}}},
            "slow",
            True,
            id="of other classes",
        ),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": {"PodsWithPVC": ONLY_FAST}}},
            "fast",
            False,
            id="of a protected class",
        ),
    ],
)
def test_default_evictor_protects_pods_with_claims(arguments: dict[str, Any], kind: str, moved: bool) -> None:
    disk = volume("v", of=kind, claim="data", claim_uid="uid-data", phase="Bound", csi=csi_volume("v"))
    stored: list[StorageObject] = [disk, claim("data", of=kind, to="v", phase="Bound")]
    one = app("p", on="a", **CLAIMED)
    found = run_profile(
        snapshot_of([node_of_ten("a", taints=TAINT), node_of_ten("b")], [one], stored),
        "DefaultEvictor",
        TAINTS,
        arguments=arguments,
    )
    assert bool(found.plan.moves) is moved, found.plan.refusals
    assert moved or "it uses the claims data" in refusal_reasons(found.plan)["p"]


def begun(one: Pod, seconds: float) -> Pod:
    return replace(one, status=replace(one.status, start_time=format_time(NOW - seconds)))


@pytest.mark.parametrize(
    ("arguments", "one", "why"),
    [
        pytest.param(
            {"minPodAge": "10m"}, begun(app("p", on="a"), 60), "it started 60s ago, and must be 600s old", id="young"
        ),
        pytest.param({"minPodAge": "10m"}, begun(app("p", on="a"), 601), "", id="old enough"),
        pytest.param({}, with_annotations(app("p", on="a"), {RELUCTANT: ""}), "", id="reluctant"),
        pytest.param(
            {"noEvictionPolicy": "Mandatory"},
            with_annotations(app("p", on="a"), {RELUCTANT: ""}),
            f"it has the annotation {RELUCTANT}",
            id="reluctant, which is to be heeded",
        ),
        pytest.param(
            {"evictSystemCriticalPods": False},
            app("p", on="a", priority=2_000_000_000),
            "it is critical to the system: its priority is 2000000000 (evictSystemCriticalPods is false)",
            id="critical",
        ),
        pytest.param(
            {"evictLocalStoragePods": False},
            app("p", on="a", volumes=[Volume(name="tmp", empty_dir=EmptyDirVolume())]),
            "it has local storage: tmp (evictLocalStoragePods is false)",
            id="local storage",
        ),
    ],
)
def test_default_evictor_protects_pods_that_are(arguments: dict[str, Any], one: Pod, why: str) -> None:
    """Where migrations would move them all."""
    profile = read_policy(profile_section("DefaultEvictor", TAINTS, arguments=arguments), PLUGINS).profiles[0]
    snapshot = snapshot_of([node_of_ten("a", taints=TAINT), node_of_ten("b")], [one])
    everything = Protections(evict_local_storage_pods=True, evict_system_critical_pods=True)
    asked = plan_request(snapshot, protections=everything)
    assert isinstance(asked.eviction_rules, ConfiguredEvictionRules)
    found = run_cycle(
        profile, snapshot, replace(asked, eviction_rules=GuardedEvictionRules(asked.eviction_rules, profile.guards))
    )
    assert bool(found.plan.moves) is not bool(why), found.plan.refusals
    assert not why or why in refusal_reasons(found.plan)["p"]


def test_default_evictor_lets_pods_of_selected_namespaces_move() -> None:
    snapshot = snapshot_of([node_of_ten("a", taints=TAINT), node_of_ten("b")], [app("p", on="a")])
    snapshot.apply_namespace(Namespace(metadata=ObjectMeta(name="default", labels={"team": "a"})))
    arguments = {"namespaceLabelSelector": {"matchLabels": {"team": "a"}}}
    assert move_triples(run_profile(snapshot, "DefaultEvictor", TAINTS, arguments=arguments).plan) == [("p", "a", "b")]
