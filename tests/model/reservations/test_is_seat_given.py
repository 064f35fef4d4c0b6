"""A seat that a pod was given is not placed again, wherever that pod is; and which pods are believed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Pod, Reservation, ReservationOwner, SelectorSpec
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import WEB, node, pod, reservation

SEAT = SeatName("default", "r", "t", 0)
OTHER = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "other"}))


@pytest.fixture
def snapshot() -> Snapshot:
    made = Snapshot()
    for name in ("n1", "n2"):
        made.apply_node(node(name))
    return made


def with_observed_owners(one: Reservation, *owners: ReservationOwner) -> Reservation:
    return replace(one, status=replace(one.status, observed_owners=list(owners)))


def pod_naming_the_seat(reservation_uid: str | None = "uid-r", on: str = "n2", app: str = "web", **fields: Any) -> Pod:
    return pod("p", on=on, labels={"app": app}, seat=str(SEAT), reservation_uid=reservation_uid or "", **fields)


@pytest.mark.parametrize(
    ("one", "given"),
    [
        pytest.param(pod_naming_the_seat(), True, id="a pod of the owner says that it took it"),
        pytest.param(pod_naming_the_seat(leaving=True), True, id="it is leaving"),
        pytest.param(pod_naming_the_seat(app="old"), False, id="a forger says so"),
        pytest.param(pod_naming_the_seat(app="other"), True, id="a pod of the last owner says so"),
        pytest.param(pod_naming_the_seat("uid-earlier"), False, id="it consumed one of an earlier reservation"),
        pytest.param(pod_naming_the_seat(None), False, id="it does not say of which reservation"),
        pytest.param(pod_naming_the_seat(namespace="elsewhere"), False, id="it is from elsewhere"),
    ],
)
def test_unplaced_index_is_given_if_a_pod_consumed_it(snapshot: Snapshot, one: Pod, given: bool) -> None:
    snapshot.apply_reservation(with_observed_owners(reservation("r"), WEB, OTHER))
    assert not snapshot.reservations.consumers.is_given(SEAT)
    snapshot.apply_pod(one)
    assert snapshot.reservations.consumers.is_given(SEAT) is given


def test_index_is_given_while_a_pod_is_on_its_way_to_its_former_seat(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, version=1))
    snapshot.assume(pod("p", labels={"app": "web"}), "n1", at=0.0, seat=SEAT)
    snapshot.apply_reservation(reservation("r", version=2))
    assert snapshot.reservations.consumers.is_given(SEAT)
    snapshot.forget(pod("p"))
    assert not snapshot.reservations.consumers.is_given(SEAT)


def test_closed_index_stays_given_until_the_reservation_is_gone(
    snapshot: Snapshot,
) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, version=1))
    snapshot.reservations.states.close(SEAT)
    snapshot.apply_reservation(reservation("r", version=2))
    assert snapshot.reservations.consumers.is_given(SEAT)
    snapshot.remove_reservation(reservation("r", version=3))
    snapshot.apply_reservation(reservation("r", version=4))
    assert not snapshot.reservations.consumers.is_given(SEAT)


@pytest.mark.parametrize(
    ("one", "sits"),
    [
        pytest.param(pod_naming_the_seat(on="n1", app="other"), True, id="one of the last owner"),
        pytest.param(pod_naming_the_seat(on="n1", app="old"), False, id="no owner matches it"),
        pytest.param(pod_naming_the_seat(on="n2"), False, id="one on another node"),
    ],
)
def test_pod_of_a_possible_consumer_occupies_its_seat(snapshot: Snapshot, one: Pod, sits: bool) -> None:
    snapshot.apply_reservation(with_observed_owners(reservation("r", {0: "n1"}), WEB, OTHER))
    snapshot.apply_pod(one)
    assert (
        snapshot.reservations.consumers.occupant_of(SEAT) is not None,
        SEAT in snapshot.reservations.reserved_pods,
    ) == (sits, not sits)


@pytest.mark.parametrize(
    ("observed", "vacant"),
    [
        pytest.param(None, True, id="it never said"),
        pytest.param([], False, id="it had no owner"),
        pytest.param([OTHER], False, id="it says another one"),
        pytest.param([OTHER, WEB], True, id="it says this one, too"),
    ],
)
def test_seat_is_free_only_while_the_status_names_all_owners(
    snapshot: Snapshot, observed: list[ReservationOwner] | None, vacant: bool
) -> None:
    one = reservation("r", {0: "n1"})
    snapshot.apply_reservation(replace(one, status=replace(one.status, observed_owners=observed)))
    found = [each.metadata.name for each, _ in snapshot.reservations.with_free_seat(pod("p", labels={"app": "web"}))]
    assert found == (["r"] if vacant else [])


def test_seat_of_a_migration_is_not_occupied_before_the_migrating_pod_has_left(snapshot: Snapshot) -> None:
    """Whichever of them is heard of first."""
    snapshot.apply_reservation(reservation("r", {0: "n2"}, migrating="uid-mover"))
    for migrating_pod in (pod("mover", on="n1", version=1), pod("mover", on="n1", version=2, leaving=True)):
        snapshot.apply_pod(migrating_pod)
        snapshot.apply_pod(pod_naming_the_seat())
        mark = snapshot.mark()
        assert (SEAT in snapshot.reservations.reserved_pods) is not snapshot.pods.known["uid-mover"].leaving
        snapshot.remove_pod(replace(migrating_pod, metadata=replace(migrating_pod.metadata, resource_version="3")))
        assert SEAT not in snapshot.reservations.reserved_pods
        snapshot.undo_to(mark)
    assert SEAT not in snapshot.reservations.reserved_pods


def test_assigned_seat_of_a_migration_is_occupied_whatever_becomes_of_the_migrating_pod(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n2"}, migrating="uid-mover"))
    snapshot.assume(pod("p", labels={"app": "web"}), "n2", at=0.0, seat=SEAT)
    snapshot.apply_pod(pod_naming_the_seat())
    snapshot.apply_pod(pod("mover", on="n1"))
    assert SEAT not in snapshot.reservations.reserved_pods
