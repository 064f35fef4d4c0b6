"""Free seats: which pods find them, in which order; and how much all seats reserve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import (
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodGroup,
    Reservation,
    ReservationOwner,
    SelectorRequirement,
    SelectorSpec,
)
from restow.model.reservations.owners import Owners, lookup_values
from restow.model.reservations.reservation_annotations import MIGRATING_ANNOTATION
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import WEB, node, pod, reservation

SEAT = SeatName("default", "r", "t", 0)
POD = pod("p", labels={"app": "web"})


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    return snapshot


def usable_names(snapshot: Snapshot, one: Pod = POD) -> list[str]:
    return [found.metadata.name for found, _ in snapshot.reservations.with_free_seat(one)]


def reservation_created(name: str, created: str = "", *, migrating: str | None = None, **fields: Any) -> Reservation:
    one = reservation(name, {0: "n1"}, requests={"cpu": "1m"}, **fields)
    annotations = {MIGRATING_ANNOTATION: migrating} if migrating else None
    return replace(one, metadata=replace(one.metadata, creation_timestamp=created, annotations=annotations))


def test_reservations_are_tried_migrations_first_then_oldest_then_by_name(snapshot: Snapshot) -> None:
    for one in (
        reservation_created("b", "2"),
        reservation_created("a", "2"),
        reservation_created("old", "1"),
        reservation_created("moving", "3", migrating="uid-x"),
    ):
        snapshot.apply_reservation(one)
    assert usable_names(snapshot) == ["moving", "old", "a", "b"]


@pytest.mark.parametrize(
    "closing",
    [
        pytest.param(lambda s: s.apply_reservation(reservation_created("r", phase="Waiting")), id="it waits"),
        pytest.param(lambda s: s.apply_reservation(reservation_created("r", phase="Failed")), id="it failed"),
        pytest.param(lambda s: s.apply_reservation(reservation_created("r", owners=[])), id="it has no owner any more"),
        pytest.param(
            lambda s: s.apply_reservation(reservation_created("r", consumed={0: "uid-x"})), id="its seat was consumed"
        ),
        pytest.param(lambda s: s.remove_reservation(reservation_created("r")), id="it is gone"),
        pytest.param(lambda s: s.assume(pod("q"), "n1", at=0.0, seat=SEAT), id="a pod is assumed in it"),
        pytest.param(
            lambda s: s.apply_pod(pod("q", on="n1", labels={"app": "web"}, seat="default/r/t/0")), id="a pod sits in it"
        ),
    ],
)
def test_seat_is_free_while_open_and_its_reservation_available(
    snapshot: Snapshot, closing: Callable[[Snapshot], None]
) -> None:
    snapshot.apply_reservation(reservation_created("r"))
    assert usable_names(snapshot) == ["r"]
    mark = snapshot.mark()
    closing(snapshot)
    assert usable_names(snapshot) == []
    snapshot.undo_to(mark)
    assert usable_names(snapshot) == ["r"]


def test_seats_that_become_free_together_are_listed_together(snapshot: Snapshot) -> None:
    at = dict.fromkeys(range(300), "n1")
    snapshot.apply_reservation(reservation("r", at, requests={"cpu": "1m"}, phase="Waiting", version=1))
    free, mark = snapshot.reservations.free, snapshot.mark()
    for version, phase in ((2, "Available"), (3, "Waiting"), (4, "Available")):
        one = reservation("r", at, requests={"cpu": "1m"}, phase=phase, version=version)
        snapshot.apply_reservation(one)
    assert [seat.index for seat in free.names("default", "r")] == [*range(300)]
    written = [arguments for _, arguments in snapshot._log._inverses if arguments[0] is free._seats]
    assert len(written) == 3
    snapshot.undo_to(mark)
    assert free.names("default", "r") == ()


def test_free_seats_are_listed_in_order(snapshot: Snapshot) -> None:
    free, one = snapshot.reservations.free, reservation_created("r")
    seats = [replace(SEAT, index=index) for index in range(12)]
    free.add(seats[6:9], one, Owners.of([WEB]))
    free.add([seats[10], seats[7], seats[2]], one, Owners.of([WEB]))
    assert [seat.index for seat in free.names("default", "r")] == [2, 6, 7, 8, 10]
    free.discard(seats[7])
    free.discard(seats[7])
    free.discard_all(("default", "r"), [seats[2], seats[11]])
    assert [seat.index for seat in free.names("default", "r")] == [6, 8, 10]
    free.discard_all(("default", "r"), seats)
    assert not free.names("default", "r") and not free.owner_index.has_reservations_in("default")


def test_new_owner_finds_the_reservation(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(
        reservation_created("r", owners=[ReservationOwner(object=ObjectReference(kind="Pod", name="q"))])
    )
    assert (usable_names(snapshot), usable_names(snapshot, pod("q"))) == ([], ["r"])
    snapshot.apply_reservation(reservation_created("r"))
    assert (usable_names(snapshot), usable_names(snapshot, pod("q"))) == (["r"], [])


def test_seat_may_be_assigned_while_free_seats_are_iterated(snapshot: Snapshot) -> None:
    for name in "abc":
        snapshot.apply_reservation(reservation_created(name))
    seen = []
    for found, seat in snapshot.reservations.with_free_seat(POD):
        seen.append(found.metadata.name)
        snapshot.assume(pod(f"p-{found.metadata.name}"), "n1", at=0.0, seat=seat.name)
    assert seen == ["a", "b", "c"]


def test_vacated_seat_is_held_again(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_created("r"))
    snapshot.reservations.states.vacate(SEAT)
    assert SEAT not in snapshot.reservations.reserved_pods
    snapshot.reservations.states.hold_again(SEAT)
    assert SEAT in snapshot.reservations.reserved_pods


def test_reserved_usage_is_summed_by_namespace_and_queue(snapshot: Snapshot) -> None:
    one = reservation("a", {0: "n1", 1: "n1"})
    snapshot.apply_reservation(replace(one, spec=replace(one.spec, queue="q")))
    snapshot.apply_reservation(reservation("b", {0: "n1"}))
    usage = snapshot.reservations.reserved_pods.usage
    assert usage.of_namespace("default") == {"cpu": 3000, "pods": 3}
    assert usage.by_queue() == {"q": {"cpu": 2000, "pods": 2}, "": {"cpu": 1000, "pods": 1}}
    snapshot.remove_reservation(one)
    assert (usage.of_namespace("default"), usage.of_namespace("other")) == ({"cpu": 1000, "pods": 1}, {})


def test_change_of_queue_moves_reserved_usage(snapshot: Snapshot) -> None:
    one = reservation("a", {0: "n1"})
    snapshot.apply_reservation(one)
    snapshot.apply_reservation(replace(one, spec=replace(one.spec, queue="q")))
    assert snapshot.reservations.reserved_pods.usage.by_queue() == {"q": {"cpu": 1000, "pods": 1}}


# --- every pod that matches finds the reservation ---------------------------------------------------------------------

references = st.builds(
    ObjectReference,
    kind=st.sampled_from([None, "Pod", "PodGroup", "ReplicaSet", "Deployment"]),
    name=st.sampled_from([None, "p", "g", "rs", "web"]),
    uid=st.sampled_from([None, "uid-p", "uid-g", "uid-rs", "uid-web"]),
)
selectors = st.sampled_from(
    [
        None,
        SelectorSpec(),
        SelectorSpec(match_labels={"app": "web"}),
        SelectorSpec(match_labels={"team": "x"}),
        SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="Exists")]),
        SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="In", values=["web", "db"])]),
        SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="Sometimes")]),
    ]
)
owners = st.lists(
    st.builds(
        ReservationOwner,
        object=st.none() | references,
        controller=st.none() | references,
        label_selector=selectors,
    ),
    max_size=3,
)


@given(owners, st.booleans(), st.booleans(), st.sampled_from([None, {"app": "web"}, {"app": "db"}, {"other": "1"}]))
def test_every_pod_that_matches_an_owner_has_one_of_its_lookup_keys(
    written: list[ReservationOwner], grouped: bool, owned: bool, labels: dict[str, str] | None
) -> None:
    snapshot = Snapshot()
    snapshot.apply_group(
        PodGroup(metadata=ObjectMeta(name="g", namespace="default", uid="uid-g", labels={"team": "x"}))
    )
    deployment = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-web")
    snapshot.apply_owner(ObjectMeta(name="rs", uid="uid-rs", owner_references=[deployment]))
    replica_set = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid="uid-rs")
    one = pod("p", labels=labels, owner=replica_set if owned else None)
    annotations = {"scheduling.k8s.io/group-name": "g"} if grouped else None
    one = replace(one, metadata=replace(one.metadata, annotations=annotations))
    found = Owners.of(written)
    if found.matches(one, snapshot.owner_chains):
        assert any(value in lookup_values(one, facet, snapshot.owner_chains) for facet, value in found.lookup_keys())


def test_reservation_of_the_builder_is_found_by_its_owner(snapshot: Snapshot) -> None:
    assert [*Owners.of([WEB]).lookup_keys()] == [(("label", "app"), "web")]
