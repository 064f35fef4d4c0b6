"""Who needs more than its seats hold: the rest of it is had in turn, as by everybody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Placement, Pod, PodGroup, PodStatus, ReservationState
from tests.model.cluster.builders import Amounts, node
from tests.scheduling.reservations.stage import FITS, Stage, booking, gang, task, user

ONE, TWO, THREE = ({"cpu": cpu} for cpu in "123")
SEAT = booking("r", task(1, ONE), at={0: "n1"}, **FITS)
OTHERS = {"app": "vip"}


def vip(requests: Amounts = THREE, **fields: Any) -> Pod:
    return user("vip", requests, labels=OTHERS, priority=1000, **fields)


@pytest.mark.parametrize("uses", [None, "r"], ids=["whoever it is", "who names it"])
def test_a_pod_larger_than_its_seat_does_not_come_before_who_is_more_important(uses: str | None) -> None:
    outcome = Stage(node("n1"), SEAT).session(user("low", THREE, uses=uses), vip())
    assert (outcome.nodes, list(outcome.refused)) == ({"vip": "n1"}, ["low"])


@pytest.mark.parametrize("uses", [None, "r"], ids=["whoever they are", "one names it"])
def test_nor_does_a_gang_that_has_too_few_seats(uses: str | None) -> None:
    low = [user("a", ONE, group="g", uses=uses), *(user(name, ONE, group="g") for name in "bc")]
    outcome = Stage(node("n1"), SEAT, gang("g", 3)).session(*low, vip())
    assert (outcome.nodes, sorted(outcome.refused)) == ({"vip": "n1"}, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("groups", "low"),
    [
        pytest.param([], [user("p", THREE)], id="a pod larger than its seat"),
        pytest.param([gang("g", 3)], [user(name, ONE, group="g") for name in "pqr"], id="a gang with too few"),
    ],
)
def test_when_it_is_its_turn_it_has_its_seat_and_what_is_beside_it(groups: Sequence[PodGroup], low: list[Pod]) -> None:
    outcome = Stage(node("n1"), SEAT, *groups).session(*low, vip(TWO))
    assert (outcome.seats, list(outcome.nodes)) == ({}, ["vip"])
    outcome = Stage(node("n1"), SEAT, *groups).session(*low)
    assert (outcome.seats, len(outcome.nodes)) == ({"p": "r/t/0"}, len(low))


@pytest.mark.parametrize("seats", [(TWO, ONE), (ONE, ONE)], ids=["one of them", "all of them"])
@pytest.mark.parametrize("uses", [None, "r"], ids=["whoever they are", "who name it"])
def test_nor_does_a_gang_that_has_enough_seats_and_is_too_large_for_them(
    seats: tuple[dict[str, str], ...], uses: str | None
) -> None:
    """All of it, or nothing: in its turn it has them, and what is beside them."""
    held = booking("r", *(task(1, each, name=f"t{number}") for number, each in enumerate(seats)), **FITS)
    places = [Placement(task=f"t{number}", index=0, node_name="n1") for number in range(len(seats))]
    held = replace(held, status=replace(held.status, state=ReservationState(phase="Available"), placements=places))
    low = [user(name, TWO, group="g") for name in "ab"]
    outcome = Stage(node("n1"), held, gang("g", 2, uses=uses)).session(*low, vip(ONE))
    assert sorted(outcome.refused) == ["a", "b"] and set(outcome.nodes) <= {"vip"}
    outcome = Stage(node("n1"), held, gang("g", 2, uses=uses)).session(*low)
    assert (sorted(outcome.seats), list(outcome.refused)) == (["a", "b"], [])


def test_what_fits_into_its_seat_has_it_whoever_else_waits() -> None:
    outcome = Stage(node("n1"), SEAT).session(user("low", ONE), vip())
    assert (outcome.seats, outcome.nodes) == ({"low": "r/t/0"}, {"low": "n1", "vip": "n1"})


def test_a_gang_whose_seats_are_enough_has_them_whoever_else_waits() -> None:
    seats = booking("r", task(2, ONE), at={0: "n1", 1: "n1"}, **FITS)
    low = [user(name, ONE, group="g") for name in "abc"]
    outcome = Stage(node("n1"), seats, gang("g", 2)).session(*low, vip(TWO))
    assert (outcome.seats, list(outcome.refused)) == ({"a": "r/t/0", "b": "r/t/1"}, ["c"])
    assert outcome.nodes["vip"] == "n1"


def nominated(one: Pod) -> Pod:
    return replace(one, status=PodStatus(nominated_node_name="n1"))


def test_room_that_is_kept_for_who_is_more_important_is_not_taken_beside_a_seat() -> None:
    outcome = Stage(node("n1"), SEAT).session(user("low", THREE), nominated=[nominated(vip())])
    assert (outcome.nodes, list(outcome.refused)) == ({}, ["low"])


def test_a_small_pod_does_not_take_the_seat_of_a_more_important_one_that_waits_for_its_turn() -> None:
    small, large = user("small", ONE), user("large", THREE, priority=10)
    outcome = Stage(node("n1"), SEAT).session(small, large)
    assert (outcome.seats, outcome.nodes) == ({"large": "r/t/0"}, {"large": "n1", "small": "n1"})


def test_a_seat_is_had_in_turn_although_more_is_kept_beside_it_than_there_is() -> None:
    """The large pod has to wait for the other seat; behind it, the small one gets in where room for somebody else is
    kept that others have not left yet."""
    seats = booking("r", task(2, ONE), at={0: "n1", 1: "n1"}, **FITS)
    stage = Stage(node("n1"), seats, user("old", TWO, on="n1", leaving=True, labels=OTHERS))
    small, large = user("small", ONE), user("large", THREE, priority=10)
    outcome = stage.session(small, large, nominated=[nominated(vip(TWO))])
    assert (outcome.seats, list(outcome.refused)) == ({"small": "r/t/0"}, ["large"])
