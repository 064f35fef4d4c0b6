"""Resources that no node has offered: pods that request one are refused by its name until a node has some."""

from __future__ import annotations

import pytest

from restow.model.objects import Node
from restow.scheduling.registry import read_profile
from restow.scheduling.schedule_result import NodeFound, NoNodeFound
from tests.model.cluster.builders import node, pod
from tests.scheduling.core.sample_plugins import cluster, cycle, node_of

THING = "example.com/thing"
IGNORING = {
    "tiers": [{"plugins": [{"name": "NodeResourcesFit", "arguments": {"ignoredResources": [THING]}}]}],
}


def offering(name: str, things: int, version: int = 90) -> Node:
    return node(name, {"cpu": "4", "memory": "8Gi", "pods": "10", THING: str(things)}, version=version)


def test_each_unknown_resource_is_refused_by_name_and_adds_no_column() -> None:
    snapshot, engine = cluster(node("n1"), node("n2")), read_profile({}).engine
    for number in range(40):
        found = engine.find_node(cycle(snapshot, pod("p", {f"example.com/odd-{number}": "1"})))
        assert isinstance(found, NoNodeFound)
        assert found.message == f"0/2 nodes are available: 2 Insufficient example.com/odd-{number}."
    assert len(snapshot.room.free) == 4


@pytest.mark.parametrize("plugins", [(), ("BinPacking",)], ids=["as configured", "with bin-packing"])
def test_node_that_offers_a_new_resource_is_used_up_and_no_further(plugins: tuple[str, ...]) -> None:
    snapshot = cluster(node("n1"), node("n2"))
    engine = read_profile({"tiers": [{"plugins": [{"name": one} for one in plugins]}]} if plugins else {}).engine
    waiting = [pod(f"p{number}", {THING: "2", "cpu": "1"}) for number in range(3)]
    assert isinstance(engine.find_node(cycle(snapshot, waiting[0])), NoNodeFound)
    snapshot.apply_node(offering("n2", 4))
    for one in waiting[:2]:
        found = engine.find_node(cycle(snapshot, one))
        assert isinstance(found, NodeFound) and found.node == "n2"
        snapshot.assume(one, found.node, at=0.0)
    refused = engine.find_node(cycle(snapshot, waiting[2]))
    assert isinstance(refused, NoNodeFound)
    assert refused.message == f"0/2 nodes are available: 2 Insufficient {THING}."


def test_bin_packing_weighs_a_resource_once_nodes_offer_it() -> None:
    snapshot, engine = (
        cluster(node("n1"), node("n2")),
        read_profile({"tiers": [{"plugins": [{"name": "BinPacking"}]}]}).engine,
    )
    asks = pod("p", {THING: "1", "cpu": "1"})
    engine.find_node(cycle(snapshot, asks))
    snapshot.apply_node(offering("n1", 8))
    snapshot.apply_node(offering("n2", 8))
    snapshot.assume(pod("there", {THING: "6", "cpu": "1"}), "n2", at=0.0)
    snapshot.assume(pod("other", {"cpu": "1"}), "n1", at=0.0)
    assert node_of(engine.find_node(cycle(snapshot, asks))) == "n2"


def test_ignored_resource_is_ignored_before_and_after_nodes_offer_it() -> None:
    snapshot, engine = cluster(node("n1")), read_profile(IGNORING).engine
    asks = pod("p", {THING: "2"})
    assert node_of(engine.find_node(cycle(snapshot, asks))) == "n1"
    snapshot.apply_node(offering("n1", 1))
    assert node_of(engine.find_node(cycle(snapshot, asks))) == "n1"
