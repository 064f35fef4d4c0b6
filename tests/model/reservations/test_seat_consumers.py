"""Who took which seat, as far as only this scheduler knows."""

from __future__ import annotations

import pytest

from restow.model.objects import OwnerReference, Pod
from restow.model.reservations.pod_references import workload_reference
from restow.model.reservations.seat_consumers import SeatConsumers
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import pod, reservation
from tests.scheduling.reservations.stage import user


@pytest.mark.parametrize("renewed", [False, True], ids=["the same", "the next one of that name"])
def test_who_is_gone_before_anything_showed_it_has_taken_a_seat_of_its_own_reservation(renewed: bool) -> None:
    snapshot, gone = Snapshot(), pod("p")
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    seat = snapshot.reservations.seat(SeatName("default", "r", "t", 0))
    consumers = snapshot.reservations.consumers
    assert seat is not None
    consumers.bound(gone, "n1", seat.name, "that of another one of this name" if renewed else seat.reservation_uid)
    consumers.pod_gone(gone)
    took = consumers.consumer_of(seat.name)
    assert (took and took.metadata.uid) == (None if renewed else gone.metadata.uid)
    consumers.reservation_gone("default", "r")
    assert consumers.consumer_of(seat.name) is None


def test_of_a_reservation_that_is_gone_nothing_is_kept_when_its_pods_go_unseen() -> None:
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
def test_of_two_that_name_a_seat_the_one_that_was_bound_into_it_has_taken_it(bound: str) -> None:
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
    ("on", "took"), [pytest.param("n1", True, id="there"), pytest.param(None, False, id="on its way")]
)
def test_who_is_heard_of_only_when_it_is_gone_has_taken_a_seat_if_it_was_there(on: str | None, took: bool) -> None:
    snapshot, name = Snapshot(), SeatName("default", "r", "t", 0)
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    consumers = snapshot.reservations.consumers
    consumers.pod_gone(pod("p", on=on, labels={"app": "web"}, seat=str(name)))
    assert (consumers.consumer_of(name) is not None) is took


SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1", controller=True)
FRIEND = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="uid-c")


@pytest.mark.parametrize(
    ("one", "whom"),
    [
        pytest.param(user("p", owner=SET, group="g"), ("PodGroup", "g"), id="its gang"),
        pytest.param(user("p", owner=SET), ("ReplicaSet", "web-1"), id="its controller"),
        pytest.param(user("p", owner=FRIEND), ("Pod", "p"), id="itself, whoever else has a hand in it"),
    ],
)
def test_for_whom_a_pod_works(one: Pod, whom: tuple[str, str]) -> None:
    found = workload_reference(one)
    assert (found.kind, found.name, found.namespace) == (*whom, "default")
