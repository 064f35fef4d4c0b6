"""How seats stand: what a node must do to cost one, or to make it wait."""

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
from restow.scheduling.seat_checks.seat_health import refused_seats, check_with_filters, seat_faults
from tests.model.cluster.builders import node, pod, reservation
from tests.scheduling.reservations.stage import Stage, booking, task

ENGINE = read_profile({}).engine
OWN = SeatName("default", "own", "t", 0)


def made(name: str, at: int, cpu: str = "1", *, changed: bool = False, **more: Any) -> Reservation:
    """A reservation with a seat on n1, made at some second."""
    one = reservation(name, {0: "n1"}, requests={"cpu": cpu}, **more)
    metadata = replace(one.metadata, creation_timestamp=f"2026-01-01T00:00:{at:02d}Z", generation=2)
    return replace(one, metadata=metadata, status=replace(one.status, observed_generation=1 if changed else 2))


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    return snapshot


def told(snapshot: Snapshot, name: str, engine: Engine = ENGINE) -> list[SeatFault]:
    """The trouble that the seats of a reservation are in."""
    return [*seat_faults(snapshot, engine, snapshot.reservations.seats("default", name), 0.0).values()]


def found(snapshot: Snapshot, *names: str) -> dict[str, str]:
    """The same in a word, of each reservation."""
    return {name: one.reason.value for name in names for one in told(snapshot, name)}


def test_seats_that_fit_are_in_no_trouble(snapshot: Snapshot) -> None:
    for number, name in enumerate(("a", "b")):
        snapshot.apply_reservation(made(name, number, "2"))
    assert found(snapshot, "a", "b") == {}


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param("1", {}, id="what is free costs nobody anything"),
        pytest.param("2", {"c": "RoomTaken"}, id="the newest first"),
        pytest.param("2500m", {"b": "RoomTaken", "c": "RoomTaken"}, id="and then the next"),
        pytest.param("9", {"a": "RoomTaken", "b": "RoomTaken", "c": "RoomTaken"}, id="until nobody is left"),
    ],
)
def test_more_than_a_node_offers_costs_the_newest(snapshot: Snapshot, taken: str, expected: dict[str, str]) -> None:
    for number, name in enumerate(("a", "b", "c")):
        snapshot.apply_reservation(made(name, number))
    snapshot.apply_pod(pod("thief", {"cpu": taken}, on="n1"))
    assert found(snapshot, "a", "b", "c") == expected


def test_names_decide_between_those_of_the_same_age(snapshot: Snapshot) -> None:
    for name in ("a", "b"):
        snapshot.apply_reservation(made(name, 0, "2"))
    snapshot.apply_pod(pod("thief", {"cpu": "1"}, on="n1"))
    assert found(snapshot, "a", "b") == {"b": "RoomTaken"}


def test_who_was_changed_comes_after_everybody_else(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(made("old", 0, "3", changed=True))
    snapshot.apply_reservation(made("new", 9, "2"))
    assert found(snapshot, "old", "new") == {"old": "RoomTaken"}


def test_who_uses_nothing_of_what_is_short_is_spared(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(made("cpu", 0))
    snapshot.apply_reservation(made("nothing", 9, "0"))
    snapshot.apply_pod(pod("thief", {"cpu": "4"}, on="n1"))
    assert found(snapshot, "cpu", "nothing") == {"cpu": "RoomTaken"}


def test_room_that_is_being_left_is_waited_for(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(made("a", 0, "2"))
    snapshot.apply_reservation(made("b", 1, "2"))
    snapshot.apply_pod(pod("going", {"cpu": "1"}, on="n1", leaving=True))
    assert found(snapshot, "a", "b") == {"b": "RoomBeingLeft"}


def test_a_seat_that_was_taken_is_in_no_trouble(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(made("a", 0, "2", taken={0: "uid-p"}))
    snapshot.apply_pod(pod("p", {"cpu": "2"}, on="n1"))
    snapshot.apply_pod(pod("thief", {"cpu": "9"}, on="n1"))
    assert found(snapshot, "a") == {}


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
def test_an_unfit_node_is_told_in_words(snapshot: Snapshot, changed: Node, message: str) -> None:
    snapshot.apply_node(node("n1", labels={"zone": "a"}))
    snapshot.apply_reservation(made("a", 0, node_selector={"zone": "a"}))
    assert found(snapshot, "a") == {}
    snapshot.apply_node(
        replace(changed, metadata=replace(changed.metadata, labels=changed.metadata.labels or {"zone": "a"}))
    )
    [one] = told(snapshot, "a")
    assert (one.reason, one.message) == (FaultReason.NODE_UNFIT, message)


def test_a_node_that_is_gone_takes_its_seats_along(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(made("a", 0))
    snapshot.remove_node(node("n1"))
    assert found(snapshot, "a") == {"a": "NodeGone"}


def test_one_that_waits_is_asked_by_every_filter_and_leaves_no_trace(snapshot: Snapshot) -> None:
    one = made("a", 0)
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
    ("too_much", "trouble"),
    [
        pytest.param({}, "NodeUnfit", id="a node with room"),
        pytest.param({"memory": "9Gi"}, "NodeUnfit", id="one that has too little of what the seat does not ask for"),
        pytest.param({"cpu": "4"}, "RoomTaken", id="one that has too little for the seat"),
    ],
)
def test_company_is_noticed_before_a_pod_is_moved(snapshot: Snapshot, too_much: dict[str, str], trouble: str) -> None:
    port = [Container(name="door", restart_policy="Always", ports=[ContainerPort(container_port=80, host_port=80)])]
    one = made("a", 0, moves="uid-mover", init_containers=port)
    snapshot.apply_reservation(one)
    snapshot.apply_pod(pod("mover", on="n2"))
    snapshot.apply_pod(pod("thief", too_much, on="n1", init_containers=port))
    kept = [*check_with_filters(snapshot, ENGINE, one, 0.0, waits_for_room=False).values()]
    assert [one.reason for one in told(snapshot, "a") or kept] == [trouble]


@pytest.mark.parametrize("age", [1, 9], ids=["older", "newer"])
def test_who_waits_for_room_makes_nobody_wait_whose_seat_is_available(snapshot: Snapshot, age: int) -> None:
    snapshot.apply_pod(pod("going", {"cpu": "2"}, on="n1", leaving=True))
    snapshot.apply_reservation(made("promised", 5, "2"))
    snapshot.apply_reservation(made("waiting", age, "2", phase="Waiting"))
    assert found(snapshot, "promised", "waiting") == {"waiting": "RoomBeingLeft"}


@pytest.mark.parametrize(
    ("phase", "stolen", "seated", "expected"),
    [
        pytest.param("Waiting", "0", False, False, id="it has the room once others have left"),
        pytest.param("Waiting", "1", False, True, id="it would have none if the pod came"),
        pytest.param("Waiting", "1", True, True, id="nor is there room for the pod"),
        pytest.param("Available", "0", True, True, id="it was promised its room"),
    ],
)
def test_who_waits_for_room_takes_none_from_a_pod_on_its_way(
    snapshot: Snapshot, phase: str, stolen: str, seated: bool, expected: bool
) -> None:
    coming = pod("coming", {"cpu": "2"})
    snapshot.assume(coming, "n1", at=0.0)
    snapshot.apply_pod(pod("going", {"cpu": "2"}, on="n1", leaving=True))
    snapshot.apply_pod(pod("foreign", {"cpu": stolen}, on="n1"))
    snapshot.apply_reservation(made("held", 1, "2", phase=phase))
    assert ENGINE.is_overcommitted(Cycle(coming, snapshot, 0.0), "n1", OWN if seated else None) is expected


def test_a_pod_in_its_seat_goes_before_one_that_waits(snapshot: Snapshot) -> None:
    coming = pod("coming", {"cpu": "2"})
    snapshot.assume(coming, "n1", at=0.0)
    snapshot.apply_reservation(made("held", 1, "3", phase="Waiting"))
    attempt = Cycle(coming, snapshot, 0.0)
    assert [ENGINE.is_overcommitted(attempt, "n1", seat) for seat in (None, OWN)] == [True, False]


@pytest.mark.parametrize(
    ("stolen", "expected"),
    [
        pytest.param("0", False, id="there is room for it"),
        pytest.param("500m", True, id="there is none even for it"),
    ],
)
def test_a_pod_that_is_smaller_than_its_seat_needs_no_more_than_it_asks_for(
    snapshot: Snapshot, stolen: str, expected: bool
) -> None:
    """n1 offers 4 cores, of which 3 are being left."""
    coming, seat = pod("coming", {"cpu": "1"}, labels={"app": "web"}), SeatName("default", "r", "t", 0)
    snapshot.apply_pod(pod("going", {"cpu": "3"}, on="n1", leaving=True))
    snapshot.apply_pod(pod("foreign", {"cpu": stolen}, on="n1"))
    snapshot.apply_reservation(made("r", 0, "3"))
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
        pytest.param(9, "uid-other", False, "0", {"claim": "RoomTaken"}, id="nobody awaits whoever is there"),
        pytest.param(9, "uid-web", False, "1", {"claim": "RoomTaken"}, id="more is taken than will be left"),
        pytest.param(0, "uid-web", False, "1", {"claim": "RoomTaken"}, id="by others than who is newer"),
    ],
)
def test_who_hopes_for_room_keeps_its_seat_and_costs_nobody_theirs(
    snapshot: Snapshot, age: int, awaited: str, leaving: bool, taken: str, expected: dict[str, str]
) -> None:
    """n1 offers 4 cores: 1 is held for somebody, 2 are web's, the claim is after 3."""
    snapshot.apply_reservation(made("old", 5, "1"))
    snapshot.apply_pod(pod("web", {"cpu": "2"}, on="n1", leaving=leaving))
    claim = made("claim", age, "3")
    notes = {"restow.sh/awaits": awaited}
    snapshot.apply_reservation(replace(claim, metadata=replace(claim.metadata, annotations=notes)))
    snapshot.apply_pod(pod("thief", {"cpu": taken}, on="n1"))
    assert found(snapshot, "old", "claim") == expected


def test_a_pod_on_its_way_into_a_seat_makes_it_no_more_reliable(snapshot: Snapshot) -> None:
    """n1 offers 4 cores, of which 2 are being left: a seat of 3 waits, whoever sets out for it."""
    snapshot.apply_pod(pod("old", {"cpu": "2"}, on="n1", leaving=True))
    snapshot.apply_reservation(made("r", 0, "3"))
    assert found(snapshot, "r") == {"r": "RoomBeingLeft"}
    snapshot.assume(pod("p", {"cpu": "1"}, labels={"app": "web"}), "n1", at=1.0, seat=SeatName("default", "r", "t", 0))
    assert found(snapshot, "r") == {"r": "RoomBeingLeft"}
    snapshot.remove_pod(pod("old", on="n1"))
    assert found(snapshot, "r") == {}


@pytest.mark.parametrize("lost", [pytest.param("9", id="its room is taken"), pytest.param(None, id="its node is gone")])
def test_a_seat_is_not_lost_before_it_is_known_what_becomes_of_the_pod_on_its_way(
    snapshot: Snapshot, lost: str | None
) -> None:
    snapshot.apply_reservation(made("r", 0, "3"))
    coming = pod("p", {"cpu": "3"}, labels={"app": "web"})
    snapshot.assume(coming, "n1", at=1.0, seat=SeatName("default", "r", "t", 0))
    if lost is not None:
        snapshot.apply_pod(pod("thief", {"cpu": lost}, on="n1"))
    else:
        snapshot.remove_node(node("n1"))
    assert found(snapshot, "r") == ({"r": "RoomBeingLeft"} if lost else {})
    snapshot.forget(coming)
    assert found(snapshot, "r") == {"r": "RoomTaken" if lost else "NodeGone"}


@pytest.mark.parametrize("seated", [pytest.param(True, id="in a small seat"), pytest.param(False, id="beside them")])
@pytest.mark.parametrize(
    ("stolen", "fields", "expected"),
    [
        pytest.param("2", {}, {}, id="there is room without that pod"),
        pytest.param("2500m", {}, {"r": "RoomTaken"}, id="there is none without it either"),
        pytest.param("2", {"phase": "Waiting"}, {"r": "RoomTaken"}, id="nobody was promised it"),
        pytest.param("2", {"changed": True}, {"r": "RoomTaken"}, id="more is asked for than was given"),
    ],
)
def test_no_seat_that_can_be_relied_on_is_lost_to_a_pod_that_is_on_its_way(
    snapshot: Snapshot, seated: bool, stolen: str, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    """n1 offers 4 cores: 1 is held for the one to come, who asks for 2, and 1 for somebody else."""
    snapshot.apply_reservation(made("own", 1))
    snapshot.apply_reservation(made("r", 2, **fields))
    coming = pod("coming", {"cpu": "2"}, labels={"app": "web"})
    snapshot.assume(coming, "n1", at=0.0, seat=OWN if seated else None)
    snapshot.apply_pod(pod("thief", {"cpu": stolen}, on="n1"))
    assert found(snapshot, "r") == expected
    assert ENGINE.is_overcommitted(Cycle(coming, snapshot, 0.0), "n1", OWN if seated else None) is not (
        seated and fields.get("phase") == "Waiting"
    )


def test_a_seat_of_what_no_node_offers_any_more_is_lost(snapshot: Snapshot) -> None:
    snapshot.apply_reservation(made("a", 1))
    one = reservation("b", {0: "n1"}, requests={"example.com/gpu": "2"})
    snapshot.apply_reservation(one)
    (trouble,) = told(snapshot, "b")
    assert (trouble.reason, trouble.message) == (
        FaultReason.ROOM_TAKEN,
        "node n1 is over-committed by 2 example.com/gpu",
    )
    assert found(snapshot, "a") == {}


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        pytest.param([], ["node n1 is over-committed by 1 example.com/gpu"], id="which the filter counts"),
        pytest.param(["example.com/gpu"], [], id="which it leaves to somebody else"),
    ],
)
def test_a_resource_of_which_too_much_is_taken_costs_seats_as_it_keeps_pods_from_being_bound(
    snapshot: Snapshot, ignored: list[str], expected: list[str]
) -> None:
    snapshot.apply_node(node("n1", {"cpu": "4", "pods": "9", "example.com/gpu": "2"}))
    snapshot.apply_reservation(reservation("a", {0: "n1"}, requests={"example.com/gpu": "2"}))
    snapshot.apply_pod(pod("thief", {"example.com/gpu": "1"}, on="n1"))
    engine = Engine([NodeResourcesFit({"ignoredResources": ignored})])
    assert [one.message for one in told(snapshot, "a", engine)] == expected


HOST = "kubernetes.io/hostname"
ALONE = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[PodAffinityTerm(topology_key=HOST, label_selector=SelectorSpec(match_labels={"app": "web"}))]
    )
)


@pytest.mark.parametrize(
    ("mover", "count"),
    [
        pytest.param("uid-old", 0, id="whom it is to move"),
        pytest.param("uid-other", 1, id="but anybody else does"),
    ],
)
def test_the_pod_that_a_seat_is_for_makes_it_no_less_reliable(mover: str, count: int) -> None:
    seat = booking("r", task(1, {}, labels={"app": "web"}, affinity=ALONE), at={0: "n1"}, migrating=mover)
    stage = Stage(node("n1", labels={HOST: "n1"}), pod("old", {}, on="n1", labels={"app": "web"}), seat)
    assert len(refused_seats(stage.snapshot, ENGINE, seat, 0.0)) == count
