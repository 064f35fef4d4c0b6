"""Of which reservation a successor takes a seat, where several are for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from restow.migration.reservation_order import earlier_reservation
from restow.model.objects import Placement, Reservation
from tests.migration.move_facts import facts, reservation, seat, seat_facts
from tests.migration.steps.step_rows import given

NOT_ITS = {"owners": [{"controller": {"uid": "other"}}]}
NOT_LIKE_IT = {"tasks": [{"name": "pod", "template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}]}


def fits_everywhere(reservation: Reservation, seats: Sequence[Placement]) -> bool:
    return True


@pytest.mark.parametrize(
    ("other", "first"),
    [
        pytest.param({"age": 90.0}, "older", id="an older one"),
        pytest.param({"age": 30.0}, None, id="a younger one"),
        pytest.param({"age": 60.0}, "older", id="of equals the first by name"),
        pytest.param({"age": 90.0, "phase": "Waiting"}, None, id="one that is not ready"),
        pytest.param(
            {"age": 90.0, "metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}, None, id="one being deleted"
        ),
        pytest.param({"age": 90.0, "spec": NOT_ITS}, None, id="of others"),
        pytest.param({"age": 90.0, "spec": NOT_LIKE_IT}, None, id="for other pods"),
        pytest.param(
            {"age": 90.0, "spec": {**NOT_LIKE_IT, "matchPolicy": "Fits"}}, "older", id="for any pod that fits"
        ),
        pytest.param({"age": 90.0, "metadata": {"namespace": "elsewhere"}}, None, id="elsewhere"),
        pytest.param(
            {"age": 30.0, "metadata": {"annotations": {"restow.sh/migrating": "third"}}}, None, id="another move's"
        ),
    ],
)
def test_an_earlier_reservation_for_the_same_pods_wins(other: dict[str, Any], first: str | None) -> None:
    of = given()
    job, mine = of["of"], of["reservation"]
    older = reservation(name="older", **other)
    assert earlier_reservation(seat_facts(facts(job, reservation=mine)), [mine, older], fits_everywhere) == first


def test_an_earlier_reservation_without_a_free_seat_does_not_win() -> None:
    of = given()
    older = reservation(seat(by="third"), name="older", age=90.0)
    assert (
        earlier_reservation(seat_facts(facts(of["of"], reservation=of["reservation"])), [older], fits_everywhere)
        is None
    )


def test_an_earlier_reservation_on_an_unfit_node_does_not_win() -> None:
    of = given()
    others = [reservation(name=name, age=age) for name, age in (("full", 90.0), ("next", 80.0))]
    took = earlier_reservation(
        seat_facts(facts(of["of"], reservation=of["reservation"])), others, lambda one, _: one.metadata.name != "full"
    )
    assert took == "next"


def test_the_earliest_of_several_reservations_is_named() -> None:
    of = given()
    others = [reservation(name=name, age=age) for name, age in (("b", 90.0), ("a", 80.0), ("c", 100.0))]
    assert (
        earlier_reservation(seat_facts(facts(of["of"], reservation=of["reservation"])), others, fits_everywhere) == "c"
    )
