"""Seats in the snapshot: which take room, and which pods are believed to occupy them."""

from __future__ import annotations

import msgspec
import pytest

from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import (
    Affinity,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodGroup,
    PodTemplate,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    SelectorRequirement,
    SelectorSpec,
    TaskSpec,
)
from restow.model.reservations.reserved_pod import is_reserved_pod, reserved_pod_of
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import ttl_until
from restow.model.selectors import label_selector
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
from tests.model.cluster.builders import node, placements_of, pod, reservation, spec
from tests.model.cluster.snapshot_values import ledger_amount
from tests.narrowing import present

SEAT = SeatName("default", "r", "t", 0)
WEB = {"app": "web"}


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    for name in ("n1", "n2"):
        snapshot.apply_node(node(name))
    return snapshot


def held(snapshot: Snapshot) -> int:
    return ledger_amount(snapshot, "reserved", "n1")


@pytest.mark.parametrize(
    ("phase", "holds"),
    [("Pending", True), ("Waiting", True), ("Available", True), ("Succeeded", False), ("Failed", False)],
)
def test_open_seat_takes_room_until_the_reservation_ends(snapshot: Snapshot, phase: str, holds: bool) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, phase=phase))
    assert held(snapshot) == (1000 if holds else 0)


@pytest.mark.parametrize(
    ("consumer", "holds"),
    [
        pytest.param(pod("p", on="n1", labels=WEB, seat="default/r/t/0"), False, id="an owner's pod in its seat"),
        pytest.param(pod("p", on="n1", labels={"app": "db"}, seat="default/r/t/0"), True, id="not an owner's"),
        pytest.param(pod("p", on="n2", labels=WEB, seat="default/r/t/0"), True, id="on another node"),
        pytest.param(pod("p", labels=WEB, seat="default/r/t/0"), True, id="not bound"),
        pytest.param(pod("p", on="n1", labels=WEB), True, id="names no seat"),
        pytest.param(pod("p", on="n1", labels=WEB, seat="default/r/t/1"), True, id="names another seat"),
        pytest.param(pod("p", on="n1", labels=WEB, seat="r/t/0"), True, id="names nothing readable"),
        pytest.param(
            pod("p", on="n1", labels=WEB, seat="default/r/t/0", namespace="other"), True, id="of another namespace"
        ),
        pytest.param(
            pod("p", on="n1", labels=WEB, seat="default/r/t/0", phase="Succeeded"),
            True,
            id="over before it was recorded",
        ),
    ],
)
@pytest.mark.parametrize("pod_first", [True, False], ids=["pod first", "reservation first"])
def test_pod_occupies_an_open_seat_only_by_the_rules(
    snapshot: Snapshot, consumer: Pod, holds: bool, pod_first: bool
) -> None:
    if pod_first:
        snapshot.apply_pod(consumer)
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    if not pod_first:
        snapshot.apply_pod(consumer)
    assert held(snapshot) == (1000 if holds else 0)


def test_recorded_seat_takes_room_until_its_pod_is_seen_and_never_again(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=20))
    assert held(snapshot) == 1000
    snapshot.apply_pod(pod("p", on="n1", version=10))
    assert (held(snapshot), ledger_amount(snapshot, "requested", "n1")) == (0, 1000)
    snapshot.remove_pod(pod("p", on="n1", version=30))
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=40))
    assert held(snapshot) == 0


@pytest.mark.parametrize(("seen", "holds"), [("19", True), ("20", False)])
def test_recorded_consumer_that_no_list_shows_is_over(snapshot: Snapshot, seen: str, holds: bool) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=20))
    snapshot.pods_seen_through(seen)
    assert held(snapshot) == (1000 if holds else 0)


def test_later_version_of_the_reservation_does_not_make_its_consumer_unseen(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=20))
    snapshot.pods_seen_through("25")
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=40))
    assert held(snapshot) == 0


def test_pending_event_of_the_consumer_does_not_count_as_seen(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", version=10))
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=20))
    assert held(snapshot) == 1000


def test_recorded_seat_takes_room_again_when_its_assumed_pod_is_forgotten(snapshot: Snapshot) -> None:
    snapshot.assume(pod("p", version=10), "n1", at=1.0)
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=20))
    assert held(snapshot) == 0
    snapshot.forget(pod("p"))
    assert held(snapshot) == 1000


def test_recorded_seat_ignores_other_pods_that_name_it(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("thief", on="n1", labels=WEB, seat="default/r/t/0", version=5))
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, version=20))
    assert held(snapshot) == 1000


@pytest.mark.parametrize(
    ("shown", "holds"),
    [
        pytest.param(pod("p", on="n1", labels=WEB, seat="default/r/t/0"), 0, id="where it was assumed"),
        pytest.param(
            pod("p", on="n1", labels={"app": "db"}, seat="default/r/t/0"), 0, id="with the label of other owners by now"
        ),
        pytest.param(pod("p", on="n2", labels=WEB, seat="default/r/t/0"), 1000, id="on another node"),
        pytest.param(pod("p", on="n1", labels=WEB), 1000, id="without its seat"),
    ],
)
def test_pod_assumed_in_a_seat_is_shown_there_or_elsewhere(snapshot: Snapshot, shown: Pod, holds: int) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    snapshot.assume(pod("p", labels=WEB), "n1", at=1.0, seat=SEAT)
    assert held(snapshot) == 0
    snapshot.apply_pod(shown)
    assert held(snapshot) == holds


def test_assuming_a_pod_in_a_seat_takes_no_extra_room_and_forget_restores_it(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    snapshot.assume(pod("p", labels=WEB), "n1", at=1.0, seat=SEAT)
    assert (held(snapshot), ledger_amount(snapshot, "requested", "n1")) == (0, 1000)
    snapshot.forget(pod("p"))
    assert (held(snapshot), ledger_amount(snapshot, "requested", "n1")) == (1000, 0)


def test_assumed_placements_take_room_until_the_status_shows_its_own(snapshot: Snapshot) -> None:
    pending = reservation("r", phase="Pending", version=1)
    snapshot.apply_reservation(pending)
    snapshot.assume_placements(pending, placements_of({0: "n1", 1: "n2"}), at=1.0)
    snapshot.apply_reservation(reservation("r", phase="Pending", version=2))
    assert (held(snapshot), ledger_amount(snapshot, "reserved", "n2")) == (1000, 1000)
    assert [age for _, age in snapshot.reservations.placements.assumed(now=4.0)] == [3.0]
    snapshot.apply_reservation(reservation("r", {0: "n2", 1: "n2"}, version=3))
    assert (held(snapshot), ledger_amount(snapshot, "reserved", "n2")) == (0, 2000)
    assert not snapshot.forget_placements(pending)


def test_placements_may_be_assumed_one_by_one(snapshot: Snapshot) -> None:
    pending = reservation("r", phase="Pending")
    snapshot.apply_reservation(pending)
    for index in (0, 1, 1):
        snapshot.assume_placements(pending, placements_of({index: "n1"}), at=float(index))
    assert held(snapshot) == 2000
    assert [age for _, age in snapshot.reservations.placements.assumed(now=4.0)] == [4.0]


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param([TaskSpec(name="t", replicas=1, template=PodTemplate(spec=spec()))], id="fewer replicas"),
        pytest.param([TaskSpec(name="t", template=PodTemplate(spec=spec()))], id="one, since it does not say"),
        pytest.param([TaskSpec(name="u", replicas=2, template=PodTemplate(spec=spec()))], id="another task"),
    ],
)
def test_assumed_placements_that_the_spec_drops_are_forgotten(snapshot: Snapshot, tasks: list[TaskSpec]) -> None:
    pending = reservation("r", phase="Pending", version=1)
    snapshot.apply_reservation(pending)
    snapshot.assume_placements(pending, placements_of({1: "n1"}), at=1.0)
    changed = msgspec.structs.replace(reservation("r", phase="Pending", version=2), spec=ReservationSpec(tasks=tasks))
    snapshot.apply_reservation(changed)
    assert (held(snapshot), list(snapshot.reservations.placements.assumed(now=4.0))) == (0, [])
    snapshot.apply_reservation(reservation("r", phase="Pending", version=3))
    assert held(snapshot) == 0


def test_forgotten_placements_take_no_room(snapshot: Snapshot) -> None:
    pending = reservation("r", phase="Pending")
    snapshot.apply_reservation(pending)
    snapshot.assume_placements(pending, placements_of({0: "n1"}), at=1.0)
    assert snapshot.forget_placements(pending)
    assert held(snapshot) == 0


def test_deleted_reservation_takes_no_room(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    snapshot.remove_reservation(reservation("r"))
    assert (held(snapshot), snapshot.reservations.names()) == (0, [])


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(reservation("r", {0: "n1"}, requests={"cpu": "2c"}), id="an invalid quantity"),
        pytest.param(reservation("r", {0: "n1"}, requests={"cpu": "-2"}), id="less than nothing"),
        pytest.param(msgspec.structs.replace(reservation("r", {0: "n1"}), spec=ReservationSpec()), id="no such task"),
    ],
)
def test_seat_of_an_invalid_template_takes_no_room(snapshot: Snapshot, broken: Reservation) -> None:
    snapshot.apply_reservation(broken)
    assert (held(snapshot), snapshot.reservations.seats("default", "r")) == (0, [])


def test_held_seat_is_on_its_node_as_its_reserved_pod(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, requests={"cpu": "2"}, priority=7))
    (occupant,) = snapshot.occupants("n1")
    assert (occupant.key, occupant.ledger, occupant.pod.spec.priority) == ("default/r/t/0", "reserved", 7)


REPLICA_SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="rs", controller=True)
DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="deploy", controller=True)
UNREADABLE = SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="Sometimes")])


@pytest.mark.parametrize(
    ("owner", "matches"),
    [
        pytest.param(ReservationOwner(controller=ObjectReference(kind="ReplicaSet", name="web-1")), True, id="direct"),
        pytest.param(ReservationOwner(controller=ObjectReference(kind="Deployment", name="web")), True, id="the chain"),
        pytest.param(ReservationOwner(controller=ObjectReference(kind="Job", name="web")), False, id="another kind"),
        pytest.param(ReservationOwner(controller=ObjectReference(kind="Deployment")), False, id="no name"),
        pytest.param(ReservationOwner(object=ObjectReference(kind="Pod", name="p")), True, id="the pod itself"),
        pytest.param(ReservationOwner(object=ObjectReference(name="p", uid="other")), False, id="another UID"),
        pytest.param(ReservationOwner(object=ObjectReference(kind="PodGroup", name="gang")), True, id="its PodGroup"),
        pytest.param(
            ReservationOwner(label_selector=SelectorSpec(match_labels={"team": "x"})), True, id="labels of its PodGroup"
        ),
        pytest.param(
            ReservationOwner(controller=ObjectReference(name="no"), label_selector=SelectorSpec(match_labels=WEB)),
            True,
            id="fields are ORed",
        ),
        pytest.param(ReservationOwner(), False, id="an empty entry"),
        pytest.param(ReservationOwner(label_selector=UNREADABLE), False, id="an invalid selector"),
    ],
)
def test_owner_entry_matches_a_pod(snapshot: Snapshot, owner: ReservationOwner, matches: bool) -> None:
    consumer = pod("p", on="n1", labels=WEB, seat="default/r/t/0", owner=REPLICA_SET)
    present(consumer.metadata.annotations)["scheduling.k8s.io/group-name"] = "gang"
    snapshot.apply_reservation(reservation("r", {0: "n1"}, owners=[owner]))
    snapshot.apply_pod(consumer)
    snapshot.apply_owner(ObjectMeta(uid="rs", owner_references=[DEPLOYMENT]))
    snapshot.apply_group(PodGroup(metadata=ObjectMeta(name="gang", namespace="default", labels={"team": "x"})))
    assert held(snapshot) == (0 if matches else 1000)


def test_match_label_keys_of_a_template_are_written_into_its_selectors() -> None:
    term = PodAffinityTerm(
        label_selector=SelectorSpec(match_labels=WEB), match_label_keys=["hash", "no"], mismatch_label_keys=["tenant"]
    )
    written = spec(affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term])))
    apart = present(present(fold_label_keys(written, {"hash": "1", "tenant": "x"}).affinity).pod_anti_affinity)
    (folded,) = present(apart.required)
    selector = label_selector(folded.label_selector)
    assert str(selector) == "app=web,hash=1,tenant!=x"


@pytest.mark.parametrize(
    ("reservation_uid", "holds"),
    [
        pytest.param("uid-r", False, id="its own"),
        pytest.param("uid-before", True, id="a namesake's"),
        pytest.param("", True, id="it does not say"),
    ],
)
def test_seat_is_not_consumed_by_the_consumer_of_an_earlier_reservation_of_the_name(
    snapshot: Snapshot, reservation_uid: str, holds: bool
) -> None:
    snapshot.apply_pod(pod("p", on="n1", labels=WEB, seat="default/r/t/0", reservation_uid=reservation_uid))
    snapshot.apply_reservation(reservation("r", {0: "n1"}))
    assert held(snapshot) == (1000 if holds else 0)


def test_recreated_reservation_waits_anew_for_its_consumer_to_be_seen(
    snapshot: Snapshot,
) -> None:
    before = reservation("r", {0: "n1"}, version=5)
    snapshot.apply_reservation(before)
    meta = msgspec.structs.replace(before.metadata, uid="uid-next", resource_version="9")
    snapshot.apply_reservation(msgspec.structs.replace(before, metadata=meta))
    seat = snapshot.reservations.seat(SEAT)
    assert seat is not None and (seat.reservation_uid, seat.version) == ("uid-next", 9)


def test_remainder_of_a_seat_is_reserved_until_the_consumption_is_recorded(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, requests={"cpu": "3"}, version=1))
    small = pod("p", {"cpu": "1"}, labels=WEB)
    snapshot.assume(small, "n1", at=1.0, seat=SEAT)
    assert (held(snapshot), ledger_amount(snapshot, "requested", "n1")) == (2000, 1000)
    mark = snapshot.mark()
    snapshot.forget(small)
    assert held(snapshot) == 3000
    snapshot.undo_to(mark)
    assert held(snapshot) == 2000
    there = pod("p", {"cpu": "1"}, on="n1", labels=WEB, seat="default/r/t/0", version=5)
    snapshot.apply_pod(there)
    assert (held(snapshot), ledger_amount(snapshot, "requested", "n1")) == (2000, 1000)
    mark = snapshot.mark()
    snapshot.remove_pod(there)
    assert held(snapshot) == 3000
    snapshot.undo_to(mark)
    snapshot.apply_reservation(reservation("r", {0: "n1"}, consumed={0: "uid-p"}, requests={"cpu": "3"}, version=6))
    assert (held(snapshot), ledger_amount(snapshot, "requested", "n1")) == (0, 1000)


def test_reservation_being_deleted_takes_no_room(snapshot: Snapshot) -> None:
    one = reservation("r", {0: "n1"}, version=1)
    snapshot.apply_reservation(one)
    for version in ("2", "3"):  # the holder of a finalizer writes to it, too
        meta = msgspec.structs.replace(
            one.metadata, resource_version=version, deletion_timestamp="2026-01-01T00:00:00Z"
        )
        snapshot.apply_reservation(msgspec.structs.replace(one, metadata=meta))
        assert (held(snapshot), snapshot.reservations.get("default", "r")) == (0, None)
    snapshot.apply_reservation(reservation("r", {0: "n1"}, version=2))
    assert held(snapshot) == 0
    snapshot.apply_reservation(reservation("r", {0: "n1"}, version=5))
    assert held(snapshot) == 1000


def test_unguaranteed_seats_are_left_out_beside_guaranteed_ones(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("nobodys", {0: "n1"}, owners=[], version=1))
    snapshot.apply_reservation(reservation("r", {0: "n1"}, version=1))
    for name in ("r", "nobodys"):
        snapshot.apply_reservation(reservation(name, {0: "n1"}, phase="Failed", version=2))
    assert held(snapshot) == 0


def test_assumed_seat_is_not_free_until_the_status_shows_it(snapshot: Snapshot) -> None:
    def vacant() -> list[int]:
        return [seat.name.index for seat in snapshot.reservations.free_seats("default", "r")]

    one = reservation("r", {0: "n1"}, version=1)
    snapshot.apply_reservation(one)
    snapshot.assume_placements(one, placements_of({1: "n2"}), at=1.0)
    assert (vacant(), ledger_amount(snapshot, "reserved", "n2")) == ([0], 1000)
    snapshot.apply_reservation(reservation("r", {0: "n1", 1: "n2"}, version=2))
    assert vacant() == [0, 1]


@pytest.mark.parametrize(
    ("own", "scheduler"), [(None, "restow"), ("other", "other")], ids=["names none", "names its own"]
)
def test_reserved_pod_has_the_scheduler_of_the_reservation(own: str | None, scheduler: str) -> None:
    task = TaskSpec(name="t", template=PodTemplate(spec=spec(scheduler_name=own)))
    one = reserved_pod_of(SEAT, task, "restow")
    assert (one.spec.scheduler_name, is_reserved_pod(one), is_reserved_pod(pod("p"))) == (scheduler, True, False)


def test_closed_seat_is_held_and_not_free_until_recorded(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation("r", {0: "n1"}, phase="Available"))
    book = snapshot.reservations
    book.states.close(SEAT)
    book.owners_changed()
    assert (held(snapshot), list(book.free_seats("default", "r"))) == (1000, [])
    snapshot.remove_reservation(reservation("r", {0: "n1"}, phase="Available", version=9))
    snapshot.apply_reservation(reservation("r", {0: "n1"}, phase="Available", version=10))
    assert [seat.name for seat in book.free_seats("default", "r")] == [SEAT]


@pytest.mark.parametrize(
    ("until", "ttl"), [pytest.param(90.0, "1m30s", id="to come"), pytest.param(-5.0, "1s", id="over: not for ever")]
)
def test_ttl_extends_a_reservation_until_a_time(until: float, ttl: str) -> None:
    one = Reservation(metadata=ObjectMeta(name="r", creation_timestamp=format_time(1000.0)))
    assert ttl_until(one, 1000.0 + until) == ttl


def test_reservations_made_to_migrate_a_pod() -> None:
    snapshot, made = Snapshot(), []
    book = snapshot.reservations
    shown = [
        reservation("b", migrating="uid-p", version=1),
        reservation("a", migrating="uid-p", version=2),
        reservation("other", migrating="uid-q", version=3),
        reservation("b", migrating="uid-q", version=4),
        reservation("b", version=5),
    ]
    for one in shown:
        snapshot.apply_reservation(one)
        made.append(
            [[each.metadata.name for each in book.placements.made_to_migrate(uid)] for uid in ("uid-p", "uid-q")]
        )
    assert made == [[["b"], []], [["a", "b"], []], [["a", "b"], ["other"]], [["a"], ["b", "other"]], [["a"], ["other"]]]
    for name in ("a", "b", "other"):
        snapshot.remove_reservation(reservation(name, version=9))
    assert book.placements.made_to_migrate("uid-p") == book.placements.made_to_migrate("uid-q") == []
