"""Using reservations: who gets which seat, who waits, and who goes elsewhere and why."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from restow.model.cluster import Snapshot
from restow.model.objects import (
    Affinity,
    Container,
    ContainerPort,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    QueueSpec,
    Reservation,
    ReservationOwner,
    SelectorSpec,
)
from restow.scheduling.decisions import Refuse
from restow.scheduling.wakeups import RESERVATION
from tests.model.cluster.builders import node, pod
from tests.scheduling.reservations.stage import Stage, booking, gang, rooms, task, user

ALL = {"cpu": "4"}
DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-web", controller=True)
FIRST = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1", controller=True)
SECOND = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-2", uid="uid-2", controller=True)
WORKLOAD = ReservationOwner(controller=ObjectReference(kind="Deployment", name="web", uid="uid-web"))
MOVING = {"owners": [WORKLOAD], "match_policy": "Fits", "migrating": "uid-old"}
FITS = {"match_policy": "Fits"}
TERMINATING = 1767225600.0  # when pods that are leaving began to


def workload(snapshot: Snapshot) -> None:
    for one in (FIRST, SECOND):
        snapshot.apply_owner(ObjectMeta(name=one.name, uid=one.uid, owner_references=[DEPLOYMENT]))


# --- by owner ---------------------------------------------------------------------------------------------------------


def test_a_pod_of_the_owner_takes_the_seat_that_nobody_else_can() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}))
    outcome = stage.session(pod("stranger", {"cpu": "1"}), user("p", ALL))
    assert (outcome.seats, list(outcome.refused)) == ({"p": "r/t/0"}, ["stranger"])


def test_one_seat_one_consumer() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(2, {"cpu": "2"}), at={0: "n1", 1: "n1"}))
    outcome = stage.session(*(user(name, {"cpu": "2"}) for name in "abc"))
    assert (outcome.seats, list(outcome.refused)) == ({"a": "r/t/0", "b": "r/t/1"}, ["c"])


def test_a_seat_that_was_consumed_never_opens_again() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}, taken={0: "uid-before"}, version=5))
    stage.snapshot.pods_seen_through("9")
    assert stage.session(user("p", ALL)).seats == {}


def test_the_oldest_reservation_is_used_first() -> None:
    days = {"c": 1, "a": 2, "b": 3}
    held = [booking(name, at={0: "n1"}, created=f"2026-01-0{day}T00:00:00Z") for name, day in days.items()]
    stage = Stage(*rooms("n1"), *held)
    assert stage.session(*(user(f"p{n}") for n in range(3))).seats == {"p0": "c/t/0", "p1": "a/t/0", "p2": "b/t/0"}


@pytest.mark.parametrize("phase", ["Pending", "Waiting", "Succeeded", "Failed"])
def test_only_available_reservations_are_used(phase: str) -> None:
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}, phase=phase))
    assert stage.session(user("p")).seats == {}


@pytest.mark.parametrize(
    ("phase", "cpu", "expected"),
    [
        pytest.param("Waiting", "2", {"p": "r/t/0"}, id="who hopes for room takes none from who was promised it"),
        pytest.param("Waiting", "2500m", {}, id="but more was not promised"),
        pytest.param("Available", "2", {}, id="what was promised to others is theirs"),
    ],
)
@pytest.mark.parametrize("created", ["2026-01-02T00:00:00Z", "2025-12-31T00:00:00Z"], ids=["newer", "older"])
def test_a_seat_is_taken_beside_room_that_others_are_leaving(
    phase: str, cpu: str, expected: dict[str, str], created: str
) -> None:
    leaving = pod("leaving", {"cpu": "1500m"}, on="n1", leaving=True)
    mine = booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, **FITS)
    other = booking("s", task(1, {"cpu": "2"}), at={0: "n1"}, owners=[WORKLOAD], created=created, phase=phase)
    stage = Stage(*rooms("n1"), leaving, mine, other)
    assert stage.session(user("p", {"cpu": cpu})).seats == expected


def test_a_reservation_whose_time_is_over_is_not_used_even_if_nobody_has_said_so_yet() -> None:
    held = booking("r", at={0: "n1"}, ttl="10s")
    stage = Stage(*rooms("n1"), held)
    stage.now = TERMINATING + 10
    assert stage.session(user("p")).seats == {}


def test_a_rolling_update_still_matches_its_controller() -> None:
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}, owners=[WORKLOAD]))
    workload(stage.snapshot)
    assert stage.session(user("p", owner=SECOND, labels={})).seats == {"p": "r/t/0"}


def test_several_owners_share_the_seats() -> None:
    named = ReservationOwner(object=ObjectReference(kind="Pod", name="b"))
    stage = Stage(*rooms("n1"), booking("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}, owners=[WORKLOAD, named]))
    workload(stage.snapshot)
    outcome = stage.session(user("a", owner=FIRST, labels={}), user("b", labels={}), user("c", labels={}))
    assert outcome.seats == {"a": "r/t/0", "b": "r/t/1"}  # although c is like b in everything but its name


def test_another_namespace_is_another_owner() -> None:
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}, namespace="other"))
    assert stage.session(user("p")).seats == {}


# --- policy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "requests", "seats"),
    [
        pytest.param("Template", {"cpu": "2000m"}, {"p": "r/t/0"}, id="the same, written otherwise"),
        pytest.param("Template", {"cpu": "1"}, {}, id="another pod than reserved"),
        pytest.param("Fits", {"cpu": "1"}, {"p": "r/t/0"}, id="a smaller one fits"),
        pytest.param("Fits", {"cpu": "4"}, {"p": "r/t/0"}, id="a larger one fits with what is free beside the seat"),
        pytest.param("Fits", {"cpu": "5"}, {}, id="too large"),
    ],
)
def test_a_template_is_compared_a_fit_is_tried(policy: str, requests, seats) -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, match_policy=policy))
    assert stage.session(user("p", requests)).seats == seats


def test_each_pod_gets_a_seat_of_its_own_task() -> None:
    held = booking("r", task(1, {"cpu": "1"}, name="a"), task(1, {"cpu": "2"}, name="b"), at={0: "n1"})
    more = replace(held.status.placements[0], task="b")
    stage = Stage(*rooms("n1"), replace(held, status=replace(held.status, placements=[*held.status.placements, more])))
    outcome = stage.session(user("large", {"cpu": "2"}), user("small", {"cpu": "1"}))
    assert outcome.seats == {"large": "r/b/0", "small": "r/a/0"}


def test_what_does_not_match_is_told_and_scheduled_like_any_other() -> None:
    stage = Stage(*rooms("n1", "n2"), booking("r", task(1, ALL), at={0: "n1"}))
    outcome = stage.session(user("p", {"cpu": "1"}))
    assert outcome.nodes == {"p": "n2"}
    assert outcome.told["p"] == (
        "ReservationSpecNotMatch",
        "reservation default/r does not match pod default/p: it differs from task t in containers; "
        "it is scheduled without a reservation",
    )


# --- every filter is asked again --------------------------------------------------------------------------------------


def test_a_held_node_that_became_unfit_is_passed_over_and_that_is_told() -> None:
    stage = Stage(*rooms("n1", "n2"), booking("r", at={0: "n1"}))
    stage.show(node("n1", unschedulable=True))
    outcome = stage.session(user("p"))
    assert (outcome.nodes, outcome.seats) == ({"p": "n2"}, {})
    assert outcome.told["p"] == (
        "ReservationNotUsed",
        "reservation default/r is not available: node n1 refuses the pod: node(s) were unschedulable; "
        "it is scheduled without a reservation",
    )


def test_another_seat_is_tried_when_one_is_unfit() -> None:
    stage = Stage(*rooms("n2"), node("n1", unschedulable=True), booking("r", task(2), at={0: "n1", 1: "n2"}))
    assert stage.session(user("p")).seats == {"p": "r/t/1"}


PORT = [Container(name="main", ports=[ContainerPort(container_port=80, host_port=80)])]
APART = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[
            PodAffinityTerm(
                topology_key="kubernetes.io/hostname", label_selector=SelectorSpec(match_labels={"app": "web"})
            )
        ]
    )
)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"containers": PORT}, id="its host ports"),
        pytest.param({"affinity": APART}, id="its anti-affinity"),
    ],
)
def test_what_stands_in_for_a_pod_does_not_keep_it_out(fields) -> None:
    seat, taker = task(1, {}, labels={"app": "web"}), user("p", {})
    seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, **fields)))
    stage = Stage(node("n1", labels={"kubernetes.io/hostname": "n1"}), booking("r", seat, at={0: "n1"}))
    assert stage.session(replace(taker, spec=replace(taker.spec, **fields))).seats == {"p": "r/t/0"}


# --- migrations -------------------------------------------------------------------------------------------------------


def moving(**fields) -> Reservation:
    return booking("restow-1", task(1, ALL, labels={"app": "web"}), at={0: "n2"}, **{**MOVING, **fields})


@pytest.mark.parametrize(
    ("mover", "seats"),
    [
        pytest.param(user("old", ALL, on="n1", owner=FIRST), {}, id="a sibling gets nothing while it runs"),
        pytest.param(user("old", ALL, on="n1", owner=FIRST, leaving=True), {"p": "restow-1/t/0"}, id="it is leaving"),
        pytest.param(None, {"p": "restow-1/t/0"}, id="it is gone"),
        pytest.param(user("old", ALL, on="n1", owner=FIRST, phase="Succeeded"), {"p": "restow-1/t/0"}, id="it is over"),
    ],
)
def test_a_migrations_seat_opens_once_the_pod_that_moves_leaves(mover: Pod | None, seats) -> None:
    stage = Stage(*rooms("n1", "n2"), moving(), *([mover] if mover else []))
    workload(stage.snapshot)
    assert stage.session(user("p", ALL, owner=FIRST)).seats == seats


def test_a_pod_that_was_never_seen_is_not_taken_for_gone() -> None:
    stage = Stage(*rooms("n1", "n2"), moving(version=20))
    workload(stage.snapshot)
    assert stage.session(user("p", ALL, owner=FIRST, version=10)).seats == {}
    stage.snapshot.pods_seen_through("20")
    assert stage.session(user("q", ALL, owner=FIRST, version=21)).seats == {"q": "restow-1/t/0"}


def test_the_reservation_of_a_migration_comes_before_older_ones() -> None:
    old = booking("older", task(1, ALL), at={0: "n1"}, owners=[WORKLOAD], created="2025-01-01T00:00:00Z")
    stage = Stage(*rooms("n1", "n2"), old, moving())
    workload(stage.snapshot)
    assert stage.session(user("p", ALL, owner=FIRST)).seats == {"p": "restow-1/t/0"}


def test_of_two_migrations_the_one_of_a_look_alike_is_preferred() -> None:
    sets = [
        booking(
            f"restow-{n}",
            task(1, {}, labels={"pod-name": f"web-{n}"}),
            at={0: f"n{n}"},
            match_policy="Fits",
            owners=[WORKLOAD],
            migrating=f"uid-old-{n}",
        )
        for n in (1, 2)
    ]
    stage = Stage(*rooms("n1", "n2"), *sets)
    workload(stage.snapshot)
    assert stage.session(user("web-2", {}, owner=FIRST, labels={"pod-name": "web-2"})).seats == {
        "web-2": "restow-2/t/0"
    }
    assert stage.session(user("web-3", {}, owner=FIRST, labels={"pod-name": "web-3"})).seats == {
        "web-3": "restow-1/t/0"
    }


def test_a_successor_that_only_its_predecessor_keeps_away_waits_and_keeps_its_seat() -> None:
    leaving = user("old", {}, on="n2", owner=FIRST, leaving=True)
    port = replace(
        task(1, {}), template=replace(task(1, {}).template, spec=replace(task().template.spec, containers=PORT))
    )
    seat = booking("r", port, at={0: "n2"}, match_policy="Fits", owners=[WORKLOAD])
    stage = Stage(*rooms("n1", "n2"), replace(leaving, spec=replace(leaving.spec, containers=PORT)), seat)
    stage.now = TERMINATING
    workload(stage.snapshot)
    successor = user("new", {}, owner=FIRST)
    successor = replace(successor, spec=replace(successor.spec, containers=PORT))
    outcome = stage.session(successor)
    assert outcome.refused == {"new": "waiting for default/old to leave: its seat default/r/t/0 on node n2 is kept"}
    assert [one.plugins for one in outcome.decisions if isinstance(one, Refuse)] == [{RESERVATION}]
    stage.snapshot.remove_pod(leaving)
    assert stage.session(successor).seats == {"new": "r/t/0"}


# --- forged -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(pod("thief", {"cpu": "1"}, seat="default/r/t/0"), id="a pending pod that claims a seat"),
        pytest.param(pod("thief", {"cpu": "1"}, labels={"app": "web2"}, seat="default/r/t/0"), id="of another owner"),
    ],
)
def test_a_forged_annotation_gives_nothing(forged: Pod) -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}))
    assert list(stage.session(forged).refused) == ["thief"]
    assert len(stage.snapshot.reservations.held()) == 1


# --- by name ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "says"),
    [
        pytest.param(None, "reservation default/r is not available: it does not exist", id="none"),
        pytest.param(
            booking("r", phase="Pending"), "reservation default/r is not available: it is Pending", id="not placed"
        ),
        pytest.param(
            booking("r", at={0: "n1"}, phase="Failed"),
            "reservation default/r is not available: it is Failed",
            id="over",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, ttl="1s"), "reservation default/r is not available: it has expired", id="expired"
        ),
        pytest.param(
            booking("r", at={0: "n1"}, taken={0: "uid-x"}),
            "reservation default/r is not available: all 1 of its seats are taken",
            id="taken",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, migrating="uid-running"),
            "reservation default/r is not available: the pod that it moves has not left yet",
            id="of a migration that has not begun",
        ),
        pytest.param(
            booking("r", at={0: "gone"}),
            "reservation default/r is not available: node gone refuses the pod: there is no such node",
            id="its node is gone",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, owners=[]),
            "reservation default/r is not for pod default/p: it names no owner",
            id="nobody's",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, owners=[WORKLOAD]),
            "reservation default/r is not for pod default/p: none of its 1 owners matches",
            id="another's",
        ),
        pytest.param(
            booking("r", task(1, {"cpu": "2"}), at={0: "n1"}),
            "reservation default/r does not match pod default/p: it differs from task t in containers",
            id="not what was reserved",
        ),
    ],
)
def test_who_names_a_reservation_waits_for_it_with_a_reason(held: Reservation | None, says: str) -> None:
    stage = Stage(*rooms("n1", "n2"), pod("running", {}, on="n2"), *([held] if held else []))
    stage.now = TERMINATING + 60
    outcome = stage.session(user("p", uses="r"))
    assert (outcome.nodes, outcome.refused, outcome.told) == ({}, {"p": says}, {})


def test_who_names_a_reservation_takes_a_seat_of_that_one() -> None:
    stage = Stage(*rooms("n1"), booking("a", at={0: "n1"}), booking("b", at={0: "n1"}))
    assert stage.session(user("p", uses="b")).seats == {"p": "b/t/0"}


def test_a_gang_may_name_it_for_all_its_pods() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2, uses="r"), booking("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}))
    outcome = stage.session(user("a", group="g"), user("b", group="g"))
    assert outcome.seats == {"a": "r/t/0", "b": "r/t/1"}


def test_a_gang_that_names_one_with_too_few_seats_waits() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2, uses="r"), booking("r", task(1), at={0: "n1"}))
    outcome = stage.session(user("a", group="g"), user("b", group="g"))
    assert set(outcome.refused.values()) == {"reservation default/r does not match: 2 pods, 1 seat is left"}


# --- gangs ------------------------------------------------------------------------------------------------------------


def test_a_gang_takes_the_seats_of_one_reservation_as_a_whole() -> None:
    small = booking("a", task(1), at={0: "n1"}, **FITS)
    large = booking("b", task(2), at={0: "n2", 1: "n2"}, **FITS, created="2026-02-01T00:00:00Z")
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), small, large)
    assert stage.session(user("x", group="g"), user("y", group="g")).seats == {"x": "b/t/0", "y": "b/t/1"}


def test_what_a_reservation_has_no_seat_for_is_placed_beside_it() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}, **FITS))
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g"))
    assert (outcome.seats, outcome.nodes) == ({"x": "r/t/0"}, {"x": "n1", "y": "n2"})


def test_more_pods_than_a_template_reserves_are_no_match_for_it() -> None:
    stage = Stage(*rooms("n1", "n2", "n3"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}))
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g"))
    assert (outcome.seats, outcome.nodes) == ({}, {"x": "n2", "y": "n3"})


def test_a_gang_takes_the_seats_of_its_own_and_leaves_those_of_some_of_it_to_them() -> None:
    held = booking("r", task(2, ALL), at={0: "n1", 1: "n2"}, **FITS)
    stage = Stage(*rooms("n1", "n2", "n3"), gang("g", 2), held)
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g", labels={"app": "worker"}))
    assert (outcome.seats, outcome.nodes) == ({"x": "r/t/0"}, {"x": "n1", "y": "n3"})


def test_a_gang_that_is_not_whole_takes_no_seat() -> None:
    held = booking("r", task(1, ALL), at={0: "n1"}, **FITS)
    stage = Stage(*rooms("n1"), gang("g", 2), held)
    outcome = stage.session(user("x", ALL, group="g"), user("y", ALL, group="g"))
    assert (outcome.seats, sorted(outcome.refused)) == ({}, ["x", "y"])
    assert len(stage.snapshot.reservations.held()) == 1


# --- queues -----------------------------------------------------------------------------------------------------------


def test_taking_a_seat_of_the_same_queue_is_charged_once() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}))
    stage.roster.apply_queue(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "4"})))
    outcome = stage.session(user("p", ALL), pod("q", {"cpu": "1"}))
    assert outcome.seats == {"p": "r/t/0"}
    assert "used 4, requested 1" in outcome.refused["q"]


def test_a_seat_of_another_queue_does_not_lift_the_limit_of_its_own() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}, queue="other"))
    stage.roster.apply_queue(Queue(metadata=ObjectMeta(name="other")))
    stage.roster.apply_queue(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    assert "queue default would exceed its capability" in stage.session(user("p", ALL)).refused["p"]


@pytest.mark.parametrize(
    ("asks", "seats"),
    [
        pytest.param({"cpu": "2"}, {"p": "r/t/0"}, id="as much as it had"),
        pytest.param({"cpu": "3"}, {}, id="more than it had"),
    ],
)
def test_who_was_moved_is_not_refused_what_it_had(asks: dict[str, str], seats: dict[str, str]) -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, migrating="uid-old", **FITS))
    stage.roster.apply_queue(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(capability={"cpu": "1"})))
    assert stage.session(user("p", asks)).seats == seats
