"""What a queue has to say to a pod that takes a seat."""

from __future__ import annotations

import pytest

from restow.model.objects import (
    ObjectMeta,
    Queue,
    QueueSpec,
)
from restow.scheduling.cluster_events import QUEUE, RESERVATION
from restow.scheduling.decisions import RefusePod
from tests.model.cluster.builders import of_queue, pod
from tests.scheduling.reservations.stage import (
    ALL,
    FITS,
    Stage,
    booking,
    rooms,
    task,
    user,
)


def test_taking_a_seat_of_the_same_queue_is_charged_once() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "4"})))
    outcome = stage.session(user("p", ALL), pod("q", {"cpu": "1"}))
    assert outcome.seats == {"p": "r/t/0"}
    assert "used 4, requested 1" in outcome.refused["q"]


def test_a_seat_of_another_queue_does_not_lift_the_limit_of_its_own() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}, queue="other"))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="other")))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    assert "queue default would exceed its capability" in stage.session(user("p", ALL)).refused["p"]


def test_who_names_a_reservation_waits_for_its_own_queue_too() -> None:
    stage = Stage(*rooms("n1", "n2"), booking("r", task(1, ALL), at={0: "n1"}, queue="other"))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="other")))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    outcome = stage.session(user("p", ALL, uses="r"))
    assert (outcome.nodes, "would exceed its capability" in outcome.refused["p"], outcome.told) == ({}, True, {})
    assert [one.plugins for one in outcome.decisions if isinstance(one, RefusePod)] == [{RESERVATION, QUEUE}]


@pytest.mark.parametrize(
    ("asks", "seats"),
    [
        pytest.param({"cpu": "2"}, {"p": "r/t/0"}, id="as much as it had"),
        pytest.param({"cpu": "3"}, {}, id="more than it had"),
    ],
)
def test_who_was_moved_is_not_refused_what_it_had(asks: dict[str, str], seats: dict[str, str]) -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, migrating="uid-old", **FITS))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    assert stage.session(user("p", asks)).seats == seats


def test_who_was_moved_is_let_back_in_whatever_became_of_its_queue() -> None:
    held = booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, migrating="uid-old", queue="gone", **FITS)
    assert Stage(*rooms("n1"), held).session(of_queue(user("p", {"cpu": "2"}), "gone")).seats == {"p": "r/t/0"}


def test_nobody_but_who_was_moved_is_let_in_whatever_became_of_its_queue() -> None:
    held = booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, queue="gone", **FITS)
    outcome = Stage(*rooms("n1"), held).session(of_queue(user("p", {"cpu": "2"}), "gone"))
    assert (outcome.seats, "queue gone does not exist" in outcome.refused["p"]) == ({}, True)
