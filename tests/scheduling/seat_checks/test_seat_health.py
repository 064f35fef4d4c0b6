"""Seat health: which nodes cost a seat, and which make it wait."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    ContainerPort,
    Node,
    PodAffinity,
    PodAffinityTerm,
    Reservation,
    SelectorSpec,
    Taint,
)
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.registry import read_profile
from restow.scheduling.seat_checks.seat_health import check_with_filters, refused_seats, seat_faults
from tests.model.cluster.builders import node, pod, reservation
from tests.model.reservations.builders import task, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster

ENGINE = read_profile({}).engine
OWN = SeatName("default", "own", "t", 0)


def reservation_on_n1(name: str, at: int, cpu: str = "1", *, changed: bool = False, **more: Any) -> Reservation:
    """A reservation with a seat on n1, made at some second."""
    one = reservation(name, {0: "n1"}, requests={"cpu": cpu}, **more)
    metadata = replace(one.metadata, creation_timestamp=f"2026-01-01T00:00:{at:02d}Z", generation=2)
    return replace(one, metadata=metadata, status=replace(one.status, observed_generation=1 if changed else 2))


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    return snapshot


def faults_of(snapshot: Snapshot, name: str, engine: Engine = ENGINE) -> list[SeatFault]:
    """The faults of the seats of a reservation."""
    return [*seat_faults(snapshot, engine, snapshot.reservations.seats("default", name), 0.0).values()]


def fault_reasons(snapshot: Snapshot, *names: str) -> dict[str, str]:
    """The same in a word, of each reservation."""
    return {name: one.reason.value for name in names for one in faults_of(snapshot, name)}


def test_seats_that_fit_have_no_fault(snapshot: Snapshot) -> None:
    for number, name in enumerate(("a", "b")):
        snapshot.apply_reservation(reservation_on_n1(name, number, "2"))
    assert fault_reasons(snapshot, "a", "b") == {}


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param("1", {}, id="free room costs no seat"),
        pytest.param("2", {"c": "RoomTaken"}, id="the newest first"),
        pytest.param("2500m", {"b": "RoomTaken", "c": "RoomTaken"}, id="and then the next"),
        pytest.param("9", {"a": "RoomTaken", "b": "RoomTaken", "c": "RoomTaken"}, id="until no seat is left"),
    ],
)
def test_overcommitted_node_costs_the_newest_reservation_its_seats(
    snapshot: Snapshot, taken: str, expected: dict[str, str]
) -> None:
    for number, name in enumerate(("a", "b", "c")):
        snapshot.apply_reservation(reservation_on_n1(name, number))
    snapshot.apply_pod(pod("thief", {"cpu": taken}, on="n1"))
    assert fault_reasons(snapshot, "a", "b", "c") == expected


def test_names_decide_between_reservations_of_the_same_age(snapshot: Snapshot) -> None:
    for name in ("a", "b"):
        snapshot.apply_reservation(reservation_on_n1(name, 0, "2"))
    snapshot.apply_pod(pod("thief", {"cpu": "1"}, on="n1"))
    assert fault_reasons(snapshot, "a", "b") == {"b": "RoomTaken"}


def test_reservation_with_an_undecided_increase_loses_its_seats_first(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_on_n1("old", 0, "3", changed=True))
    snapshot.apply_reservation(reservation_on_n1("new", 9, "2"))
    assert fault_reasons(snapshot, "old", "new") == {"old": "RoomTaken"}


def test_seat_that_requests_nothing_of_the_short_resource_is_spared(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_on_n1("cpu", 0))
    snapshot.apply_reservation(reservation_on_n1("nothing", 9, "0"))
    snapshot.apply_pod(pod("thief", {"cpu": "4"}, on="n1"))
    assert fault_reasons(snapshot, "cpu", "nothing") == {"cpu": "RoomTaken"}


def test_seat_waits_for_terminating_pods(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_on_n1("a", 0, "2"))
    snapshot.apply_reservation(reservation_on_n1("b", 1, "2"))
    snapshot.apply_pod(pod("going", {"cpu": "1"}, on="n1", leaving=True))
    assert fault_reasons(snapshot, "a", "b") == {"b": "RoomBeingLeft"}


def test_consumed_seat_has_no_fault(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_on_n1("a", 0, "2", consumed={0: "uid-p"}))
    snapshot.apply_pod(pod("p", {"cpu": "2"}, on="n1"))
    snapshot.apply_pod(pod("thief", {"cpu": "9"}, on="n1"))
    assert fault_reasons(snapshot, "a") == {}


GPU = Taint(key="gpu", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(node("n1", unschedulable=True), "node n1 is cordoned", id="cordoned"),
        pytest.param(
            node("n1", taints=[GPU]),
            "node n1 has the taint gpu=yes:NoSchedule, which the task does not tolerate",
            id="tainted",
        ),
        pytest.param(
            node("n1", labels={"zone": "b"}),
            "node n1 no longer matches the node selector or affinity of the task",
            id="its labels changed",
        ),
    ],
)
def test_unfit_node_is_described(snapshot: Snapshot, changed: Node, message: str) -> None:
    snapshot.apply_node(node("n1", labels={"zone": "a"}))
    snapshot.apply_reservation(reservation_on_n1("a", 0, node_selector={"zone": "a"}))
    assert fault_reasons(snapshot, "a") == {}
    snapshot.apply_node(
        replace(changed, metadata=replace(changed.metadata, labels=changed.metadata.labels or {"zone": "a"}))
    )
    [one] = faults_of(snapshot, "a")
    assert (one.reason, one.message) == (FaultReason.NODE_UNFIT, message)


def test_deleted_node_costs_its_seats(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_on_n1("a", 0))
    snapshot.remove_node(node("n1"))
    assert fault_reasons(snapshot, "a") == {"a": "NodeGone"}


def test_waiting_reservation_is_checked_with_every_filter_and_nothing_changes(snapshot: Snapshot) -> None:
    one = reservation_on_n1("a", 0)
    snapshot.apply_reservation(one)
    free = snapshot.room.free.copy()
    assert refused_seats(snapshot, ENGINE, one, 0.0) == {}
    snapshot.apply_pod(pod("full", {"cpu": "3500m"}, on="n1", leaving=True))
    [why] = refused_seats(snapshot, ENGINE, one, 0.0).values()
    assert (why.reason, why.message) == (
        FaultReason.ROOM_BEING_LEFT,
        "terminating pods have not left node n1 yet: Insufficient cpu",
    )
    snapshot.remove_pod(pod("full", on="n1"))
    assert (snapshot.room.free == free).all()


@pytest.mark.parametrize(
    ("too_much", "reason"),
    [
        pytest.param({}, "NodeUnfit", id="a node with room"),
        pytest.param({"memory": "9Gi"}, "NodeUnfit", id="one that has too little of what the seat does not ask for"),
        pytest.param({"cpu": "4"}, "RoomTaken", id="one that has too little for the seat"),
    ],
)
def test_anti_affinity_is_noticed_before_a_pod_is_migrated(
    snapshot: Snapshot, too_much: dict[str, str], reason: str
) -> None:
    port = [Container(name="door", restart_policy="Always", ports=[ContainerPort(container_port=80, host_port=80)])]
    one = reservation_on_n1("a", 0, migrating="uid-migrating", init_containers=port)
    snapshot.apply_reservation(one)
    snapshot.apply_pod(pod("migrating", on="n2"))
    snapshot.apply_pod(pod("thief", too_much, on="n1", init_containers=port))
    kept = [*check_with_filters(snapshot, ENGINE, one, 0.0, waits_for_room=False).values()]
    assert [one.reason for one in faults_of(snapshot, "a") or kept] == [reason]


@pytest.mark.parametrize("age", [1, 9], ids=["older", "newer"])
def test_waiting_reservation_makes_no_available_one_wait(snapshot: Snapshot, age: int) -> None:
    snapshot.apply_pod(pod("going", {"cpu": "2"}, on="n1", leaving=True))
    snapshot.apply_reservation(reservation_on_n1("promised", 5, "2"))
    snapshot.apply_reservation(reservation_on_n1("waiting", age, "2", phase="Waiting"))
    assert fault_reasons(snapshot, "promised", "waiting") == {"waiting": "RoomBeingLeft"}


@pytest.mark.parametrize(
    ("phase", "stolen", "seated", "expected"),
    [
        pytest.param("Waiting", "0", False, False, id="it has the room once others have left"),
        pytest.param("Waiting", "1", False, True, id="it would have none if the pod came"),
        pytest.param("Waiting", "1", True, True, id="nor is there room for the pod"),
        pytest.param("Available", "0", True, True, id="it was promised its room"),
    ],
)
def test_waiting_reservation_takes_no_room_from_a_pod_on_its_way(
    snapshot: Snapshot, phase: str, stolen: str, seated: bool, expected: bool
) -> None:
    coming = pod("coming", {"cpu": "2"})
    snapshot.assume(coming, "n1", at=0.0)
    snapshot.apply_pod(pod("going", {"cpu": "2"}, on="n1", leaving=True))
    snapshot.apply_pod(pod("foreign", {"cpu": stolen}, on="n1"))
    snapshot.apply_reservation(reservation_on_n1("held", 1, "2", phase=phase))
    assert ENGINE.is_overcommitted(Cycle(coming, snapshot, 0.0), "n1", OWN if seated else None) is expected


def test_pod_in_its_seat_comes_before_a_waiting_reservation(snapshot: Snapshot) -> None:
    coming = pod("coming", {"cpu": "2"})
    snapshot.assume(coming, "n1", at=0.0)
    snapshot.apply_reservation(reservation_on_n1("held", 1, "3", phase="Waiting"))
    attempt = Cycle(coming, snapshot, 0.0)
    assert [ENGINE.is_overcommitted(attempt, "n1", seat) for seat in (None, OWN)] == [True, False]


@pytest.mark.parametrize(
    ("stolen", "expected"),
    [
        pytest.param("0", False, id="there is room for it"),
        pytest.param("500m", True, id="there is none even for it"),
    ],
)
def test_pod_smaller_than_its_seat_needs_only_its_requests(snapshot: Snapshot, stolen: str, expected: bool) -> None:
    """n1 offers 4 cores, of which 3 are being left."""
    coming, seat = pod("coming", {"cpu": "1"}, labels={"app": "web"}), SeatName("default", "r", "t", 0)
    snapshot.apply_pod(pod("going", {"cpu": "3"}, on="n1", leaving=True))
    snapshot.apply_pod(pod("foreign", {"cpu": stolen}, on="n1"))
    snapshot.apply_reservation(reservation_on_n1("r", 0, "3"))
    snapshot.assume(coming, "n1", at=0.0, seat=seat)
    free = snapshot.room.free.copy()
    assert ENGINE.is_overcommitted(Cycle(coming, snapshot, 0.0), "n1", seat) is expected
    assert (snapshot.room.free == free).all()


@pytest.mark.parametrize(
    ("age", "awaited", "leaving", "taken", "expected"),
    [
        pytest.param(9, "uid-web", False, "0", {"claim": "RoomBeingLeft"}, id="the pod that is awaited has not left"),
        pytest.param(0, "uid-web", False, "0", {"claim": "RoomBeingLeft"}, id="nor has that of an older one"),
        pytest.param(9, "uid-web", True, "0", {"claim": "RoomBeingLeft"}, id="it is leaving"),
        pytest.param(0, "uid-web", True, "0", {"claim": "RoomBeingLeft"}, id="and so is that of an older one"),
        pytest.param(9, "uid-other", False, "0", {"claim": "RoomTaken"}, id="the pod there is not awaited"),
        pytest.param(9, "uid-web", False, "1", {"claim": "RoomTaken"}, id="more is taken than will be left"),
        pytest.param(0, "uid-web", False, "1", {"claim": "RoomTaken"}, id="by another reservation than the newest"),
    ],
)
def test_seat_that_awaits_room_is_kept_and_costs_no_other_seat(
    snapshot: Snapshot, age: int, awaited: str, leaving: bool, taken: str, expected: dict[str, str]
) -> None:
    """n1 offers 4 cores: 1 is held by a seat, 2 are web's, the other reservation needs 3."""
    snapshot.apply_reservation(reservation_on_n1("old", 5, "1"))
    snapshot.apply_pod(pod("web", {"cpu": "2"}, on="n1", leaving=leaving))
    claim = reservation_on_n1("claim", age, "3")
    notes = {"restow.sh/awaits": awaited}
    snapshot.apply_reservation(replace(claim, metadata=replace(claim.metadata, annotations=notes)))
    snapshot.apply_pod(pod("thief", {"cpu": taken}, on="n1"))
    assert fault_reasons(snapshot, "old", "claim") == expected


def test_pod_on_its_way_does_not_make_its_seat_more_reliable(snapshot: Snapshot) -> None:
    """n1 offers 4 cores, of which 2 are being left: a seat of 3 waits, also with a pod on its way."""
    snapshot.apply_pod(pod("old", {"cpu": "2"}, on="n1", leaving=True))
    snapshot.apply_reservation(reservation_on_n1("r", 0, "3"))
    assert fault_reasons(snapshot, "r") == {"r": "RoomBeingLeft"}
    snapshot.assume(pod("p", {"cpu": "1"}, labels={"app": "web"}), "n1", at=1.0, seat=SeatName("default", "r", "t", 0))
    assert fault_reasons(snapshot, "r") == {"r": "RoomBeingLeft"}
    snapshot.remove_pod(pod("old", on="n1"))
    assert fault_reasons(snapshot, "r") == {}


@pytest.mark.parametrize("lost", [pytest.param("9", id="its room is taken"), pytest.param(None, id="its node is gone")])
def test_assigned_seat_is_not_lost_before_its_pod_arrives(snapshot: Snapshot, lost: str | None) -> None:
    snapshot.apply_reservation(reservation_on_n1("r", 0, "3"))
    coming = pod("p", {"cpu": "3"}, labels={"app": "web"})
    snapshot.assume(coming, "n1", at=1.0, seat=SeatName("default", "r", "t", 0))
    if lost is not None:
        snapshot.apply_pod(pod("thief", {"cpu": lost}, on="n1"))
    else:
        snapshot.remove_node(node("n1"))
    assert fault_reasons(snapshot, "r") == ({"r": "RoomBeingLeft"} if lost else {})
    snapshot.forget(coming)
    assert fault_reasons(snapshot, "r") == {"r": "RoomTaken" if lost else "NodeGone"}


@pytest.mark.parametrize("seated", [pytest.param(True, id="in a small seat"), pytest.param(False, id="beside them")])
@pytest.mark.parametrize(
    ("stolen", "fields", "expected"),
    [
        pytest.param("2", {}, {}, id="there is room without that pod"),
        pytest.param("2500m", {}, {"r": "RoomTaken"}, id="there is none without it either"),
        pytest.param("2", {"phase": "Waiting"}, {"r": "RoomTaken"}, id="the seat is not guaranteed"),
        pytest.param("2", {"changed": True}, {"r": "RoomTaken"}, id="more is asked for than was given"),
    ],
)
def test_guaranteed_seat_is_not_lost_to_a_pod_on_its_way(
    snapshot: Snapshot, seated: bool, stolen: str, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    """n1 offers 4 cores: 1 is held for the pod on its way, which requests 2, and 1 for another seat."""
    snapshot.apply_reservation(reservation_on_n1("own", 1))
    snapshot.apply_reservation(reservation_on_n1("r", 2, **fields))
    coming = pod("coming", {"cpu": "2"}, labels={"app": "web"})
    snapshot.assume(coming, "n1", at=0.0, seat=OWN if seated else None)
    snapshot.apply_pod(pod("thief", {"cpu": stolen}, on="n1"))
    assert fault_reasons(snapshot, "r") == expected
    assert ENGINE.is_overcommitted(Cycle(coming, snapshot, 0.0), "n1", OWN if seated else None) is not (
        seated and fields.get("phase") == "Waiting"
    )


def test_seat_of_a_resource_that_no_node_offers_any_more_is_lost(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(reservation_on_n1("a", 1))
    one = reservation("b", {0: "n1"}, requests={"example.com/gpu": "2"})
    snapshot.apply_reservation(one)
    (reason,) = faults_of(snapshot, "b")
    assert (reason.reason, reason.message) == (
        FaultReason.ROOM_TAKEN,
        "node n1 is over-committed by 2 example.com/gpu",
    )
    assert fault_reasons(snapshot, "a") == {}


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        pytest.param([], ["node n1 is over-committed by 1 example.com/gpu"], id="which the filter counts"),
        pytest.param(["example.com/gpu"], [], id="which the filters do not count"),
    ],
)
def test_only_resources_that_the_filters_count_cost_seats(
    snapshot: Snapshot, ignored: list[str], expected: list[str]
) -> None:
    snapshot.apply_node(node("n1", {"cpu": "4", "pods": "9", "example.com/gpu": "2"}))
    snapshot.apply_reservation(reservation("a", {0: "n1"}, requests={"example.com/gpu": "2"}))
    snapshot.apply_pod(pod("thief", {"example.com/gpu": "1"}, on="n1"))
    engine = Engine([NodeResourcesFit({"ignoredResources": ignored})])
    assert [one.message for one in faults_of(snapshot, "a", engine)] == expected


HOST = "kubernetes.io/hostname"
ALONE = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[PodAffinityTerm(topology_key=HOST, label_selector=SelectorSpec(match_labels={"app": "web"}))]
    )
)


@pytest.mark.parametrize(
    ("migrating", "count"),
    [
        pytest.param("uid-old", 0, id="the migrating pod is ignored"),
        pytest.param("uid-other", 1, id="another pod is not"),
    ],
)
def test_pod_on_its_way_does_not_make_its_seat_less_reliable(migrating: str, count: int) -> None:
    seat = web_reservation("r", task(1, {}, labels={"app": "web"}, affinity=ALONE), at={0: "n1"}, migrating=migrating)
    cluster = SessionCluster(node("n1", labels={HOST: "n1"}), pod("old", {}, on="n1", labels={"app": "web"}), seat)
    assert len(refused_seats(cluster.snapshot, ENGINE, seat, 0.0)) == count
