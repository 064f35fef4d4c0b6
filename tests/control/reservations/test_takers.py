"""Who took which seat, as far as only this scheduler knows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from restow.control.scheduler.takers import Takers
from restow.model.cluster import SeatName, Snapshot
from tests.model.cluster.builders import pod, reservation


@pytest.mark.parametrize("renewed", [False, True], ids=["the same", "the next one of that name"])
def test_who_is_gone_before_anything_showed_it_has_taken_a_seat_of_its_own_reservation(renewed: bool) -> None:
    snapshot, gone = Snapshot(), pod("p")
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    seat = snapshot.reservations.seat(SeatName("default", "r", "t", 0))
    takers = Takers(snapshot.kinship)
    assert seat is not None
    takers.bound(gone, seat)
    if renewed:
        takers.forget("default", "r")
    takers.hide(gone, lambda name: True)
    assert takers.of(seat) is (None if renewed else gone)
    assert takers.of(replace(seat, life="that of another one of this name")) is None


@pytest.mark.parametrize("bound", ["p", "q"])
def test_of_two_that_name_a_seat_the_one_that_was_bound_into_it_has_taken_it(bound: str) -> None:
    snapshot = Snapshot()
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    seat = snapshot.reservations.seat(SeatName("default", "r", "t", 0))
    takers = Takers(snapshot.kinship)
    assert seat is not None
    pods = {name: pod(name, on="n1", labels={"app": "web"}, seat=str(seat.name)) for name in "pq"}
    takers.bound(pods[bound], seat)
    for one in pods.values():
        takers.show(one)
    assert takers.of(seat) is pods[bound]
