"""Assigned seats: which pods are on their way, which have arrived, and what outlasts their arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, pod, reservation
from tests.model.cluster.snapshot_values import ledger_amount

SEAT = SeatName("default", "r", "t", 0)
WEB = {"app": "web"}
Step = Callable[[Snapshot], object]


@pytest.fixture
def snapshot() -> Snapshot:
    """With a pod on its way to a seat."""
    snapshot = Snapshot()
    for name in ("n1", "n2"):
        snapshot.apply_node(node(name))
    snapshot.apply_reservation(reservation("r", {0: "n1", 1: "n2"}))
    snapshot.assume(pod("p", labels=WEB), "n1", at=1.0, seat=SEAT)
    return snapshot


def is_coming(snapshot: Snapshot) -> bool:
    seat = snapshot.reservations.seat(SEAT)
    return seat is not None and snapshot.reservations.consumers.assigned.has_pods_on_the_way(seat.reservation_uid)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda it: it.apply_pod(pod("p", on="n1", labels=WEB, seat=str(SEAT))), id="it has come"),
        pytest.param(lambda it: it.apply_pod(pod("p", on="n2", labels=WEB)), id="it went elsewhere"),
        pytest.param(lambda it: it.forget(pod("p")), id="it does not come"),
        pytest.param(lambda it: it.remove_pod(pod("p", version=9)), id="it is gone"),
        pytest.param(
            lambda it: it.apply_reservation(reservation("r", {0: "n1", 1: "n2"}, consumed={0: "uid-p"}, version=9)),
            id="the status records its consumption",
        ),
    ],
)
def test_pod_is_on_its_way_until_it_arrives_or_is_forgotten(snapshot: Snapshot, step: Step) -> None:
    assert is_coming(snapshot)
    mark = snapshot.mark()
    step(snapshot)
    assert not is_coming(snapshot)
    snapshot.undo_to(mark)
    assert is_coming(snapshot)


def test_other_pods_stay_on_their_way_when_one_arrives(snapshot: Snapshot) -> None:
    snapshot.assume(pod("q", labels=WEB), "n2", at=1.0, seat=SeatName("default", "r", "t", 1))
    snapshot.apply_pod(pod("p", on="n1", labels=WEB, seat=str(SEAT)))
    assert is_coming(snapshot)
    snapshot.forget(pod("q"))
    assert not is_coming(snapshot)


@pytest.mark.parametrize(
    ("notes", "holds"),
    [
        pytest.param({"labels": WEB, "seat": str(SEAT)}, 0, id="where it came"),
        pytest.param({"labels": {"app": "db"}, "seat": str(SEAT)}, 0, id="although other owners have it now"),
        pytest.param({"labels": WEB, "seat": "default/r/t/1"}, 1000, id="unless it says otherwise"),
    ],
)
def test_pod_that_arrived_occupies_its_seat_after_owners_change(
    snapshot: Snapshot, notes: dict[str, Any], holds: int
) -> None:
    snapshot.apply_pod(pod("p", on="n1", labels=WEB, seat=str(SEAT), version=2))
    snapshot.apply_pod(pod("p", on="n1", version=3, **notes))
    assert ledger_amount(snapshot, "reserved", "n1") == holds
