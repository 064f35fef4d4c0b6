"""Using reservations: who gets which seat, and who waits for one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Node,
    ObjectReference,
    OwnerReference,
    Placement,
    Pod,
    Reservation,
    ReservationOwner,
)
from restow.model.reservations.seat_name import SeatName
from restow.scheduling.cluster_events import RESERVATION
from restow.scheduling.decisions import RefusePod
from tests.model.cluster.builders import ROOM, node, pod
from tests.narrowing import present
from tests.scheduling.reservations.stage import (
    ALL,
    FIRST,
    FITS,
    PORT,
    SECOND,
    TERMINATING,
    WORKLOAD,
    Stage,
    at_port,
    booking,
    gang,
    rooms,
    task,
    user,
    workload,
)

DEPLOYED = ObjectReference(kind="Deployment", name="web")
GANG = ObjectReference(kind="PodGroup", name="g")
MOVING = {"owners": [WORKLOAD], "match_policy": "Fits", "migrating": "uid-old"}


# --- by owner ---------------------------------------------------------------------------------------------------------


def test_a_pod_of_the_owner_takes_the_seat_that_nobody_else_can() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}))
    outcome = stage.session(pod("stranger", {"cpu": "1"}), user("p", ALL))
    assert (outcome.seats, list(outcome.refused)) == ({"p": "r/t/0"}, ["stranger"])


def test_one_seat_one_consumer() -> None:
    stage = Stage(*rooms("n1"), booking("r", task(2, {"cpu": "2"}), at={0: "n1", 1: "n1"}))
    outcome = stage.session(*(user(name, {"cpu": "2"}) for name in "abc"))
    assert (outcome.seats, list(outcome.refused)) == ({"a": "r/t/0", "b": "r/t/1"}, ["c"])


@pytest.mark.parametrize("seen", ["1", "9"], ids=["whoever took it was not seen yet", "whoever took it is gone"])
def test_a_seat_that_was_consumed_never_opens_again(seen: str) -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, ALL), at={0: "n1"}, taken={0: "uid-before"}, version=5))
    stage.snapshot.pods_seen_through(seen)
    assert stage.session(user("p", ALL)).seats == {}


def test_a_seat_that_was_taken_and_left_stays_shut_though_its_reservation_is_changed_before_that_is_marked() -> None:
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}, version=1))
    stage.snapshot.reservations.states.close(SeatName("default", "r", "t", 0))
    stage.show(booking("r", at={0: "n1"}, ttl="1h", version=2))
    assert stage.session(user("p")).seats == {}


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


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(WORKLOAD, id="as a controller"),
        pytest.param(ReservationOwner(object=WORKLOAD.controller), id="as an object"),
        pytest.param(replace(WORKLOAD, object=ObjectReference(name="another")), id="beside another object"),
    ],
)
def test_a_rolling_update_still_matches_whoever_owns_its_owner(owner: ReservationOwner) -> None:
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}, owners=[owner]))
    workload(stage.snapshot)
    assert stage.session(user("p", owner=SECOND, labels={})).seats == {"p": "r/t/0"}


@pytest.mark.parametrize(
    ("reference", "seats"),
    [
        pytest.param(replace(DEPLOYED, api_version="apps/v1"), {"p": "r/t/0"}, id="its own api group"),
        pytest.param(replace(DEPLOYED, api_version="example.com/v1"), {}, id="another api group"),
        pytest.param(replace(GANG, uid="uid-g"), {"p": "r/t/0"}, id="its PodGroup"),
        pytest.param(replace(GANG, uid="uid-before"), {}, id="another life of its PodGroup"),
    ],
)
def test_an_owner_is_whom_every_part_of_the_reference_names(reference: ObjectReference, seats: dict[str, str]) -> None:
    group = gang("g", 1)
    group = replace(group, metadata=replace(group.metadata, uid="uid-g"))
    owner = ReservationOwner(object=reference)
    stage = Stage(*rooms("n1"), group, booking("r", at={0: "n1"}, owners=[owner]))
    workload(stage.snapshot)
    assert stage.session(user("p", owner=FIRST, group="g", uses="r", labels={})).seats == seats


def test_several_owners_share_the_seats() -> None:
    named = ReservationOwner(object=ObjectReference(kind="Pod", name="b"))
    stage = Stage(*rooms("n1"), booking("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}, owners=[WORKLOAD, named]))
    workload(stage.snapshot)
    outcome = stage.session(user("a", owner=FIRST, labels={}), user("b", labels={}), user("c", labels={}))
    assert outcome.seats == {"a": "r/t/0", "b": "r/t/1"}  # although c is like b in everything but its name


def test_who_is_meant_by_name_takes_the_oldest_even_among_others_that_are_like_it() -> None:
    by_name = ReservationOwner(object=ObjectReference(kind="Pod", name="b"))
    old = booking("older", at={0: "n1"}, owners=[by_name], created="2025-01-01T00:00:00Z")
    stage = Stage(*rooms("n1"), old, booking("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}))
    assert stage.session(*(user(name) for name in "abc")).seats == {"a": "r/t/0", "b": "older/t/0", "c": "r/t/1"}


def test_another_namespace_is_another_owner() -> None:
    stage = Stage(*rooms("n1"), booking("other/r", at={0: "n1"}))
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
def test_a_template_is_compared_a_fit_is_tried(policy: str, requests: dict[str, str], seats: dict[str, str]) -> None:
    stage = Stage(*rooms("n1"), booking("r", task(1, {"cpu": "2"}), at={0: "n1"}, match_policy=policy))
    assert stage.session(user("p", requests)).seats == seats


def test_each_pod_gets_a_seat_of_its_own_task() -> None:
    held = booking("r", task(1, {"cpu": "1"}, name="a"), task(1, {"cpu": "2"}, name="b"), at={0: "n1"})
    more = replace(present(held.status.placements)[0], task="b")
    stage = Stage(
        *rooms("n1"), replace(held, status=replace(held.status, placements=[*present(held.status.placements), more]))
    )
    outcome = stage.session(user("large", {"cpu": "2"}), user("small", {"cpu": "1"}))
    assert outcome.seats == {"large": "r/b/0", "small": "r/a/0"}


# --- sizes ------------------------------------------------------------------------------------------------------------

SMALL, MIDDLING, LARGE = {"cpu": "1"}, {"cpu": "2"}, {"cpu": "4"}


def seats_of(**sizes: dict[str, str]) -> list[Node | Reservation]:
    """A reservation with a seat of each of these sizes, by task; and for each a node that has no more than that."""
    held = booking("r", *(task(1, size, name=name) for name, size in sizes.items()), phase="Available", **FITS)
    placements = [Placement(task=name, index=0, node_name=f"n-{name}") for name in sizes]
    nodes = [node(f"n-{name}", {**ROOM, **size}) for name, size in sizes.items()]
    return [*nodes, replace(held, status=replace(held.status, placements=placements))]


@pytest.mark.parametrize(("large", "small"), [("a", "b"), ("b", "a")], ids=["the large seat first", "the small one"])
@pytest.mark.parametrize(("one", "other"), [(SMALL, LARGE), (LARGE, SMALL)], ids=["small before large", "after it"])
def test_a_small_pod_leaves_the_large_seat_to_a_large_one(
    large: str, small: str, one: dict[str, str], other: dict[str, str]
) -> None:
    stage = Stage(*seats_of(**{large: LARGE, small: SMALL}))
    outcome = stage.session(user("x", one), user("y", other))
    mine, its = (small, large) if one is SMALL else (large, small)
    assert outcome.seats == {"x": f"r/{mine}/0", "y": f"r/{its}/0"}


def test_the_smallest_seat_that_is_large_enough_is_taken_then_the_next() -> None:
    stage = Stage(*seats_of(a=LARGE, b=SMALL, c=MIDDLING))
    assert stage.session(*(user(name, MIDDLING) for name in "xy")).seats == {"x": "r/c/0", "y": "r/a/0"}


def test_pods_that_are_alike_leave_the_large_seat_for_last() -> None:
    held = booking("r", task(1, LARGE, name="a"), task(3, SMALL, name="b"), phase="Available", **FITS)
    placements = [Placement(task="a", index=0, node_name="n1")]
    placements += [Placement(task="b", index=number, node_name="n2") for number in range(3)]
    stage = Stage(*rooms("n1", "n2"), replace(held, status=replace(held.status, placements=placements)))
    taken = stage.session(*(user(name, SMALL) for name in "wxyz")).seats
    assert taken == {"w": "r/b/0", "x": "r/b/1", "y": "r/b/2", "z": "r/a/0"}


def test_where_no_seat_is_large_enough_the_largest_is_tried_first() -> None:
    held = booking("r", task(1, SMALL, name="a"), task(1, MIDDLING, name="b"), phase="Available", **FITS)
    placements = [Placement(task=name, index=0, node_name="n1") for name in "ab"]
    stage = Stage(*rooms("n1"), replace(held, status=replace(held.status, placements=placements)))
    assert stage.session(user("p", {"cpu": "3"})).seats == {"p": "r/b/0"}


@pytest.mark.parametrize("uses", [None, "r"], ids=["whoever it is", "who names it"])
@pytest.mark.parametrize("order", [(SMALL, LARGE, MIDDLING), (LARGE, MIDDLING, SMALL)], ids=["mixed", "large first"])
def test_a_gang_takes_the_seats_that_were_made_for_it(uses: str | None, order: tuple[dict[str, str], ...]) -> None:
    stage = Stage(*seats_of(a=LARGE, b=SMALL, c=MIDDLING), gang("g", 3, uses=uses))
    outcome = stage.session(*(user(name, size, group="g") for name, size in zip("xyz", order, strict=True)))
    made = {"1": "r/b/0", "2": "r/c/0", "4": "r/a/0"}
    assert outcome.seats == {name: made[size["cpu"]] for name, size in zip("xyz", order, strict=True)}


def test_the_large_pods_of_a_gang_have_their_seats_before_the_others_are_placed_beside_them() -> None:
    stage = Stage(*seats_of(a=LARGE, b=SMALL), *rooms("n1"), gang("g", 4))
    sizes = {"w": {"cpu": "3"}, "x": SMALL, "y": SMALL, "z": LARGE}
    outcome = stage.session(*(user(name, size, group="g") for name, size in sizes.items()))
    assert (outcome.seats, outcome.nodes["w"], len(outcome.nodes)) == ({"z": "r/a/0", "x": "r/b/0"}, "n1", 4)


# --- migrations -------------------------------------------------------------------------------------------------------


def moving(**fields: Any) -> Reservation:
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
def test_a_migrations_seat_opens_once_the_pod_that_moves_leaves(mover: Pod | None, seats: dict[str, str]) -> None:
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
    stage = Stage(*rooms("n1", "n2"), at_port(leaving), seat)
    stage.now = TERMINATING
    workload(stage.snapshot)
    successor = at_port(user("new", {}, owner=FIRST))
    outcome = stage.session(successor)
    assert outcome.refused == {"new": "waiting for default/old to leave: its seat default/r/t/0 on node n2 is kept"}
    assert [one.plugins for one in outcome.decisions if isinstance(one, RefusePod)] == [{RESERVATION}]
    stage.snapshot.remove_pod(leaving)
    assert stage.session(successor).seats == {"new": "r/t/0"}


@pytest.mark.parametrize(
    ("owner", "migrating", "cordoned", "waits"),
    [
        pytest.param(FIRST, None, False, True, id="one of the same owner"),
        pytest.param(None, "uid-old", False, True, id="whom the seat was made to move, whoever owns it by now"),
        pytest.param(None, None, False, False, id="but not a stranger"),
        pytest.param(FIRST, None, True, False, id="nor where something else is in the way as well"),
    ],
)
def test_who_is_waited_for(owner: OwnerReference | None, migrating: str | None, cordoned: bool, waits: bool) -> None:
    seat = task(1, {})
    seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, containers=PORT)))
    held = booking("r", seat, at={0: "n2"}, match_policy="Fits", owners=[WORKLOAD], migrating=migrating)
    old = at_port(user("old", {}, on="n2", owner=owner, leaving=True))
    stage = Stage(*rooms("n1"), node("n2", unschedulable=cordoned), old, held)
    stage.now = TERMINATING
    workload(stage.snapshot)
    outcome = stage.session(at_port(user("new", {}, owner=FIRST)))
    assert (list(outcome.refused), outcome.nodes) == ((["new"], {}) if waits else ([], {"new": "n1"}))


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
    assert len(stage.snapshot.reservations.reserved_pods.names()) == 1
