"""Plugins of one policy do not undo each other: what one is after, the others leave be, and together they come to
rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import Node, Pod, SelectorSpec, Taint, TopologySpreadConstraint
from restow.model.snapshot import Snapshot
from restow.planning.arguments import read_defragmentation, read_load_aware
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.registry import descheduler_plugins
from restow.planning.optimal.plugin import run_optimal_plugin
from restow.planning.plan import Plan
from restow.planning.plan_request import PeerPlugins
from restow.planning.strategies import make_plan
from restow.planning.usage_samples import UsageSample, UsageSamples
from tests.model.cluster.builders import pod
from tests.planning.clusters import NOW, app, move_triples, node_of_ten, plan_request, refusal_reasons, snapshot_of

COOL = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 70}}
PACK: dict[str, Any] = {}
BOTH = PeerPlugins(defragmentation=(read_defragmentation(PACK),), load_aware=(read_load_aware(COOL),))
Cores = Mapping[str, float]


def usage_of_pods(pods: Iterable[Pod], cores: Cores, *, at: float = NOW) -> UsageSamples:
    """What pods use, and nodes by that; pods that are not named use nothing."""
    nodes: dict[str, int] = dict.fromkeys("abcdef", 0)
    samples = {}
    for measured in pods:
        used = round(1000 * cores.get(measured.metadata.name, 0.0))
        samples["default", measured.metadata.name] = UsageSample(at, {"cpu": used})
        nodes[measured.spec.node_name or ""] += used
    return UsageSamples({name: UsageSample(at, {"cpu": used}) for name, used in nodes.items()}, samples)


def plan_with_peers(strategy: str, pods: list[Pod], cores: Cores, *, peers: PeerPlugins = BOTH, **fields: Any) -> Plan:
    snapshot = snapshot_of([node_of_ten(name) for name in "abcd"], pods)
    arguments = COOL if strategy == "load-aware" else fields.pop("arguments", {})
    use = usage_of_pods(pods, cores, at=NOW - fields.pop("age", 0))
    return make_plan(strategy, snapshot, plan_request(snapshot, arguments, measured_usage=use, peers=peers, **fields))


FULL, SMALL = app("full", "8", on="b"), app("p", "1", on="a")


@pytest.mark.parametrize(
    ("cores", "moved"),
    [
        pytest.param({"full": 6.5, "p": 1.0}, False, id="target would become busy"),
        pytest.param({"full": 6.0, "p": 1.0}, True, id="target comes exactly to the threshold"),
        pytest.param({"full": 2.0, "p": 1.0}, True, id="target is nearly idle"),
    ],
)
def test_defragmentation_does_not_make_a_target_busy(cores: Cores, moved: bool) -> None:
    plan = plan_with_peers("defragmentation", [FULL, SMALL], cores)
    assert bool(plan.moves) is moved
    if not moved:
        assert refusal_reasons(plan)["p"] == "0/1 target nodes are available: 1 would be busier than LoadAware allows"
        assert plan_with_peers("defragmentation", [FULL, SMALL], cores, peers=PeerPlugins()).moves


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(UsageSamples(unavailable_reason="nobody answers"), id="metrics are not available"),
        pytest.param(UsageSamples({"a": UsageSample(NOW, {"cpu": 1000})}), id="target without sample"),
        pytest.param(UsageSamples({"b": UsageSample(NOW - 3600, {"cpu": 1000})}), id="sample of the target is too old"),
    ],
)
def test_defragmentation_does_not_fill_a_node_with_unknown_load(use: UsageSamples) -> None:
    """Otherwise LoadAware would undo it as soon as that is known again."""
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [FULL, SMALL])
    plan = make_plan("defragmentation", snapshot, plan_request(snapshot, PACK, measured_usage=use, peers=BOTH))
    assert plan.moves == ()
    reason = "0/1 target nodes are available: 1 has no recent usage sample, which LoadAware requires"
    assert refusal_reasons(plan)["p"] == reason


def test_node_takes_no_pod_until_it_is_measured_after_its_last_migration() -> None:
    cores = {"full": 1.0, "p": 1.0}
    assert not plan_with_peers("defragmentation", [FULL, SMALL], cores, age=60, last_migrations={"b": NOW - 30}).moves
    assert plan_with_peers("defragmentation", [FULL, SMALL], cores, age=20, last_migrations={"b": NOW - 30}).moves
    assert plan_with_peers("defragmentation", [FULL, SMALL], cores, age=20, last_migrations={"b": NOW + 3600}).moves, (
        "a wrong clock"
    )


def test_unmeasured_pod_counts_with_its_requests() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [FULL, SMALL])
    for cores, moved in ((6000, True), (6001, False)):
        use = UsageSamples({"b": UsageSample(NOW, {"cpu": cores})})
        request = plan_request(snapshot, PACK, measured_usage=use, peers=BOTH)
        assert bool(make_plan("defragmentation", snapshot, request).moves) is moved


HOT = [app("hot", "4", on="a"), app("other", "1", on="a")]


def test_load_aware_prefers_the_least_loaded_node_that_is_not_emptied() -> None:
    pods = [*HOT, app("low", "1", on="b"), app("middle", "5", on="c")]
    cores = {"hot": 6.0, "other": 3.0, "low": 0.1, "middle": 1.0}
    assert move_triples(plan_with_peers("load-aware", pods, cores, peers=PeerPlugins())) == [("hot", "a", "d")]
    assert move_triples(plan_with_peers("load-aware", pods, cores)) == [("hot", "a", "c")]


@pytest.mark.parametrize(
    ("use_of_full", "target"),
    [
        pytest.param(0.5, "b", id="fuller node is idle, too"),
        pytest.param(4.9, "b", id="fuller node is not idle, and not busy with the pod"),
        pytest.param(5.1, "c", id="fuller node would become busy"),
    ],
)
def test_load_aware_moves_a_pod_to_where_defragmentation_would_move_it_on(use_of_full: float, target: str) -> None:
    pods = [
        app("hot", "1", on="a"),
        pod("stays", {"cpu": "5"}, on="a"),
        app("full", "8", on="b"),
        app("x", "5", on="d"),
    ]
    cores = {"hot": 2.0, "stays": 6.0, "full": use_of_full, "x": 6.0}
    assert move_triples(plan_with_peers("load-aware", pods, cores)) == [("hot", "a", target)]


def test_balance_does_not_fill_a_node_that_is_emptied() -> None:
    pods = [app("c1", "4", "1Gi", on="a"), app("c2", "4", "1Gi", on="a"), app("m", "100m", "2Gi", on="b")]
    arguments = {"maxThreshold": 0.1}
    assert move_triples(plan_with_peers("balance", pods, {}, peers=PeerPlugins(), arguments=arguments)) == [
        ("c1", "a", "b")
    ]
    assert not plan_with_peers("balance", pods, {}, arguments=arguments).moves


def test_balance_does_not_turn_a_node_into_a_source_of_defragmentation() -> None:
    pods = [app("c1", "2", "1Gi", on="a"), app("c2", "2", "1Gi", on="a"), app("m", "4", "9Gi", on="b")]
    arguments = {"maxThreshold": 0.05}
    assert move_triples(plan_with_peers("balance", pods, {}, peers=PeerPlugins(), arguments=arguments))
    plan = plan_with_peers("balance", pods, {}, arguments=arguments)
    assert not plan.moves and "Defragmentation would empty its node" in refusal_reasons(plan)["c1"]


def test_optimal_plans_again_without_nodes_that_it_would_make_busy() -> None:
    pods = [app("p", "2", on="a"), app("q", "3", on="b"), app("r", "4", on="c")]
    snapshot = snapshot_of([node_of_ten(name) for name in "abc"], pods)
    arguments = {"workLimit": 100, "maxMoves": 1}
    for cores, target in (({}, {"b", "c"}), ({"q": 6.9}, {"c"}), ({"q": 6.9, "r": 6.9}, set())):
        use = usage_of_pods(pods, {"p": 0.5, **cores})
        found = run_optimal_plugin(snapshot, plan_request(snapshot, arguments, measured_usage=use, peers=BOTH))
        assert {move.target for move in found.moves} <= target and bool(found.moves) is bool(target), found


# --- one cool-down ----------------------------------------------------------------------------------------------------

RESTING = {"coolDownTime": 600}


@pytest.mark.parametrize(
    ("strategy", "peers"),
    [
        pytest.param(
            "load-aware",
            PeerPlugins(defragmentation=(read_defragmentation(RESTING),)),
            id="LoadAware, by the cool-down of Defragmentation",
        ),
        pytest.param(
            "balance",
            PeerPlugins(defragmentation=(read_defragmentation(RESTING),)),
            id="Balance, by the cool-down of Defragmentation",
        ),
        pytest.param(
            "defragmentation",
            PeerPlugins(load_aware=(read_load_aware({**COOL, **RESTING}),)),
            id="Defragmentation, by the cool-down of LoadAware",
        ),
    ],
)
def test_nodes_rest_for_the_longest_cool_down_of_all_plugins(strategy: str, peers: PeerPlugins) -> None:
    """a is hot, b has more cpu in use than memory, c less, d is low; pods came to all of them."""
    pods = [
        *(app("hot", "4", "4Gi", on="a"), app("other", "1", "1Gi", on="a"), app("low", "1", on="d")),
        *(app("large", "5", on="b"), app("small", "2500m", "0", on="b"), app("memory", "3500m", "8Gi", on="c")),
    ]
    cores = {"hot": 6.0, "other": 3.0}
    for since, moved in ((599, False), (601, True)):
        touched = dict.fromkeys("abcd", NOW - since)
        plan = plan_with_peers(strategy, pods, cores, peers=peers, last_migrations=touched)
        assert bool(plan.moves) is moved, (since, plan.refusals)


# --- plugins that let the scheduler choose ----------------------------------------------------------------------------

SPREAD = TopologySpreadConstraint(
    max_skew=1,
    topology_key="kubernetes.io/hostname",
    when_unsatisfiable="ScheduleAnyway",
    label_selector=SelectorSpec(match_labels={"app": "db"}),
)


def descheduling_plan(
    name: str, nodes: list[Node], pods: list[Pod], arguments: dict[str, Any], peers: PeerPlugins = BOTH
) -> Plan:
    plugin = descheduler_plugins()[name]
    assert isinstance(plugin, Planner)
    snapshot = snapshot_of(nodes, pods)
    use = usage_of_pods(pods, {"full": 6.5, "p": 1.0, "q": 1.0})
    return plugin.plan(snapshot, plan_request(snapshot, arguments, measured_usage=use, peers=peers))


@pytest.mark.parametrize(
    ("name", "when", "arguments", "target"),
    [
        pytest.param("RemoveDuplicates", "", {}, None, id="duplicates stay together"),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            "ScheduleAnyway",
            {"constraints": ["ScheduleAnyway"]},
            None,
            id="soft spread constraints keep pods",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            "DoNotSchedule",
            {},
            "c",
            id="hard spread constraints move pods",
        ),
    ],
)
def test_only_pods_that_violate_hard_constraints_move_to_an_emptied_node(
    name: str, when: str, arguments: dict[str, Any], target: str | None
) -> None:
    """Of two replicas on a, one could go to c, which is empty, or to b, which is busy."""
    even = [replace(SPREAD, when_unsatisfiable=when)] if when else []
    labels = {"app": "db"}
    pods = [
        *(app(one, "4", on="a", labels=labels, topology_spread_constraints=even) for one in ("p", "q")),
        app("full", "5", on="b", of="full"),
    ]
    nodes = [node_of_ten(one, labels={"kubernetes.io/hostname": one}) for one in "abc"]
    plan = descheduling_plan(name, nodes, pods, arguments)
    assert [one[2] for one in move_triples(plan)] == ([target] if target else []), plan
    assert target or "other plugins are against it" in refusal_reasons(plan)["p"]
    assert [one[2] for one in move_triples(descheduling_plan(name, nodes, pods, arguments, PeerPlugins()))] == ["c"]


@pytest.mark.parametrize(
    ("name", "since", "moved"),
    [
        pytest.param("RemoveDuplicates", 599, False, id="replicas stay together within the cool-down"),
        pytest.param("RemoveDuplicates", 601, True, id="replicas are separated after the cool-down"),
        pytest.param("RemovePodsViolatingNodeTaints", 599, True, id="untolerated taints are left at once"),
    ],
)
def test_pods_that_may_stay_keep_the_cool_down_of_other_plugins(name: str, since: float, moved: bool) -> None:
    taints = [Taint(key="gone", effect="NoSchedule")] if "Taints" in name else []
    pods = [app("p", "4", on="a"), app("q", "4", on="a"), app("kept", "5", on="b", of="kept")]
    snapshot = snapshot_of([node_of_ten("a", taints=taints), node_of_ten("b")], pods)
    peers = PeerPlugins(defragmentation=(read_defragmentation(RESTING),))
    plugin = descheduler_plugins()[name]
    assert isinstance(plugin, Planner)
    request = plan_request(snapshot, {}, peers=peers, last_migrations={"a": NOW - since})
    assert bool(plugin.plan(snapshot, request).moves) is moved


@pytest.mark.parametrize(
    ("there", "target"), [("5", "b"), ("2", "c")], ids=["a node that is kept", "none but those that are emptied"]
)
def test_pods_that_must_leave_prefer_nodes_that_are_not_emptied(there: str, target: str) -> None:
    tainted = node_of_ten("a", taints=[Taint(key="gone", effect="NoSchedule")])
    pods = [app("p", "1", on="a"), app("kept", there, on="b", of="kept")]
    plan = descheduling_plan("RemovePodsViolatingNodeTaints", [tainted, node_of_ten("b"), node_of_ten("c")], pods, {})
    assert move_triples(plan) == [("p", "a", target)]


# --- together ---------------------------------------------------------------------------------------------------------

ARGUMENTS: dict[str, dict[str, Any]] = {
    "load-aware": COOL,
    "defragmentation": PACK,
    "balance": {"maxThreshold": 0.05},
}


def pods_after(pods: list[Pod], plan: Plan) -> list[Pod]:
    where = {move.pod: move.target for move in plan.moves}
    return [
        replace(pod, spec=replace(pod.spec, node_name=where.get(pod.metadata.name, pod.spec.node_name))) for pod in pods
    ]


POD = st.tuples(
    st.sampled_from("abcdef"),
    st.integers(1, 30),  # tenths of a core
    st.integers(1, 30),  # tenths of a GiB
    st.integers(0, 30),  # tenths of a core that are really used
)


@given(
    described=st.lists(POD, min_size=4, max_size=24),
    order=st.permutations(sorted(ARGUMENTS)),
)
@settings(max_examples=60, deadline=None)
def test_load_aware_defragmentation_and_balance_together_come_to_rest(
    described: list[tuple[str, int, int, int]], order: list[str]
) -> None:
    pods = [
        app(f"p{number}", f"{cpu * 100}m", f"{memory * 100}Mi", of=f"app{number}", on=node)
        for number, (node, cpu, memory, _) in enumerate(described)
    ]
    cores = {f"p{number}": used / 10 for number, (_, _, _, used) in enumerate(described)}
    seen = {pod_nodes(pods)}
    for _ in range(10):
        before = pods
        for strategy in order:
            snapshot: Snapshot = snapshot_of([node_of_ten(name) for name in "abcdef"], pods)
            use = usage_of_pods(pods, cores)
            request = plan_request(snapshot, ARGUMENTS[strategy], measured_usage=use, peers=BOTH)
            plan = make_plan(strategy, snapshot, request)
            pods = pods_after(pods, plan)
            if plan.moves:
                assert pod_nodes(pods) not in seen, "this is where it has been before"
                seen.add(pod_nodes(pods))
        if pods == before:
            return
    raise AssertionError("ten cycles, and still something moves")


@given(
    described=st.lists(st.tuples(POD, st.sampled_from("xyz")), min_size=4, max_size=20),
    order=st.permutations(["LoadAware", "Defragmentation", "RemoveDuplicates"]),
)
@settings(max_examples=40, deadline=None)
def test_load_aware_defragmentation_and_remove_duplicates_together_come_to_rest(
    described: list[tuple[tuple[str, int, int, int], str]], order: list[str]
) -> None:
    pods = [
        app(f"p{number}", f"{cpu * 100}m", f"{memory * 100}Mi", of=of, on=node)
        for number, ((node, cpu, memory, _), of) in enumerate(described)
    ]
    cores = {f"p{number}": used / 10 for number, ((_, _, _, used), _) in enumerate(described)}
    known = descheduler_plugins()
    for _ in range(12):
        before = pods
        for name in order:
            plugin, snapshot = known[name], snapshot_of([node_of_ten(one) for one in "abcdef"], pods)
            assert isinstance(plugin, Planner)
            arguments = COOL if name == "LoadAware" else {}
            request = plan_request(snapshot, arguments, measured_usage=usage_of_pods(pods, cores), peers=BOTH)
            pods = pods_after(pods, plugin.plan(snapshot, request))
        if pods == before:
            return
    raise AssertionError("twelve cycles, and still something moves")


def pod_nodes(pods: list[Pod]) -> tuple[str | None, ...]:
    return tuple(pod.spec.node_name for pod in pods)
