"""Whether a pod that comes now would get into a seat."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Reservation,
    SelectorSpec,
    TopologySpreadConstraint,
)
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.seat_checks.admission_check import IncomingPod, why_not_admitted
from tests.model.cluster.builders import node, pod, queue
from tests.scheduling.reservations.stage import (
    ALL,
    FITS,
    OWNER,
    PORT,
    PROFILE,
    Stage,
    at_port,
    booking,
    rooms,
    task,
    user,
)

OLD = user("old", {"cpu": "1"}, on="n1")


def asked(stage: Stage, comes: Pod = OLD, *before: Pod, of: str = "default") -> str:
    """What the last seat that is asked about says."""
    snapshot: Snapshot = stage.snapshot
    seats = [one for one in snapshot.reservations.seats("default", "r") if one.is_open]
    was = snapshot.reservations.reserved_pods.names(), snapshot.room.free.tolist(), snapshot.pods.known.keys() | ()
    last, others = IncomingPod(comes, of, OLD.metadata.uid), [IncomingPod(one, of, one.metadata.uid) for one in before]
    answers = why_not_admitted(snapshot, PROFILE.engine, seats, last, others, now=0.0)
    assert (snapshot.reservations.reserved_pods.names(), snapshot.room.free.tolist(), snapshot.pods.known.keys() | ()) == was
    return list(answers.values())[-1]


def seat(requests: Any = None, **fields: Any) -> Reservation:
    return booking("r", task(1, requests or ALL), at={0: "n2"}, **FITS, **fields)


def test_a_seat_takes_whoever_comes_for_it_though_the_node_is_full_of_it() -> None:
    assert asked(Stage(*rooms("n1", "n2"), OLD, seat())) == ""


@pytest.mark.parametrize(
    "there, comes, why",
    [
        pytest.param(pod("thief", {"cpu": "1"}, on="n2"), OLD, "Insufficient cpu", id="room of the seat"),
        pytest.param(at_port(pod("port", {}, on="n2")), at_port(OLD), "free ports", id="a port that the seat lacks"),
    ],
)
def test_it_does_not_if_others_are_in_the_way(there: Pod, comes: Pod, why: str) -> None:
    stage = Stage(*rooms("n1", "n2"), OLD, seat(), there)
    assert why in asked(stage, comes)


def test_who_is_larger_than_the_seat_needs_room_beside_it() -> None:
    large = user("old", {"cpu": "2"}, on="n1")
    stage = Stage(*rooms("n1", "n2"), large, seat({"cpu": "1"}), pod("other", {"cpu": "2"}, on="n2"))
    assert asked(stage, large) == ""
    stage.show(pod("another", {"cpu": "1"}, on="n2"))
    assert "Insufficient cpu" in asked(stage, large)


def test_whom_the_seat_was_made_for_does_not_matter_if_another_comes() -> None:
    """Its template says more of company and ports than the pods that take it."""
    wants: dict[str, Any] = {"init_containers": [replace(PORT[0], restart_policy="Always")]}
    made = booking("r", task(1, {"cpu": "1"}, **wants), at={0: "n2"}, **FITS)
    assert asked(Stage(*rooms("n1", "n2"), OLD, made, at_port(pod("port", {}, on="n2")))) == ""


def test_a_seat_that_somebody_is_known_to_have_taken_is_for_nobody_else() -> None:
    """It is not marked yet."""
    stage = Stage(*rooms("n1", "n2"), OLD, seat({"cpu": "1"}))
    assert asked(stage) == ""
    stage.show(user("new", {"cpu": "1"}, on="n2", seat="default/r/t/0"))
    assert asked(stage) == "pod default/new has consumed it"


def test_a_node_that_is_locked_for_others_since_takes_who_is_of_the_seats_queue() -> None:
    stage = Stage(*rooms("n1", "n2"), OLD, seat(queue="mine"))
    stage.show(queue("theirs", "n2"))
    assert asked(stage, of="mine") == ""
    assert asked(stage) != ""


ZONE = "topology.kubernetes.io/zone"


def apart(**term: Any) -> Affinity:
    """Not in a zone with pods that have the label app=web."""
    selector = SelectorSpec(match_labels={"app": "web"})
    term = {"topology_key": ZONE, "label_selector": selector, **term}
    return Affinity(pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(**term)]))


def zoned() -> list[Node]:
    return [node(name, labels={ZONE: "a"}) for name in ("n1", "n2")]


def test_whom_it_replaces_is_no_company() -> None:
    """It must not be in one zone with others that are like it, and moves within its zone."""
    comes = user("old", {"cpu": "1"}, on="n1", affinity=apart())
    stage = Stage(*zoned(), comes, seat())
    assert asked(stage, comes) == ""
    stage.show(user("sibling", {"cpu": "1"}, on="n1"))
    assert "anti-affinity" in asked(stage, comes)


def test_label_keys_are_those_of_whoever_comes() -> None:
    """Only pods of its own revision are no company, and the only other one is of an earlier."""
    affinity = apart(match_label_keys=["revision"])
    comes = user("old", {"cpu": "1"}, on="n1", labels={"app": "web", "revision": "2"}, affinity=affinity)
    sibling = user("sibling", {"cpu": "1"}, on="n1", labels={"app": "web", "revision": "1"})
    assert asked(Stage(*zoned(), comes, seat(), sibling), comes) == ""


def test_a_node_that_is_not_heard_of_takes_nobody() -> None:
    stage = Stage(*rooms("n1"), OLD, seat())
    assert asked(stage) == "there is no such node"


def test_a_cordoned_node_takes_nobody() -> None:
    stage = Stage(*rooms("n1"), node("n2", unschedulable=True), OLD, seat())
    assert "unschedulable" in asked(stage)
    assert SeatName("default", "r", "t", 0) in stage.snapshot.reservations.reserved_pods


def seats(*nodes: str) -> Reservation:
    return booking("r", task(len(nodes), {"cpu": "1"}), at=dict(enumerate(nodes)), **FITS)


def test_who_comes_before_is_there_by_then() -> None:
    """Each of them could have its seat, if it were not for the other."""
    first, last = at_port(user("first", on="n1")), at_port(OLD)
    stage = Stage(*rooms("n1", "n2", "n3"), first, last, seats("n2", "n2"))
    assert asked(stage, last) == ""
    assert "free ports" in asked(stage, last, first)
    assert asked(stage, OLD, first) == ""
    stage.show(seats("n2", "n3"))
    assert asked(stage, last, first) == ""


def test_who_comes_before_has_left_by_then() -> None:
    """Spread evenly, one more in the second zone is too many, unless one of the first zone goes there as well."""
    evenly = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=OWNER.label_selector
    )
    spread: dict[str, Any] = {"topology_spread_constraints": [evenly]}
    old, first = user("old", {"cpu": "1"}, on="n1", **spread), user("first", {"cpu": "1"}, on="n2", **spread)
    zones = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}), node("n3", labels={"zone": "a"})]
    stage = Stage(*zones, node("n4", labels={"zone": "b"}), old, first, seats("n3", "n4"))
    assert asked(stage, old, first) == ""
    stage = Stage(*zones, node("n4", labels={"zone": "b"}), old, first, seats("n4", "n4"))
    assert "spread" in asked(stage, old, first)


def test_who_cannot_sit_there_does_not() -> None:
    large = user("large", {"cpu": "3"}, on="n1")
    stage = Stage(*rooms("n1", "n2"), large, OLD, seats("n2", "n2"), pod("other", {"cpu": "2"}, on="n2"))
    assert asked(stage, OLD, large) == ""
