"""The message of an Available reservation: what its seats request, and templates that request nothing."""

from __future__ import annotations

import pytest

from restow.model.objects import Reservation
from restow.model.reservations.status import ReservationObservation, SeatObservation, next_status
from tests.model.reservations.builders import task, web_reservation

MANY = {f"example.com/{letter}": "1" for letter in "abcdef"}
NOTHING = "so its seats hold nothing but a pod slot"


@pytest.mark.parametrize(
    ("one", "says"),
    [
        pytest.param(
            web_reservation(
                "r", task(2, {"memory": "1Gi", "cpu": "500m"}), at={0: "n1", 1: "n2"}, consumed={1: "uid-p"}
            ),
            "2 of 2 seats are held or consumed: cpu 1, memory 2Gi",
            id="all seats together, open or taken",
        ),
        pytest.param(
            web_reservation("r", task(1, {**MANY, "cpu": "1"}), at={0: "n1"}),
            "1 of 1 seats are held or consumed",
            id="nothing of too many resources",
        ),
        pytest.param(
            web_reservation("r", task(1, {}), at={0: "n1"}),
            f"1 of 1 seats are held or consumed; spec.tasks[0].template requests no resources, {NOTHING}",
            id="a template that asks for nothing",
        ),
        pytest.param(
            web_reservation("r", task(1, {"cpu": "1"}), task(1, {"cpu": "0"}, name="u"), at={0: "n1"}, min_available=1),
            f"1 of 2 seats are held or consumed: cpu 1; spec.tasks[1].template requests no resources, {NOTHING}",
            id="one of several",
        ),
        pytest.param(
            web_reservation(
                "r", task(1, {}), task(1, {}, name="u"), task(0, {}, name="v"), at={0: "n1"}, min_available=1
            ),
            "1 of 2 seats are held or consumed; spec.tasks[0].template, spec.tasks[1].template request no resources, "
            "so their seats hold nothing but a pod slot",
            id="several",
        ),
    ],
)
def test_available_message_names_the_requests(one: Reservation, says: str) -> None:
    status = next_status(
        one, ReservationObservation(seats=[SeatObservation(each) for each in one.status.placements or ()]), 0.0
    )
    assert status is not None and status.state.message == says
