"""Of which reservation a successor takes a seat, where several are for it."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migration.precedence import sooner
from tests.migration.moves import facts, reservation, seat
from tests.migration.steps.rows import given

NOT_ITS = {"owners": [{"controller": {"uid": "other"}}]}
TOO_SMALL = {"tasks": [{"name": "pod", "template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}]}


@pytest.mark.parametrize(
    ("other", "first"),
    [
        pytest.param({"age": 90.0}, "older", id="an older one"),
        pytest.param({"age": 30.0}, None, id="a younger one"),
        pytest.param({"age": 60.0}, "older", id="of equals the first by name"),
        pytest.param({"age": 90.0, "phase": "Waiting"}, None, id="one that is not ready"),
        pytest.param({"age": 90.0, "spec": NOT_ITS}, None, id="of others"),
        pytest.param({"age": 90.0, "spec": TOO_SMALL}, None, id="for other pods"),
        pytest.param({"age": 90.0, "metadata": {"namespace": "elsewhere"}}, None, id="elsewhere"),
        pytest.param(
            {"age": 30.0, "metadata": {"annotations": {"restow.sh/migrating": "third"}}}, None, id="another move's"
        ),
    ],
)
def test_another_reservation_comes_first(other: dict[str, Any], first: str | None) -> None:
    of = given()
    job, mine = of["of"], of["reservation"]
    rival = reservation(name="older", **other)
    assert sooner(facts(job, reservation=mine), [mine, rival]) == first


def test_one_that_has_no_seat_left_does_not() -> None:
    of = given()
    rival = reservation(seat(by="third"), name="older", age=90.0)
    assert sooner(facts(of["of"], reservation=of["reservation"]), [rival]) is None


def test_the_first_of_several_is_told() -> None:
    of = given()
    rivals = [reservation(name=name, age=age) for name, age in (("b", 90.0), ("a", 80.0), ("c", 100.0))]
    assert sooner(facts(of["of"], reservation=of["reservation"]), rivals) == "c"
