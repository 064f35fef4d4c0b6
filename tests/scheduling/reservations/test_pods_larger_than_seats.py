"""Pods and gangs that need more than their seats hold: they get the rest in turn, like pods without seats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Placement, Pod, PodGroup, PodStatus, ReservationState
from tests.model.cluster.builders import Amounts, node
from tests.model.reservations.builders import FITS_POLICY, pod_group, task, web_pod, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster

ONE, TWO, THREE = ({"cpu": cpu} for cpu in "123")
SEAT = web_reservation("r", task(1, ONE), at={0: "n1"}, **FITS_POLICY)
OTHERS = {"app": "vip"}


def vip(requests: Amounts = THREE, **fields: Any) -> Pod:
    return web_pod("vip", requests, labels=OTHERS, priority=1000, **fields)


@pytest.mark.parametrize("uses", [None, "r"], ids=["by owner", "by name"])
def test_pod_larger_than_its_seat_waits_for_pods_of_higher_priority(uses: str | None) -> None:
    outcome = SessionCluster(node("n1"), SEAT).session(web_pod("low", THREE, uses=uses), vip())
    assert (outcome.nodes, list(outcome.refused_pods)) == ({"vip": "n1"}, ["low"])


@pytest.mark.parametrize("uses", [None, "r"], ids=["by owner", "one by name"])
def test_gang_with_too_few_seats_waits_for_pods_of_higher_priority(uses: str | None) -> None:
    low = [web_pod("a", ONE, group="g", uses=uses), *(web_pod(name, ONE, group="g") for name in "bc")]
    outcome = SessionCluster(node("n1"), SEAT, pod_group("g", 3)).session(*low, vip())
    assert (outcome.nodes, sorted(outcome.refused_pods)) == ({"vip": "n1"}, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("groups", "low"),
    [
        pytest.param([], [web_pod("p", THREE)], id="a pod larger than its seat"),
        pytest.param([pod_group("g", 3)], [web_pod(name, ONE, group="g") for name in "pqr"], id="a gang with too few"),
    ],
)
def test_pod_larger_than_its_seat_gets_seat_and_room_beside_it_in_turn(
    groups: Sequence[PodGroup], low: list[Pod]
) -> None:
    outcome = SessionCluster(node("n1"), SEAT, *groups).session(*low, vip(TWO))
    assert (outcome.seats, list(outcome.nodes)) == ({}, ["vip"])
    outcome = SessionCluster(node("n1"), SEAT, *groups).session(*low)
    assert (outcome.seats, len(outcome.nodes)) == ({"p": "r/t/0"}, len(low))


@pytest.mark.parametrize("seats", [(TWO, ONE), (ONE, ONE)], ids=["one of them", "all of them"])
@pytest.mark.parametrize("uses", [None, "r"], ids=["by owner", "by name"])
def test_gang_too_large_for_its_seats_waits_for_pods_of_higher_priority(
    seats: tuple[dict[str, str], ...], uses: str | None
) -> None:
    """All of it, or nothing: in its turn it has them, and what is beside them."""
    held = web_reservation("r", *(task(1, each, name=f"t{number}") for number, each in enumerate(seats)), **FITS_POLICY)
    places = [Placement(task=f"t{number}", index=0, node_name="n1") for number in range(len(seats))]
    held = replace(held, status=replace(held.status, state=ReservationState(phase="Available"), placements=places))
    low = [web_pod(name, TWO, group="g") for name in "ab"]
    outcome = SessionCluster(node("n1"), held, pod_group("g", 2, uses=uses)).session(*low, vip(ONE))
    assert sorted(outcome.refused_pods) == ["a", "b"] and set(outcome.nodes) <= {"vip"}
    outcome = SessionCluster(node("n1"), held, pod_group("g", 2, uses=uses)).session(*low)
    assert (sorted(outcome.seats), list(outcome.refused_pods)) == (["a", "b"], [])


def test_pod_that_fits_its_seat_gets_it_before_pods_of_higher_priority() -> None:
    outcome = SessionCluster(node("n1"), SEAT).session(web_pod("low", ONE), vip())
    assert (outcome.seats, outcome.nodes) == ({"low": "r/t/0"}, {"low": "n1", "vip": "n1"})


def test_gang_with_enough_seats_gets_them_before_pods_of_higher_priority() -> None:
    seats = web_reservation("r", task(2, ONE), at={0: "n1", 1: "n1"}, **FITS_POLICY)
    low = [web_pod(name, ONE, group="g") for name in "abc"]
    outcome = SessionCluster(node("n1"), seats, pod_group("g", 2)).session(*low, vip(TWO))
    assert (outcome.seats, list(outcome.refused_pods)) == ({"a": "r/t/0", "b": "r/t/1"}, ["c"])
    assert outcome.nodes["vip"] == "n1"


def nominated(one: Pod) -> Pod:
    return replace(one, status=PodStatus(nominated_node_name="n1"))


def test_room_kept_for_higher_priority_is_not_taken_beside_a_seat() -> None:
    outcome = SessionCluster(node("n1"), SEAT).session(web_pod("low", THREE), nominated=[nominated(vip())])
    assert (outcome.nodes, list(outcome.refused_pods)) == ({}, ["low"])


def test_small_pod_does_not_get_the_seat_of_a_waiting_pod_of_higher_priority() -> None:
    small, large = web_pod("small", ONE), web_pod("large", THREE, priority=10)
    outcome = SessionCluster(node("n1"), SEAT).session(small, large)
    assert (outcome.seats, outcome.nodes) == ({"large": "r/t/0"}, {"large": "n1", "small": "n1"})


def test_pod_gets_its_seat_in_turn_although_more_room_is_kept_than_exists() -> None:
    """The large pod has to wait for the other seat; behind it, the small one gets in where room for another pod is
    kept that others have not left yet."""
    seats = web_reservation("r", task(2, ONE), at={0: "n1", 1: "n1"}, **FITS_POLICY)
    cluster = SessionCluster(node("n1"), seats, web_pod("old", TWO, on="n1", leaving=True, labels=OTHERS))
    small, large = web_pod("small", ONE), web_pod("large", THREE, priority=10)
    outcome = cluster.session(small, large, nominated=[nominated(vip(TWO))])
    assert (outcome.seats, list(outcome.refused_pods)) == ({"small": "r/t/0"}, ["large"])
