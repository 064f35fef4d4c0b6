"""The share of the cluster that one namespace may hold by reservations."""

from __future__ import annotations

import pytest

from tests.model.cluster.builders import node
from tests.model.reservations.builders import task, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes

GPU = "nvidia.com/gpu"
ONE, TWO = {GPU: "1"}, {GPU: "2"}


def test_unknown_resource_is_refused_by_the_node_filters_not_by_the_share() -> None:
    outcome = SessionCluster(*named_nodes("n1", "n2", "n3")).session(
        web_reservation("r", task(1, ONE)), namespace_share=50
    )
    assert outcome.refused_reservations == {"r": f"0/3 nodes are available: 3 Insufficient {GPU}."}


@pytest.mark.parametrize(
    ("there", "asked", "share", "limit"),
    [
        pytest.param("1", ONE, 50, None, id="half of one is one"),
        pytest.param("3", TWO, 50, None, id="half of three are two"),
        pytest.param("2", TWO, 50, "1", id="half of two is one"),
        pytest.param("1", ONE, 0, "0", id="nothing of one is nothing"),
    ],
)
def test_namespace_share_is_rounded_up(there: str, asked: dict[str, str], share: int, limit: str | None) -> None:
    cluster = SessionCluster(node("n1", {"cpu": "4", "pods": "110", GPU: there}))
    outcome = cluster.session(web_reservation("r", task(1, asked)), namespace_share=share)
    told = f"{GPU} (limit {limit}, held 0, requested {asked[GPU]})"
    assert bool(outcome.held) is (limit is None)
    assert limit is None or told in outcome.refused_reservations["r"]
