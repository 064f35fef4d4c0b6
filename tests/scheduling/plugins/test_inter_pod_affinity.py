"""InterPodAffinity: which pods may be near which, on four nodes: n1 and n2 in zone a, n3 in zone b, n4 in none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from restow.model.objects import (
    Affinity,
    Namespace,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    SelectorSpec,
    WeightedPodAffinityTerm,
)
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import ArgumentError, Code, Cycle
from restow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from restow.scheduling.schedule_result import NodeFound, NoNodeFound
from tests.model.cluster.builders import node, pod, reservation

NODES = {
    "n1": {"zone": "a", "host": "n1"},
    "n2": {"zone": "a", "host": "n2"},
    "n3": {"zone": "b", "host": "n3"},
    "n4": {},
}
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"


def cluster(*pods: Pod, namespaces: Mapping[str, dict[str, str]] | None = None) -> Snapshot:
    snapshot = Snapshot()
    for name, labels in NODES.items():
        snapshot.apply_node(node(name, labels=labels))
    for name, labels in (namespaces or {}).items():
        snapshot.apply_namespace(Namespace(metadata=ObjectMeta(name=name, labels=labels)))
    for one in pods:
        snapshot.apply_pod(one)
    return snapshot


def selects(**labels: str) -> SelectorSpec:
    return SelectorSpec(match_labels=labels)


def term(key: str = "zone", selector: SelectorSpec | None = None, **fields: Any) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=selector or selects(app="web"), **fields)


def needs(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_affinity=PodAffinity(required=list(terms)))


def avoids(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_anti_affinity=PodAffinity(required=list(terms)))


def likes(weight: int, one: PodAffinityTerm) -> Affinity:
    preferred = [WeightedPodAffinityTerm(weight=abs(weight), pod_affinity_term=one)]
    side = PodAffinity(preferred=preferred)
    return Affinity(pod_affinity=side) if weight > 0 else Affinity(pod_anti_affinity=side)


def web(name: str = "web", on: str | None = None, **fields: Any) -> Pod:
    return pod(name, on=on, labels={"app": "web", **fields.pop("more", {})}, **fields)


def db(name: str = "db", on: str | None = None, **fields: Any) -> Pod:
    return pod(name, on=on, labels={"app": "db"}, **fields)


def refusals(snapshot: Snapshot, incoming: Pod) -> dict[str, str]:
    """The reason by node that is refused."""
    plugin, cycle = InterPodAffinity(), Cycle(incoming, snapshot, 0.0)
    assert not plugin.pre_filter(cycle).is_refusal
    rows = {name: snapshot.rows.find_row(name) or 0 for name in NODES}
    found = {}
    for name, row in rows.items():
        reasons = [one.reason for one in plugin.refusals(cycle, np.array([row]))]
        assert bool(plugin.filter(cycle, np.array([row]))[0]) == (not reasons)
        found.update(dict.fromkeys([name] if reasons else [], *reasons))
    return found


def only(reason: str, *nodes: str) -> dict[str, str]:
    return dict.fromkeys(nodes, reason)


EAST = {"namespace": "east"}

CASES: list[Any] = [
    pytest.param([], db(), {}, id="no pod has a term"),
    pytest.param([web(on="n1")], db(affinity=needs(term())), only(AFFINITY, "n3", "n4"), id="needs web in its zone"),
    pytest.param(
        [web(on="n1")], db(affinity=needs(term("host"))), only(AFFINITY, "n2", "n3", "n4"), id="needs web on its host"
    ),
    pytest.param(
        [], db(affinity=needs(term())), only(AFFINITY, "n1", "n2", "n3", "n4"), id="needs web, and there is none"
    ),
    pytest.param([], web(affinity=needs(term())), only(AFFINITY, "n4"), id="the first of its kind may start any zone"),
    pytest.param(
        [web("other", on="n3")], web(affinity=needs(term())), only(AFFINITY, "n1", "n2", "n4"), id="the second may not"
    ),
    pytest.param(
        [web("other", on="n4")],
        web(affinity=needs(term())),
        only(AFFINITY, "n4"),
        id="one in no zone at all starts none",
    ),
    pytest.param(
        [web(on="n1"), pod("red", on="n3", labels={"colour": "red"})],
        db(affinity=needs(term(), term(selector=selects(colour="red")))),
        only(AFFINITY, "n1", "n2", "n3", "n4"),
        id="all terms must be met by one and the same pod",
    ),
    pytest.param(
        [web(on="n3", more={"colour": "red"})],
        db(affinity=needs(term(), term("host", selects(colour="red")))),
        only(AFFINITY, "n1", "n2", "n4"),
        id="a pod that meets all terms, each in its own kind of domain",
    ),
    pytest.param([web(on="n1")], db(affinity=avoids(term())), only(ANTI, "n1", "n2"), id="avoids zones with web"),
    pytest.param([web(on="n1")], db(affinity=avoids(term("host"))), only(ANTI, "n1"), id="avoids hosts with web"),
    pytest.param(
        [web(on="n1", leaving=True)],
        db(affinity=avoids(term())),
        only(ANTI, "n1", "n2"),
        id="a leaving pod is still near",
    ),
    pytest.param([web(on="n1", phase="Succeeded")], db(affinity=avoids(term())), {}, id="a pod that is over is not"),
    pytest.param([web(on="n4")], db(affinity=avoids(term())), {}, id="no pod is near a node without the key"),
    pytest.param(
        [web(on="n1", affinity=avoids(term(selector=selects(app="db"))))],
        db(),
        only(OTHERS, "n1", "n2"),
        id="a pod that is there avoids the one that comes",
    ),
    pytest.param(
        [web(on="n1", affinity=avoids(term(selector=selects(app="db"))))], web(), {}, id="it does not mind others"
    ),
    pytest.param(
        [web(on="n1", affinity=avoids(term("host")))],
        web("second", affinity=avoids(term("host"))),
        only(ANTI, "n1"),
        id="both avoid each other: the reason is the pod's own",
    ),
    pytest.param([web(on="n1", **EAST)], db(affinity=avoids(term())), {}, id="terms mean the pod's own namespace"),
    pytest.param(
        [web(on="n1", **EAST)],
        db(affinity=avoids(term(namespaces=["east", "west"]))),
        only(ANTI, "n1", "n2"),
        id="or the namespaces they list",
    ),
    pytest.param(
        [web(on="n1", **EAST)],
        db(affinity=avoids(term(namespace_selector=SelectorSpec()))),
        only(ANTI, "n1", "n2"),
        id="or all",
    ),
    pytest.param(
        [web(on="n1", **EAST), web("w2", on="n3")],
        db(affinity=avoids(term(namespace_selector=selects(team="a")))),
        only(ANTI, "n1", "n2"),
        id="or those with certain labels, and then not the pod's own",
    ),
    pytest.param(
        [web(on="n1", **EAST)],
        db(affinity=avoids(term(namespace_selector=SelectorSpec(), selector=SelectorSpec()))),
        only(ANTI, "n1", "n2"),
        id="an empty selector means every pod",
    ),
    pytest.param(
        [web(on="n1")],
        db(affinity=avoids(PodAffinityTerm(topology_key="zone"))),
        {},
        id="an absent selector means none",
    ),
    pytest.param(
        [web("v1", on="n1", more={"hash": "1"}), web("v2", on="n3", more={"hash": "2"})],
        web("v3", more={"hash": "2"}, affinity=avoids(term(match_label_keys=["hash"]))),
        only(ANTI, "n3"),
        id="matchLabelKeys: only pods of the same revision",
    ),
    pytest.param(
        [web("v1", on="n1", more={"hash": "1"}), web("v2", on="n3", more={"hash": "2"})],
        web("v3", more={"hash": "2"}, affinity=avoids(term(mismatch_label_keys=["hash"]))),
        only(ANTI, "n1", "n2"),
        id="mismatchLabelKeys: only pods of other revisions",
    ),
    pytest.param(
        [web("v1", on="n1", more={"hash": "1"})],
        web(
            "v2",
            more={"hash": "2"},
            affinity=avoids(term(selector=selects(app="web", hash="1"), match_label_keys=["hash"])),
        ),
        only(ANTI, "n1", "n2"),
        id="what the API server wrote into the selector stays, whatever the labels became",
    ),
]


@pytest.mark.parametrize(("pods", "incoming", "expected"), CASES)
def test_affinity_filter_refuses_nodes_by_term(pods: list[Pod], incoming: Pod, expected: dict[str, str]) -> None:
    assert refusals(cluster(*pods, namespaces={"east": {"team": "a"}}), incoming) == expected


def test_pod_in_the_domain_of_one_term_ends_the_first_pod_rule_for_all_terms() -> None:
    snapshot = cluster(web("other", on="n4"))
    snapshot.apply_node(node("n4", labels={"host": "n4"}))
    everyone = dict.fromkeys(NODES, AFFINITY)
    assert refusals(snapshot, web(affinity=needs(term(), term("host")))) == everyone


def test_affinity_counts_a_seat_as_its_pod() -> None:
    snapshot = cluster()
    snapshot.apply_reservation(reservation("r", {0: "n1"}, affinity=avoids(term(selector=selects(app="db")))))
    assert refusals(snapshot, db()) == only(OTHERS, "n1", "n2")


def test_only_anti_affinity_refusals_are_resolvable() -> None:
    snapshot = cluster(web(on="n1"))
    plugin, cycle = InterPodAffinity(), Cycle(db(affinity=needs(term())), snapshot, 0.0)
    plugin.pre_filter(cycle)
    assert [one.resolvable for one in plugin.refusals(cycle, snapshot.rows.every)] == [False]
    cycle = Cycle(db(affinity=avoids(term())), snapshot, 0.0)
    plugin.pre_filter(cycle)
    assert [one.resolvable for one in plugin.refusals(cycle, snapshot.rows.every)] == [True]


def test_relabelled_namespace_changes_the_pods_that_a_term_selects() -> None:
    incoming = db(affinity=avoids(term(namespace_selector=selects(team="a"))))
    snapshot = cluster(web(on="n1", **EAST))
    assert refusals(snapshot, incoming) == {}
    mark = snapshot.mark()
    snapshot.apply_namespace(Namespace(metadata=ObjectMeta(name="east", labels={"team": "a"})))
    assert refusals(snapshot, incoming) == only(ANTI, "n1", "n2")
    snapshot.undo_to(mark)
    assert refusals(snapshot, incoming) == {}


def test_namespace_that_was_never_shown_is_selected_by_its_name() -> None:
    named = term(namespace_selector=selects(**{"kubernetes.io/metadata.name": "east"}))
    assert refusals(cluster(web(on="n1", **EAST)), db(affinity=avoids(named))) == only(ANTI, "n1", "n2")


def test_affinity_filter_is_skipped_for_a_pod_that_no_term_concerns() -> None:
    snapshot = cluster(web(on="n1", affinity=avoids(term(selector=selects(app="db")))))
    assert InterPodAffinity().pre_filter(Cycle(web("w"), snapshot, 0.0)).code is Code.SKIP


def test_unreadable_affinity_term_is_unresolvable_for_its_own_pod() -> None:
    bad = SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="Like", values=["w"])])
    verdict = InterPodAffinity().pre_filter(Cycle(db(affinity=needs(term(selector=bad))), cluster(), 0.0))
    assert verdict.code is Code.UNRESOLVABLE
    assert verdict.reasons[0].startswith("parsing pod: operator 'Like'")


# --- scores -----------------------------------------------------------------------------------------------------------


def scores(snapshot: Snapshot, incoming: Pod, **arguments: Any) -> list[int] | None:
    """Of n1 to n4; None when there is nothing to say."""
    plugin, cycle = InterPodAffinity(arguments), Cycle(incoming, snapshot, 0.0)
    if plugin.pre_score(cycle).code is Code.SKIP:
        return None
    rows = np.array([snapshot.rows.find_row(name) for name in NODES])
    return list(map(int, plugin.normalize_score(cycle, plugin.score(cycle, rows))))


@pytest.mark.parametrize(
    ("pods", "incoming", "expected"),
    [
        pytest.param([web(on="n1")], db(), None, id="no pod has a preference"),
        pytest.param([web(on="n1")], db(affinity=likes(5, term())), [100, 100, 0, 0], id="likes zones with web"),
        pytest.param(
            [web(on="n1")], db(affinity=likes(-5, term("host"))), [0, 100, 100, 100], id="dislikes hosts with web"
        ),
        pytest.param(
            [web("w1", on="n1"), web("w2", on="n2"), web("w3", on="n3")],
            db(affinity=likes(5, term())),
            [100, 100, 50, 0],
            id="the more the better",
        ),
        pytest.param(
            [web("w1", on="n1"), web("w2", on="n1"), web("w3", on="n1"), web("w4", on="n3")],
            db(affinity=likes(1, term("host"))),
            [100, 0, 33, 0],
            id="fractions are cut off",
        ),
        pytest.param(
            [web(on="n1", affinity=likes(7, term(selector=selects(app="db"))))],
            db(),
            [100, 100, 0, 0],
            id="others like the pod",
        ),
        pytest.param(
            [web(on="n3", affinity=likes(-7, term(selector=selects(app="db"))))],
            db(),
            [100, 100, 0, 100],
            id="others dislike the pod",
        ),
        pytest.param(
            [web(on="n3", affinity=needs(term(selector=selects(app="db"))))],
            db(),
            [0, 0, 100, 0],
            id="others need the pod",
        ),
    ],
)
def test_affinity_scores_are_kube_schedulers(pods: list[Pod], incoming: Pod, expected: list[int] | None) -> None:
    assert scores(cluster(*pods), incoming) == expected


def test_hard_pod_affinity_weight_is_an_argument() -> None:
    snapshot = cluster(
        web("w1", on="n3", affinity=needs(term(selector=selects(app="db")))),
        web("w2", on="n1", affinity=likes(10, term("host", selects(app="db")))),
    )
    assert scores(snapshot, db()) == [100, 0, 10, 0]
    assert scores(snapshot, db(), hardPodAffinityWeight=20) == [50, 0, 100, 0]
    assert scores(snapshot, db(), ignorePreferredTermsOfExistingPods=True) is None


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"hardPodAffinityWeight": 101}, id="a weight beyond 100"),
        pytest.param({"hardPodAffinityWeight": "1"}, id="a weight that is a string"),
        pytest.param({"hardPodAffinity": 1}, id="an unknown argument"),
    ],
)
def test_wrong_affinity_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        InterPodAffinity(arguments)


def test_first_pod_rule_ends_when_a_matching_pod_runs_outside_of_some_key() -> None:
    snapshot, plugin = cluster(), InterPodAffinity()
    snapshot.apply_node(node("n5", labels={"host": "n1"}))  # as near as n1 by one key, and in no zone
    cycle = Cycle(web("new", affinity=needs(term("host"), term("zone"))), snapshot, 0.0)
    rows = np.array([snapshot.rows.find_row("n1")])
    assert plugin.filter(cycle, rows).all()
    snapshot.apply_pod(web("first", on="n5"))
    assert not plugin.filter(cycle, rows).any()
    snapshot.remove_pod(web("first", on="n5"))
    assert plugin.filter(cycle, rows).all()


def test_skipped_affinity_filter_runs_again_when_a_term_concerns_the_class() -> None:
    def repelling(name: str, app: str) -> Pod:
        term = PodAffinityTerm(topology_key="host", label_selector=SelectorSpec(match_labels={"app": app}))
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
        return pod(name, on="n", labels={"app": "other"}, affinity=affinity)

    snapshot, engine = Snapshot(), Engine([InterPodAffinity()])
    snapshot.apply_node(node("n", labels={"host": "n"}))
    snapshot.apply_pod(repelling("a", "db"))
    asking = pod("p", labels={"app": "web"})
    known = Cycle(asking, snapshot, 0.0).pod_class
    assert isinstance(engine.find_node(Cycle(asking, snapshot, 0.0)), NodeFound)
    snapshot.apply_pod(repelling("b", "web"))
    assert Cycle(asking, snapshot, 0.0).pod_class is known  # the label was read before
    assert isinstance(engine.find_node(Cycle(asking, snapshot, 0.0)), NoNodeFound)
