"""Which reservations the places of a plan become, and when they are due."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from restow.model.affinity import names_of
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import (
    ObjectMeta,
    ObjectReference,
    Placement,
    Pod,
    PodGroup,
    PodGroupSpec,
    Reservation,
    ReservationStatus,
)
from restow.model.queues import QUEUE_ANNOTATION
from restow.planning.place_reservations import PlaceReservation, build_reservation, place_reservations_of
from restow.planning.plan import Move, Place
from tests.model.cluster.builders import pod


def pod_with_annotations(name: str, annotations: dict[str, str], cpu: str = "1") -> Pod:
    one = pod(name, {"cpu": cpu})
    return replace(one, metadata=replace(one.metadata, annotations=annotations))


def gang_member(name: str, cpu: str, gang: str = "train") -> Pod:
    return pod_with_annotations(name, {"scheduling.k8s.io/group-name": gang}, cpu)


def place_reservations(pods: Iterable[Pod], **nodes: str) -> list[PlaceReservation]:
    owner_chains = OwnerChains(UndoLog())
    train = ObjectMeta(name="train", namespace="default", uid="uid-train")
    owner_chains.put_group(PodGroup(metadata=train, spec=PodGroupSpec(queue="ml")))
    places = [Place(namespace="default", pod=name.replace("_", "-"), node=node) for name, node in nodes.items()]
    return place_reservations_of("plan", places, {("default", pod.metadata.name): pod for pod in pods}, owner_chains)


def move(name: str, source: str, target: str) -> Move:
    return Move(order=1, wave=1, namespace="default", pod=name, uid=f"uid-{name}", source=source, target=target)


def reservation_object(claim: PlaceReservation, *moves: Move) -> Reservation:
    return build_reservation(claim, "plan", moves, seconds=90.2, annotations={})


def only_reservation(pods: Iterable[Pod], **nodes: str) -> Reservation:
    (place_reservation,) = place_reservations(pods, **nodes)
    return reservation_object(place_reservation)


GANG = [gang_member("big", "8"), gang_member("small-0", "1"), gang_member("small-1", "1")]


def test_gang_has_one_place_reservation_and_every_other_pod_its_own() -> None:
    reservations = place_reservations(
        [*GANG, pod("alone"), pod_with_annotations("too", {QUEUE_ANNOTATION: "dev"})],
        big="a",
        small_0="b",
        alone="c",
        small_1="b",
        too="a",
    )
    assert [(one.owner.kind, one.owner.name, one.owner.uid, one.queue) for one in reservations] == [
        ("PodGroup", "train", "uid-train", "ml"),
        ("Pod", "alone", "uid-alone", "default"),
        ("Pod", "too", "uid-too", "dev"),
    ]
    assert len({one.name for one in reservations}) == 3


def test_seats_of_small_pods_come_first_and_equal_ones_are_one_task() -> None:
    """Pods try the seats of Fits in order: a small one is not to sit down in the seat of a large one."""
    spec = only_reservation(GANG, big="a", small_0="b", small_1="b").spec
    assert [(task.name, task.replicas, task.template.spec.containers) for task in spec.tasks or ()] == [
        ("place-1", 2, GANG[1].spec.containers),
        ("place-2", 1, GANG[0].spec.containers),
    ]
    assert (spec.min_available, spec.ttl) == (3, "1m31s")


def test_place_reservation_awaits_the_pods_that_leave_its_nodes() -> None:
    [claim] = place_reservations(GANG, big="a", small_0="b", small_1="b")
    reservation = reservation_object(claim, move("x", "a", "c"), move("y", "c", "d"), move("w", "b", "c"))
    assert (reservation.metadata.annotations or {})["restow.sh/awaits"] == "uid-w,uid-x"
    assert {name for task in reservation.spec.tasks or () for name in names_of(task.template.spec)} == {"a", "b"}


def test_place_reservation_is_due_once_no_move_goes_to_its_nodes() -> None:
    [claim] = place_reservations(GANG, big="a", small_0="b", small_1="b")
    assert [claim.is_due(moves) for moves in ([move("x", "a", "b")], [move("x", "a", "c")], [])] == [False, True, True]


def test_pods_that_are_not_pending_any_more_have_no_place_reservation() -> None:
    assert place_reservations(GANG[:1], small_0="b", alone="c") == []


SEATS = {"big": "a", "small_0": "b", "small_1": "b"}


@pytest.mark.parametrize(
    ("pods", "nodes", "held"),
    [
        pytest.param(GANG, SEATS, True, id="same seats"),
        pytest.param(GANG, {**SEATS, "small_1": "a"}, False, id="same nodes, other seats"),
        pytest.param([gang_member("big", "4"), *GANG[1:]], SEATS, False, id="a pod of another size"),
        pytest.param(GANG[:1], {"big": "a"}, False, id="fewer pods than seats"),
    ],
)
def test_place_reservation_is_satisfied_by_a_reservation_with_the_same_seats(
    pods: list[Pod], nodes: dict[str, str], held: bool
) -> None:
    reservation = only_reservation(GANG, **SEATS)
    [claim] = place_reservations(pods, **nodes)
    assert claim.is_satisfied_by(reservation) is held


def test_consumed_seat_is_not_reserved_again() -> None:
    reservation = only_reservation(GANG, **SEATS)
    seat = Placement(task="place-1", index=0, node_name="b", pod_ref=ObjectReference(name="small-0"))
    [claim] = place_reservations([GANG[0], GANG[2]], big="a", small_1="b")
    assert claim.is_satisfied_by(replace(reservation, status=ReservationStatus(placements=[seat])))


def test_new_pod_with_the_same_name_has_a_place_reservation_of_its_own() -> None:
    [old], again = place_reservations([pod("alone")], alone="a"), pod("alone")
    [new] = place_reservations([replace(again, metadata=replace(again.metadata, uid="another"))], alone="a")
    assert [new.has_owner_of(reservation_object(one)) for one in (old, new)] == [False, True]
