"""Gangs and the seats that they take together."""

from __future__ import annotations

from tests.model.cluster.builders import node
from tests.scheduling.reservations.stage import (
    ALL,
    FITS,
    Stage,
    booking,
    gang,
    rooms,
    task,
    user,
)


def test_a_gang_takes_the_seats_of_one_reservation_as_a_whole() -> None:
    small = booking("a", task(1), at={0: "n1"}, **FITS)
    large = booking("b", task(2), at={0: "n2", 1: "n2"}, **FITS, created="2026-02-01T00:00:00Z")
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), small, large)
    assert stage.session(user("x", group="g"), user("y", group="g")).seats == {"x": "b/t/0", "y": "b/t/1"}


def test_what_a_reservation_has_no_seat_for_is_placed_beside_it() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}, **FITS))
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g"))
    assert (outcome.seats, outcome.nodes) == ({"x": "r/t/0"}, {"x": "n1", "y": "n2"})


def test_more_pods_than_a_template_reserves_are_no_match_for_it() -> None:
    stage = Stage(*rooms("n1", "n2", "n3"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}))
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g"))
    assert (outcome.seats, outcome.nodes) == ({}, {"x": "n2", "y": "n3"})


def test_a_gang_takes_all_seats_of_a_template_but_those_that_are_unfit() -> None:
    nodes = [*rooms("n1", "n2", "n4"), node("n3", unschedulable=True)]
    stage = Stage(*nodes, gang("g", 3), booking("r", task(3, ALL), at={0: "n1", 1: "n2", 2: "n3"}))
    outcome = stage.session(*(user(name, ALL, group="g") for name in "abc"))
    assert (outcome.seats, outcome.nodes["c"]) == ({"a": "r/t/0", "b": "r/t/1"}, "n4")


def test_a_gang_takes_the_seats_of_its_own_and_leaves_those_of_some_of_it_to_them() -> None:
    held = booking("r", task(2, ALL), at={0: "n1", 1: "n2"}, **FITS)
    stage = Stage(*rooms("n1", "n2", "n3"), gang("g", 2), held)
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g", labels={"app": "worker"}))
    assert (outcome.seats, outcome.nodes) == ({"x": "r/t/0"}, {"x": "n1", "y": "n3"})


def test_a_gang_that_is_not_whole_takes_no_seat() -> None:
    held = booking("r", task(1, ALL), at={0: "n1"}, **FITS)
    stage = Stage(*rooms("n1"), gang("g", 2), held)
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g"))
    assert (outcome.seats, sorted(outcome.refused)) == ({}, ["x", "y"])
    assert len(stage.snapshot.reservations.reserved_pods.names()) == 1


def test_a_gang_of_which_not_all_exist_takes_no_seat() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}, **FITS))
    outcome = stage.session(user("x", ALL, group="g"))
    assert (outcome.seats, list(outcome.refused)) == ({}, ["x"])
