"""The consumers of seats that only this scheduler remembers."""

from __future__ import annotations

import pytest

from restow.model.objects import OwnerReference, Pod
from restow.model.reservations.pod_references import workload_reference
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import pod, reservation
from tests.model.reservations.builders import web_pod


@pytest.mark.parametrize("renewed", [False, True], ids=["the same", "the next one of that name"])
def test_pod_bound_here_and_gone_unseen_consumed_its_seat_of_that_reservation_only(renewed: bool) -> None:
    snapshot, gone = Snapshot(), pod("p")
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    seat = snapshot.reservations.seat(SeatName("default", "r", "t", 0))
    consumers = snapshot.reservations.consumers
    assert seat is not None
    consumers.bound(gone, "n1", seat.name, "that of another one of this name" if renewed else seat.reservation_uid)
    consumers.pod_gone(gone)
    consumer = consumers.consumer_of(seat.name)
    assert (consumer and consumer.metadata.uid) == (None if renewed else gone.metadata.uid)
    consumers.reservation_gone("default", "r")
    assert consumers.consumer_of(seat.name) is None


def test_evidence_of_a_deleted_reservation_is_dropped() -> None:
    snapshot, gone = Snapshot(), pod("p")
    snapshot.apply_reservation(reservation("r", {0: "n1"}, version=1))
    seat = snapshot.reservations.seat(SeatName("default", "r", "t", 0))
    consumers = snapshot.reservations.consumers
    assert seat is not None
    consumers.bound(gone, "n1", seat.name, seat.reservation_uid)
    snapshot.remove_reservation(reservation("r", version=2))
    consumers.reservation_gone("default", "r")
    assert consumers.pod_gone(gone) == seat.name
    assert consumers._evidence == {}


@pytest.mark.parametrize("bound", ["p", "q"])
def test_of_two_pods_that_name_a_seat_the_one_bound_here_consumed_it(bound: str) -> None:
    snapshot = Snapshot()
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    seat = snapshot.reservations.seat(SeatName("default", "r", "t", 0))
    consumers = snapshot.reservations.consumers
    assert seat is not None
    pods = {name: pod(name, on="n1", labels={"app": "web"}, seat=str(seat.name)) for name in "pq"}
    consumers.bound(pods[bound], "n1", seat.name, seat.reservation_uid)
    for one in pods.values():
        consumers.pod_shown(one)
    assert consumers.consumer_of(seat.name) is pods[bound]


@pytest.mark.parametrize(
    ("on", "consumer"), [pytest.param("n1", True, id="there"), pytest.param(None, False, id="on its way")]
)
def test_pod_first_seen_when_deleted_consumed_its_seat_if_it_was_bound(on: str | None, consumer: bool) -> None:
    snapshot, name = Snapshot(), SeatName("default", "r", "t", 0)
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    consumers = snapshot.reservations.consumers
    consumers.pod_gone(pod("p", on=on, labels={"app": "web"}, seat=str(name)))
    assert (consumers.consumer_of(name) is not None) is consumer


SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1", controller=True)
NO_CONTROLLER = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="uid-c")


@pytest.mark.parametrize(
    ("one", "workload"),
    [
        pytest.param(web_pod("p", owner=SET, group="g"), ("PodGroup", "g"), id="its gang"),
        pytest.param(web_pod("p", owner=SET), ("ReplicaSet", "web-1"), id="its controller"),
        pytest.param(
            web_pod("p", owner=NO_CONTROLLER), ("Pod", "p"), id="itself, beside an owner that is no controller"
        ),
    ],
)
def test_workload_of_a_pod(one: Pod, workload: tuple[str, str]) -> None:
    found = workload_reference(one)
    assert (found.kind, found.name, found.namespace) == (*workload, "default")
