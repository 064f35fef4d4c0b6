"""Queue limits of pods that are assigned a seat."""

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
from tests.model.reservations.builders import FITS_POLICY, WHOLE_NODE, task, web_pod, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes


def test_seat_of_the_same_queue_is_charged_once() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}))
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "4"})))
    outcome = cluster.session(web_pod("p", WHOLE_NODE), pod("q", {"cpu": "1"}))
    assert outcome.seats == {"p": "r/t/0"}
    assert "used 4, requested 1" in outcome.refused_pods["q"]


def test_seat_of_another_queue_does_not_lift_the_limit_of_the_pod_queue() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, queue="other"))
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="other")))
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    assert "queue default would exceed its capability" in cluster.session(web_pod("p", WHOLE_NODE)).refused_pods["p"]


def test_pod_that_requests_a_reservation_waits_for_its_own_queue() -> None:
    cluster = SessionCluster(
        *named_nodes("n1", "n2"), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, queue="other")
    )
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="other")))
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    outcome = cluster.session(web_pod("p", WHOLE_NODE, uses="r"))
    assert (outcome.nodes, "would exceed its capability" in outcome.refused_pods["p"], outcome.events) == ({}, True, {})
    assert [one.plugins for one in outcome.decisions if isinstance(one, RefusePod)] == [{RESERVATION, QUEUE}]


@pytest.mark.parametrize(
    ("asks", "seats"),
    [
        pytest.param({"cpu": "2"}, {"p": "r/t/0"}, id="as much as it had"),
        pytest.param({"cpu": "3"}, {}, id="more than it had"),
    ],
)
def test_successor_is_not_refused_what_the_migrating_pod_had(asks: dict[str, str], seats: dict[str, str]) -> None:
    cluster = SessionCluster(
        *named_nodes("n1"),
        web_reservation("r", task(1, {"cpu": "2"}), at={0: "n1"}, migrating="uid-old", **FITS_POLICY),
    )
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    assert cluster.session(web_pod("p", asks)).seats == seats


def test_successor_is_admitted_whatever_became_of_its_queue() -> None:
    held = web_reservation("r", task(1, {"cpu": "2"}), at={0: "n1"}, migrating="uid-old", queue="gone", **FITS_POLICY)
    assert SessionCluster(*named_nodes("n1"), held).session(of_queue(web_pod("p", {"cpu": "2"}), "gone")).seats == {
        "p": "r/t/0"
    }


def test_only_a_successor_is_admitted_to_a_closed_queue() -> None:
    held = web_reservation("r", task(1, {"cpu": "2"}), at={0: "n1"}, queue="gone", **FITS_POLICY)
    outcome = SessionCluster(*named_nodes("n1"), held).session(of_queue(web_pod("p", {"cpu": "2"}), "gone"))
    assert (outcome.seats, "queue gone does not exist" in outcome.refused_pods["p"]) == ({}, True)
