"""The mask cache: pods that keep apart go where a look at every node says, whatever changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.objects import Affinity, Node, PodAffinity, PodAffinityTerm, SelectorSpec, TopologySpreadConstraint
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.plugins.topology_spread import PodTopologySpread
from restow.scheduling.ranking import key_blocks, mask_cache
from restow.scheduling.schedule_result import NodeFound
from tests.model.cluster.builders import node, pod
from tests.scheduling.core.sample_plugins import cluster, cycle, node_of

HOST = "kubernetes.io/hostname"
X, Y = SelectorSpec(match_labels={"app": "x"}), SelectorSpec(match_labels={"app": "y"})


def engine() -> Engine:
    return Engine([NodeResourcesFit(), PodTopologySpread(), InterPodAffinity()])


def host(name: str, label: str = "own", cpu: int = 800, version: int | str = "") -> Node:
    labels = {"own": {HOST: name}, "shared": {HOST: "shared"}, "none": {}}[label]
    return node(name, {"cpu": str(cpu), "memory": "8Ti", "pods": "9"}, labels=labels, version=version)


def apart(selector: SelectorSpec = X) -> dict[str, Any]:
    term = PodAffinityTerm(topology_key=HOST, label_selector=selector)
    return {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[term]))}


def spread() -> dict[str, Any]:
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key=HOST, when_unsatisfiable="DoNotSchedule", label_selector=X
    )
    return {"topology_spread_constraints": [constraint]}


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "apart": apart,
    "spread": spread,
    "both": lambda: {**apart(Y), **spread()},
    "neither": dict,
}
NAMES = st.sampled_from([f"n{number}" for number in range(10)])
NUMBERS = st.integers(0, 12)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES, st.sampled_from(["own", "own", "own", "shared", "none"])),
        st.tuples(st.just("gone"), NAMES),
        st.tuples(st.just("pod"), NAMES, NUMBERS, st.sampled_from("xyz"), st.booleans()),
        st.tuples(st.just("over"), NUMBERS),
        st.tuples(st.just("try"), NAMES, st.sampled_from(sorted(KINDS))),
        st.tuples(st.just("place"), st.sampled_from(sorted(KINDS)), st.sampled_from("xy"), st.integers(1, 8)),
    ),
    max_size=40,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are many already."""
    monkeypatch.setattr(key_blocks, "BLOCK", 4)
    monkeypatch.setattr(mask_cache, "_FEW", 3)


@settings(max_examples=60, deadline=None)
@given(events=EVENTS)
def test_engine_with_a_mask_cache_chooses_like_a_new_engine(events: list[tuple[Any, ...]]) -> None:
    kept, snapshot, made = engine(), cluster(*(host(f"n{number}") for number in range(6))), 0
    for event in events:
        match event:
            case ("node", name, label):
                snapshot.apply_node(host(name, label))
            case ("gone", name):
                snapshot.remove_node(host(name))
            case ("pod", name, number, app, repels):
                size, extra = {"cpu": "350" if number % 2 else "1"}, apart() if repels else {}
                snapshot.apply_pod(pod(f"old{number}", size, on=name, labels={"app": app}, **extra))
            case ("over", number):
                snapshot.remove_pod(pod(f"old{number}"))
            case ("try", name, kind):
                mark, one = snapshot.mark(), pod("tried", labels={"app": "x"}, **KINDS[kind]())
                if snapshot.node(name) is not None:
                    snapshot.assume(one, name, at=0.0)
                kept.find_node(cycle(snapshot, pod("other", labels={"app": "x"}, **KINDS[kind]())))
                snapshot.undo_to(mark)
            case ("place", kind, app, times):
                for _ in range(times):
                    made += 1
                    one = pod(f"new{made}", {"cpu": "10m"}, labels={"app": app}, **KINDS[kind]())
                    found, fresh = kept.find_node(cycle(snapshot, one)), engine().find_node(cycle(snapshot, one))
                    assert getattr(found, "node", None) == getattr(fresh, "node", None)
                    if isinstance(found, NodeFound):
                        snapshot.assume(one, found.node, at=0.0)


def test_no_mask_cache_is_made_while_nodes_share_a_host_name() -> None:
    kept, snapshot = engine(), cluster(host("n0"), host("n1"), host("n2"))
    for number, where in enumerate(["n0", "n1"]):
        one = pod(f"p{number}", labels={"app": "x"}, **apart())
        assert node_of(kept.find_node(cycle(snapshot, one))) == where
        snapshot.assume(one, where, at=0.0)
    (ranking,) = kept._rankings._rankings.values()
    assert ranking.has_mask_cache
    for name in ("n1", "n2"):
        snapshot.apply_node(host(name, "shared", version=90))
    assert not isinstance(kept.find_node(cycle(snapshot, pod("p", labels={"app": "x"}, **apart()))), NodeFound)
    assert not ranking.has_mask_cache


def screened() -> tuple[Engine, Snapshot, Cycle]:
    """A cluster of four, and an engine that has put a pod on the first and knows what keeps others from it."""
    kept, snapshot = engine(), cluster(*(host(f"n{number}") for number in range(4)))
    snapshot.assume(pod("first", {"cpu": "1m"}, labels={"app": "x"}, **apart()), "n0", at=0.0)
    snapshot.apply_pod(pod("other", {"cpu": "1m"}, on="n1", labels={"app": "z"}))
    asking = cycle(snapshot, pod("p", {"cpu": "1m"}, labels={"app": "x"}, **apart()))
    assert node_of(kept.find_node(asking)) == "n1"
    return kept, snapshot, asking


def test_mask_cache_sees_a_pod_that_only_changes_its_labels() -> None:
    kept, snapshot, asking = screened()
    snapshot.apply_pod(pod("other", {"cpu": "1m"}, on="n1", labels={"app": "x"}))
    assert node_of(kept.find_node(asking)) == "n2"


def test_mask_cache_sees_a_node_that_other_pods_fill() -> None:
    kept, snapshot, asking = screened()
    snapshot.apply_pod(pod("big", {"cpu": "800"}, on="n1"))
    assert node_of(kept.find_node(asking)) == "n2"


def test_mask_cache_sees_many_changes_at_once() -> None:
    kept, snapshot = engine(), cluster(*(host(f"n{number}") for number in range(9)))
    for number in range(3):
        snapshot.assume(pod(f"p{number}", labels={"app": "x"}, **apart()), f"n{number}", at=0.0)
    asking = cycle(snapshot, pod("p", labels={"app": "x"}, **apart()))
    assert node_of(kept.find_node(asking)) == "n3"
    for number in range(3, 8):
        snapshot.apply_pod(pod(f"q{number}", on=f"n{number}", labels={"app": "x"}))
    assert node_of(kept.find_node(asking)) == "n8"
    snapshot.forget(pod("p1"))
    assert node_of(kept.find_node(asking)) == "n1"
