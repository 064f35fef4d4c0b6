"""Gangs and the seats that are assigned to them together."""

from __future__ import annotations

from tests.model.cluster.builders import node
from tests.model.reservations.builders import FITS_POLICY, WHOLE_NODE, pod_group, task, web_pod, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes


def test_gang_gets_the_seats_of_one_reservation_as_a_whole() -> None:
    small = web_reservation("a", task(1), at={0: "n1"}, **FITS_POLICY)
    large = web_reservation("b", task(2), at={0: "n2", 1: "n2"}, **FITS_POLICY, created="2026-02-01T00:00:00Z")
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod_group("g", 2), small, large)
    assert cluster.session(web_pod("x", group="g"), web_pod("y", group="g")).seats == {"x": "b/t/0", "y": "b/t/1"}


def test_pods_of_a_gang_without_a_seat_are_placed_elsewhere() -> None:
    cluster = SessionCluster(
        *named_nodes("n1", "n2"),
        pod_group("g", 2),
        web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, **FITS_POLICY),
    )
    outcome = cluster.session(web_pod("x", WHOLE_NODE, group="g"), web_pod("y", WHOLE_NODE, group="g"))
    assert (outcome.seats, outcome.nodes) == ({"x": "r/t/0"}, {"x": "n1", "y": "n2"})


def test_gang_with_more_pods_than_template_seats_is_no_match() -> None:
    cluster = SessionCluster(
        *named_nodes("n1", "n2", "n3"), pod_group("g", 2), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"})
    )
    outcome = cluster.session(web_pod("x", WHOLE_NODE, group="g"), web_pod("y", WHOLE_NODE, group="g"))
    assert (outcome.seats, outcome.nodes) == ({}, {"x": "n2", "y": "n3"})


def test_gang_gets_all_template_seats_but_unfit_ones() -> None:
    nodes = [*named_nodes("n1", "n2", "n4"), node("n3", unschedulable=True)]
    cluster = SessionCluster(
        *nodes, pod_group("g", 3), web_reservation("r", task(3, WHOLE_NODE), at={0: "n1", 1: "n2", 2: "n3"})
    )
    outcome = cluster.session(*(web_pod(name, WHOLE_NODE, group="g") for name in "abc"))
    assert (outcome.seats, outcome.nodes["c"]) == ({"a": "r/t/0", "b": "r/t/1"}, "n4")


def test_gang_gets_seats_of_its_own_reservation_before_those_of_single_pods() -> None:
    held = web_reservation("r", task(2, WHOLE_NODE), at={0: "n1", 1: "n2"}, **FITS_POLICY)
    cluster = SessionCluster(*named_nodes("n1", "n2", "n3"), pod_group("g", 2), held)
    outcome = cluster.session(
        web_pod("x", WHOLE_NODE, group="g"), web_pod("y", WHOLE_NODE, group="g", labels={"app": "worker"})
    )
    assert (outcome.seats, outcome.nodes) == ({"x": "r/t/0"}, {"x": "n1", "y": "n3"})


def test_gang_that_cannot_be_placed_whole_gets_no_seat() -> None:
    held = web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, **FITS_POLICY)
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 2), held)
    outcome = cluster.session(web_pod("x", WHOLE_NODE, group="g"), web_pod("y", WHOLE_NODE, group="g"))
    assert (outcome.seats, sorted(outcome.refused_pods)) == ({}, ["x", "y"])
    assert len(cluster.snapshot.reservations.reserved_pods.names()) == 1


def test_gang_with_missing_pods_gets_no_seat() -> None:
    cluster = SessionCluster(
        *named_nodes("n1"), pod_group("g", 2), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, **FITS_POLICY)
    )
    outcome = cluster.session(web_pod("x", WHOLE_NODE, group="g"))
    assert (outcome.seats, list(outcome.refused_pods)) == ({}, ["x"])
