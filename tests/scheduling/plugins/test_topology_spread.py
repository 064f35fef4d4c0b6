"""PodTopologySpread, on n1 and n2 in zone a, n3 in zone b, n4 tainted in zone c, and n5 in none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from restow.model.objects import Pod, SelectorRequirement, SelectorSpec, Taint, Toleration, TopologySpreadConstraint
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Code, Cycle
from restow.scheduling.plugins.topology_spread import PodTopologySpread
from tests.model.cluster.builders import node, pod, reservation

HOST = "kubernetes.io/hostname"
ZONES = {"n1": "a", "n2": "a", "n3": "b", "n4": "c"}
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_KEY = "node(s) didn't match pod topology spread constraints (missing required label)"
GPU = Taint(key="gpu", effect="NoSchedule")


def cluster(*pods: Pod) -> Snapshot:
    snapshot = Snapshot()
    for name, zone in ZONES.items():
        snapshot.apply_node(node(name, labels={"zone": zone, HOST: name}, taints=[GPU] if name == "n4" else None))
    snapshot.apply_node(node("n5", labels={HOST: "n5"}))
    for one in pods:
        snapshot.apply_pod(one)
    return snapshot


def spread(key: str = "zone", skew: int = 1, **fields: Any) -> TopologySpreadConstraint:
    fields.setdefault("label_selector", SelectorSpec(match_labels={"app": "web"}))
    fields.setdefault("when_unsatisfiable", "DoNotSchedule")
    return TopologySpreadConstraint(topology_key=key, max_skew=skew, **fields)


def softly(key: str = "zone", skew: int = 1, **fields: Any) -> TopologySpreadConstraint:
    return spread(key, skew, when_unsatisfiable="ScheduleAnyway", **fields)


def webs(*nodes: str, **fields: Any) -> list[Pod]:
    labels = {"app": "web", **fields.pop("more", {})}
    return [pod(f"web-{number}-{where}", on=where, labels=labels, **fields) for number, where in enumerate(nodes)]


def web(*constraints: TopologySpreadConstraint, **fields: Any) -> Pod:
    labels = {"app": "web", **fields.pop("more", {})}
    return pod("web", labels=labels, topology_spread_constraints=list(constraints), **fields)


def refusals(snapshot: Snapshot, incoming: Pod) -> dict[str, str]:
    """The reason by node that is refused."""
    plugin, cycle = PodTopologySpread(), Cycle(incoming, snapshot, 0.0)
    assert not plugin.pre_filter(cycle).is_refusal
    found = {}
    for name in (*ZONES, "n5"):
        row = np.array([snapshot.rows.find_row(name)])
        reasons = [one.reason for one in plugin.refusals(cycle, row)]
        assert bool(plugin.filter(cycle, row)[0]) == (not reasons)
        found.update(dict.fromkeys([name] if reasons else [], *reasons))
    return found


def skewed(*nodes: str) -> dict[str, str]:
    return {**dict.fromkeys(nodes, SKEWED), "n5": NO_KEY}


CASES: list[Any] = [
    pytest.param([], web(), {}, id="no constraints"),
    pytest.param([], web(spread()), skewed(), id="the first pod may go wherever there is a zone"),
    pytest.param(webs("n1"), web(spread()), skewed("n1", "n2"), id="the second goes to another zone"),
    pytest.param(webs("n1"), web(spread(skew=2)), skewed(), id="a skew of two allows one more"),
    pytest.param(webs("n1", "n3", "n4"), web(spread()), skewed(), id="all zones are even"),
    pytest.param(webs("n1"), web(spread(HOST)), {"n1": SKEWED}, id="hosts are domains, too"),
    pytest.param(webs("n1", leaving=True), web(spread()), skewed(), id="leaving pods do not count"),
    pytest.param(webs("n1", namespace="east"), web(spread()), skewed(), id="pods of other namespaces do not count"),
    pytest.param(
        webs("n1"),
        pod("db", topology_spread_constraints=[spread()]),
        skewed(),
        id="a pod that is not selected adds nothing",
    ),
    pytest.param(
        webs("n1", "n2"),
        pod("db", topology_spread_constraints=[spread()]),
        skewed("n1", "n2"),
        id="but keeps away from zones that are too full already",
    ),
    pytest.param(
        webs("n1"), web(spread(label_selector=SelectorSpec())), skewed(), id="an empty selector counts no pod"
    ),
    pytest.param(webs("n1"), web(spread(label_selector=None)), skewed(), id="an absent selector counts no pod"),
    pytest.param(
        webs("n1", "n3", "n4"),
        web(spread(min_domains=4)),
        skewed("n1", "n2", "n3", "n4"),
        id="with less zones than wanted the emptiest counts as empty",
    ),
    pytest.param(webs("n1", "n3", "n4"), web(spread(min_domains=3)), skewed(), id="as many zones as wanted"),
    pytest.param(
        webs("n1", "n3"),
        web(spread(), node_selector={"zone": "a"}),
        skewed(),
        id="nodes outside of the node selector do not count: zone a is compared with itself alone",
    ),
    pytest.param(
        webs("n1"),
        web(spread(node_affinity_policy="Ignore"), node_selector={"zone": "a"}),
        skewed("n1", "n2"),
        id="unless the policy is to ignore it",
    ),
    pytest.param(webs("n1", "n3"), web(spread()), skewed("n1", "n2", "n3"), id="tainted nodes count"),
    pytest.param(
        webs("n1", "n3"), web(spread(node_taints_policy="Honor")), skewed(), id="unless the policy is to honor taints"
    ),
    pytest.param(
        webs("n1", "n3"),
        web(spread(node_taints_policy="Honor"), tolerations=[Toleration(key="gpu", operator="Exists")]),
        skewed("n1", "n2", "n3"),
        id="and the pod does not tolerate them",
    ),
    pytest.param(
        webs("n1", more={"hash": "1"}),
        web(spread(match_label_keys=["hash"]), more={"hash": "2"}),
        skewed(),
        id="matchLabelKeys: only pods of the same revision count",
    ),
    pytest.param(
        webs("n1"),
        web(spread(), spread(HOST)),
        skewed("n1", "n2"),
        id="two constraints: both must hold",
    ),
    pytest.param(
        webs("n5"),
        web(spread(HOST), spread()),
        {"n5": NO_KEY},
        id="nodes without the key of another constraint do not count at all",
    ),
    pytest.param(
        webs("n1", "n1"),
        web(spread(HOST, skew=2), spread("rack")),
        {**dict.fromkeys(ZONES, NO_KEY), "n5": NO_KEY},
        id="no node has the second key",
    ),
]


@pytest.mark.parametrize(("pods", "incoming", "expected"), CASES)
def test_spread_filter_refuses_nodes_beyond_the_skew(pods: list[Pod], incoming: Pod, expected: dict[str, str]) -> None:
    assert refusals(cluster(*pods), incoming) == expected


def test_first_failed_spread_constraint_gives_the_reason() -> None:
    snapshot = cluster()
    snapshot.apply_node(node("n6", labels={"zone": "a", "rack": "r"}))
    snapshot.apply_node(node("n7", labels={"zone": "b", "rack": "r"}))
    for one in webs("n6", "n6"):
        snapshot.apply_pod(one)
    plugin, cycle = PodTopologySpread(), Cycle(web(spread(), spread("rack")), snapshot, 0.0)
    plugin.pre_filter(cycle)
    found = plugin.refusals(cycle, snapshot.rows.every)
    names = [snapshot.rows.name(row) for row in range(snapshot.rows.size)]
    reasons = {one.reason: [name for name, hit in zip(names, one.rows, strict=True) if hit] for one in found}
    assert reasons == {NO_KEY: ["n3", "n4", "n5"], SKEWED: ["n1", "n2", "n6"]}
    assert [one.resolvable for one in found] == [False, True]


def test_spread_counts_a_seat_as_its_pod() -> None:
    snapshot = cluster()
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    unlabelled = spread(
        label_selector=SelectorSpec(match_expressions=[SelectorRequirement(key="x", operator="DoesNotExist")])
    )
    assert refusals(snapshot, web(unlabelled)) == skewed("n1", "n2")


def test_spread_counts_follow_assumed_pods_and_undo() -> None:
    snapshot, incoming = cluster(), web(spread())
    mark = snapshot.mark()
    snapshot.assume(pod("other", labels={"app": "web"}), "n3", at=0.0)
    assert refusals(snapshot, incoming) == skewed("n3")
    snapshot.undo_to(mark)
    assert refusals(snapshot, incoming) == skewed()


def test_spread_counts_follow_nodes_into_other_zones() -> None:
    snapshot = cluster(*webs("n3"))
    assert refusals(snapshot, web(spread())) == skewed("n3")
    snapshot.apply_node(node("n3", labels={"zone": "c", HOST: "n3"}))
    assert refusals(snapshot, web(spread())) == skewed("n3", "n4")


def test_unreadable_spread_selector_is_unresolvable() -> None:
    bad = SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="Like", values=["w"])])
    verdict = PodTopologySpread().pre_filter(Cycle(web(spread(label_selector=bad)), cluster(), 0.0))
    assert verdict.code is Code.UNRESOLVABLE
    assert "operator 'Like'" in verdict.reasons[0]


# --- scores -----------------------------------------------------------------------------------------------------------


def scores(snapshot: Snapshot, incoming: Pod, *nodes: str) -> list[int] | None:
    plugin, cycle = PodTopologySpread(), Cycle(incoming, snapshot, 0.0)
    if plugin.pre_score(cycle).code is Code.SKIP:
        return None
    rows = np.array([snapshot.rows.find_row(name) for name in nodes or (*ZONES, "n5")])
    return list(map(int, plugin.normalize_score(cycle, plugin.score(cycle, rows))))


@pytest.mark.parametrize(
    ("pods", "incoming", "expected"),
    [
        pytest.param([], web(spread()), None, id="hard constraints do not score"),
        pytest.param([], web(softly()), [100, 100, 100, 100, 0], id="no pod is there; a node in no zone is worst"),
        pytest.param(webs("n1"), web(softly()), [0, 0, 100, 100, 0], id="zones without pods are best"),
        pytest.param(
            # ln(3 zones + 2) = 1.609: 4 pods rate 6.44 -> 6, 1 pod 1.609 -> 2, none 0
            webs("n1", "n1", "n2", "n2", "n3"),
            web(softly()),
            [0, 0, 66, 100, 0],
            id="rates are rounded, scores cut off",
        ),
        pytest.param(
            # with maxSkew 3 all rate 2 more: 8.44 -> 8, 3.609 -> 4, 2
            webs("n1", "n1", "n2", "n2", "n3"),
            web(softly(skew=3)),
            [25, 25, 75, 100, 0],
            id="a larger skew is minded less",
        ),
        pytest.param(
            # ln(5 nodes + 2) = 1.946: 2 pods rate 3.89 -> 4
            webs("n1", "n1"),
            web(softly(HOST)),
            [0, 100, 100, 100, 100],
            id="hosts count their own pods",
        ),
        pytest.param(webs("n1", leaving=True), web(softly()), [100, 100, 100, 100, 0], id="leaving pods do not count"),
    ],
)
def test_spread_scores_are_kube_schedulers(pods: list[Pod], incoming: Pod, expected: list[int] | None) -> None:
    assert scores(cluster(*pods), incoming) == expected


def test_spread_score_weighs_domains_of_feasible_nodes_only() -> None:
    # one zone left: ln(1 + 2) = 1.0986, 5 pods rate 5.49 -> 5; with three zones 8.05 -> 8
    snapshot = cluster(*webs("n1", "n1", "n1", "n1", "n1"))
    plugin, cycle = PodTopologySpread(), Cycle(web(softly()), snapshot, 0.0)
    plugin.pre_score(cycle)
    rows = [snapshot.rows.find_row(name) for name in ZONES]
    assert plugin.score(cycle, np.array(rows[:2])).tolist() == [5, 5]
    assert plugin.score(cycle, np.array(rows)).tolist() == [8, 8, 0, 0]
