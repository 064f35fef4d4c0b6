"""Seat assignment: which pod gets which seat, and which pod waits for one."""

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
from tests.model.reservations.builders import (
    CONTAINER_WITH_HOST_PORT,
    DEPLOYMENT_OWNER,
    FITS_POLICY,
    NEW_REPLICA_SET,
    OLD_REPLICA_SET,
    TERMINATING,
    WHOLE_NODE,
    pod_group,
    show_deployment,
    task,
    web_pod,
    web_reservation,
    with_host_port,
)
from tests.narrowing import present
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes

DEPLOYED = ObjectReference(kind="Deployment", name="web")
GANG = ObjectReference(kind="PodGroup", name="g")
MOVING = {"owners": [DEPLOYMENT_OWNER], "match_policy": "Fits", "migrating": "uid-old"}


# --- by owner ---------------------------------------------------------------------------------------------------------


def test_pod_of_the_owner_gets_the_seat_that_other_pods_cannot() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}))
    outcome = cluster.session(pod("stranger", {"cpu": "1"}), web_pod("p", WHOLE_NODE))
    assert (outcome.seats, list(outcome.refused_pods)) == ({"p": "r/t/0"}, ["stranger"])


def test_seat_has_one_consumer() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", task(2, {"cpu": "2"}), at={0: "n1", 1: "n1"}))
    outcome = cluster.session(*(web_pod(name, {"cpu": "2"}) for name in "abc"))
    assert (outcome.seats, list(outcome.refused_pods)) == ({"a": "r/t/0", "b": "r/t/1"}, ["c"])


@pytest.mark.parametrize("seen", ["1", "9"], ids=["its consumer was not seen yet", "its consumer is gone"])
def test_consumed_seat_never_opens_again(seen: str) -> None:
    cluster = SessionCluster(
        *named_nodes("n1"),
        web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, consumed={0: "uid-before"}, version=5),
    )
    cluster.snapshot.pods_seen_through(seen)
    assert cluster.session(web_pod("p", WHOLE_NODE)).seats == {}


def test_closed_seat_stays_closed_when_the_reservation_changes_before_it_is_recorded() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", at={0: "n1"}, version=1))
    cluster.snapshot.reservations.states.close(SeatName("default", "r", "t", 0))
    cluster.show(web_reservation("r", at={0: "n1"}, ttl="1h", version=2))
    assert cluster.session(web_pod("p")).seats == {}


def test_the_oldest_reservation_is_used_first() -> None:
    days = {"c": 1, "a": 2, "b": 3}
    held = [web_reservation(name, at={0: "n1"}, created=f"2026-01-0{day}T00:00:00Z") for name, day in days.items()]
    cluster = SessionCluster(*named_nodes("n1"), *held)
    assert cluster.session(*(web_pod(f"p{n}") for n in range(3))).seats == {"p0": "c/t/0", "p1": "a/t/0", "p2": "b/t/0"}


@pytest.mark.parametrize("phase", ["Pending", "Waiting", "Succeeded", "Failed"])
def test_only_available_reservations_are_used(phase: str) -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", at={0: "n1"}, phase=phase))
    assert cluster.session(web_pod("p")).seats == {}


@pytest.mark.parametrize(
    ("phase", "cpu", "expected"),
    [
        pytest.param("Waiting", "2", {"p": "r/t/0"}, id="a waiting reservation takes no room from an available one"),
        pytest.param("Waiting", "2500m", {}, id="but more was not promised"),
        pytest.param("Available", "2", {}, id="what was promised to others is theirs"),
    ],
)
@pytest.mark.parametrize("created", ["2026-01-02T00:00:00Z", "2025-12-31T00:00:00Z"], ids=["newer", "older"])
def test_seat_is_assigned_beside_room_of_terminating_pods(
    phase: str, cpu: str, expected: dict[str, str], created: str
) -> None:
    leaving = pod("leaving", {"cpu": "1500m"}, on="n1", leaving=True)
    mine = web_reservation("r", task(1, {"cpu": "2"}), at={0: "n1"}, **FITS_POLICY)
    other = web_reservation(
        "s", task(1, {"cpu": "2"}), at={0: "n1"}, owners=[DEPLOYMENT_OWNER], created=created, phase=phase
    )
    cluster = SessionCluster(*named_nodes("n1"), leaving, mine, other)
    assert cluster.session(web_pod("p", {"cpu": cpu})).seats == expected


def test_expired_reservation_is_not_used_before_its_status_says_so() -> None:
    held = web_reservation("r", at={0: "n1"}, ttl="10s")
    cluster = SessionCluster(*named_nodes("n1"), held)
    cluster.now = TERMINATING + 10
    assert cluster.session(web_pod("p")).seats == {}


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(DEPLOYMENT_OWNER, id="as a controller"),
        pytest.param(ReservationOwner(object=DEPLOYMENT_OWNER.controller), id="as an object"),
        pytest.param(replace(DEPLOYMENT_OWNER, object=ObjectReference(name="another")), id="beside another object"),
    ],
)
def test_rolling_update_still_matches_by_the_owner_chain(owner: ReservationOwner) -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", at={0: "n1"}, owners=[owner]))
    show_deployment(cluster.snapshot)
    assert cluster.session(web_pod("p", owner=NEW_REPLICA_SET, labels={})).seats == {"p": "r/t/0"}


@pytest.mark.parametrize(
    ("reference", "seats"),
    [
        pytest.param(replace(DEPLOYED, api_version="apps/v1"), {"p": "r/t/0"}, id="its own api group"),
        pytest.param(replace(DEPLOYED, api_version="example.com/v1"), {}, id="another api group"),
        pytest.param(replace(GANG, uid="uid-g"), {"p": "r/t/0"}, id="its PodGroup"),
        pytest.param(replace(GANG, uid="uid-before"), {}, id="another UID of its PodGroup"),
    ],
)
def test_every_field_of_an_owner_reference_must_match(reference: ObjectReference, seats: dict[str, str]) -> None:
    group = pod_group("g", 1)
    group = replace(group, metadata=replace(group.metadata, uid="uid-g"))
    owner = ReservationOwner(object=reference)
    cluster = SessionCluster(*named_nodes("n1"), group, web_reservation("r", at={0: "n1"}, owners=[owner]))
    show_deployment(cluster.snapshot)
    assert cluster.session(web_pod("p", owner=OLD_REPLICA_SET, group="g", uses="r", labels={})).seats == seats


def test_several_owners_share_the_seats() -> None:
    named = ReservationOwner(object=ObjectReference(kind="Pod", name="b"))
    cluster = SessionCluster(
        *named_nodes("n1"),
        web_reservation("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}, owners=[DEPLOYMENT_OWNER, named]),
    )
    show_deployment(cluster.snapshot)
    outcome = cluster.session(
        web_pod("a", owner=OLD_REPLICA_SET, labels={}), web_pod("b", labels={}), web_pod("c", labels={})
    )
    assert outcome.seats == {"a": "r/t/0", "b": "r/t/1"}  # although c is like b in everything but its name


def test_pod_named_by_an_owner_gets_the_oldest_reservation_among_alike_pods() -> None:
    by_name = ReservationOwner(object=ObjectReference(kind="Pod", name="b"))
    old = web_reservation("older", at={0: "n1"}, owners=[by_name], created="2025-01-01T00:00:00Z")
    cluster = SessionCluster(*named_nodes("n1"), old, web_reservation("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}))
    assert cluster.session(*(web_pod(name) for name in "abc")).seats == {"a": "r/t/0", "b": "older/t/0", "c": "r/t/1"}


def test_owner_of_another_namespace_does_not_match() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("other/r", at={0: "n1"}))
    assert cluster.session(web_pod("p")).seats == {}


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
def test_match_policy_compares_the_template_or_tries_the_fit(
    policy: str, requests: dict[str, str], seats: dict[str, str]
) -> None:
    cluster = SessionCluster(
        *named_nodes("n1"), web_reservation("r", task(1, {"cpu": "2"}), at={0: "n1"}, match_policy=policy)
    )
    assert cluster.session(web_pod("p", requests)).seats == seats


def test_each_pod_gets_a_seat_of_its_own_task() -> None:
    held = web_reservation("r", task(1, {"cpu": "1"}, name="a"), task(1, {"cpu": "2"}, name="b"), at={0: "n1"})
    more = replace(present(held.status.placements)[0], task="b")
    cluster = SessionCluster(
        *named_nodes("n1"),
        replace(held, status=replace(held.status, placements=[*present(held.status.placements), more])),
    )
    outcome = cluster.session(web_pod("large", {"cpu": "2"}), web_pod("small", {"cpu": "1"}))
    assert outcome.seats == {"large": "r/b/0", "small": "r/a/0"}


# --- sizes ------------------------------------------------------------------------------------------------------------

SMALL, MIDDLING, LARGE = {"cpu": "1"}, {"cpu": "2"}, {"cpu": "4"}


def seats_of(**sizes: dict[str, str]) -> list[Node | Reservation]:
    """A reservation with a seat of each of these sizes, by task; and for each a node that has no more than that."""
    held = web_reservation(
        "r", *(task(1, size, name=name) for name, size in sizes.items()), phase="Available", **FITS_POLICY
    )
    placements = [Placement(task=name, index=0, node_name=f"n-{name}") for name in sizes]
    nodes = [node(f"n-{name}", {**ROOM, **size}) for name, size in sizes.items()]
    return [*nodes, replace(held, status=replace(held.status, placements=placements))]


@pytest.mark.parametrize(("large", "small"), [("a", "b"), ("b", "a")], ids=["the large seat first", "the small one"])
@pytest.mark.parametrize(("one", "other"), [(SMALL, LARGE), (LARGE, SMALL)], ids=["small before large", "after it"])
def test_small_pod_leaves_the_large_seat_to_a_large_pod(
    large: str, small: str, one: dict[str, str], other: dict[str, str]
) -> None:
    cluster = SessionCluster(*seats_of(**{large: LARGE, small: SMALL}))
    outcome = cluster.session(web_pod("x", one), web_pod("y", other))
    mine, its = (small, large) if one is SMALL else (large, small)
    assert outcome.seats == {"x": f"r/{mine}/0", "y": f"r/{its}/0"}


def test_smallest_seat_that_is_large_enough_is_assigned_first() -> None:
    cluster = SessionCluster(*seats_of(a=LARGE, b=SMALL, c=MIDDLING))
    assert cluster.session(*(web_pod(name, MIDDLING) for name in "xy")).seats == {"x": "r/c/0", "y": "r/a/0"}


def test_alike_pods_get_the_large_seat_last() -> None:
    held = web_reservation("r", task(1, LARGE, name="a"), task(3, SMALL, name="b"), phase="Available", **FITS_POLICY)
    placements = [Placement(task="a", index=0, node_name="n1")]
    placements += [Placement(task="b", index=number, node_name="n2") for number in range(3)]
    cluster = SessionCluster(
        *named_nodes("n1", "n2"), replace(held, status=replace(held.status, placements=placements))
    )
    taken = cluster.session(*(web_pod(name, SMALL) for name in "wxyz")).seats
    assert taken == {"w": "r/b/0", "x": "r/b/1", "y": "r/b/2", "z": "r/a/0"}


def test_largest_seat_is_tried_first_when_none_is_large_enough() -> None:
    held = web_reservation("r", task(1, SMALL, name="a"), task(1, MIDDLING, name="b"), phase="Available", **FITS_POLICY)
    placements = [Placement(task=name, index=0, node_name="n1") for name in "ab"]
    cluster = SessionCluster(*named_nodes("n1"), replace(held, status=replace(held.status, placements=placements)))
    assert cluster.session(web_pod("p", {"cpu": "3"})).seats == {"p": "r/b/0"}


@pytest.mark.parametrize("uses", [None, "r"], ids=["by owner", "by name"])
@pytest.mark.parametrize("order", [(SMALL, LARGE, MIDDLING), (LARGE, MIDDLING, SMALL)], ids=["mixed", "large first"])
def test_gang_gets_the_seats_that_were_made_for_it(uses: str | None, order: tuple[dict[str, str], ...]) -> None:
    cluster = SessionCluster(*seats_of(a=LARGE, b=SMALL, c=MIDDLING), pod_group("g", 3, uses=uses))
    outcome = cluster.session(*(web_pod(name, size, group="g") for name, size in zip("xyz", order, strict=True)))
    made = {"1": "r/b/0", "2": "r/c/0", "4": "r/a/0"}
    assert outcome.seats == {name: made[size["cpu"]] for name, size in zip("xyz", order, strict=True)}


def test_large_pods_of_a_gang_get_seats_before_small_ones_are_placed_beside() -> None:
    cluster = SessionCluster(*seats_of(a=LARGE, b=SMALL), *named_nodes("n1"), pod_group("g", 4))
    sizes = {"w": {"cpu": "3"}, "x": SMALL, "y": SMALL, "z": LARGE}
    outcome = cluster.session(*(web_pod(name, size, group="g") for name, size in sizes.items()))
    assert (outcome.seats, outcome.nodes["w"], len(outcome.nodes)) == ({"z": "r/a/0", "x": "r/b/0"}, "n1", 4)


# --- migrations -------------------------------------------------------------------------------------------------------


def moving(**fields: Any) -> Reservation:
    return web_reservation("restow-1", task(1, WHOLE_NODE, labels={"app": "web"}), at={0: "n2"}, **{**MOVING, **fields})


@pytest.mark.parametrize(
    ("migrating", "seats"),
    [
        pytest.param(
            web_pod("old", WHOLE_NODE, on="n1", owner=OLD_REPLICA_SET), {}, id="a sibling gets nothing while it runs"
        ),
        pytest.param(
            web_pod("old", WHOLE_NODE, on="n1", owner=OLD_REPLICA_SET, leaving=True),
            {"p": "restow-1/t/0"},
            id="it is leaving",
        ),
        pytest.param(None, {"p": "restow-1/t/0"}, id="it is gone"),
        pytest.param(
            web_pod("old", WHOLE_NODE, on="n1", owner=OLD_REPLICA_SET, phase="Succeeded"),
            {"p": "restow-1/t/0"},
            id="it is over",
        ),
    ],
)
def test_seat_of_a_migration_opens_once_the_migrating_pod_leaves(migrating: Pod | None, seats: dict[str, str]) -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), moving(), *([migrating] if migrating else []))
    show_deployment(cluster.snapshot)
    assert cluster.session(web_pod("p", WHOLE_NODE, owner=OLD_REPLICA_SET)).seats == seats


def test_migrating_pod_that_was_never_seen_does_not_count_as_gone() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), moving(version=20))
    show_deployment(cluster.snapshot)
    assert cluster.session(web_pod("p", WHOLE_NODE, owner=OLD_REPLICA_SET, version=10)).seats == {}
    cluster.snapshot.pods_seen_through("20")
    assert cluster.session(web_pod("q", WHOLE_NODE, owner=OLD_REPLICA_SET, version=21)).seats == {"q": "restow-1/t/0"}


def test_reservation_of_a_migration_is_used_before_older_ones() -> None:
    old = web_reservation(
        "older", task(1, WHOLE_NODE), at={0: "n1"}, owners=[DEPLOYMENT_OWNER], created="2025-01-01T00:00:00Z"
    )
    cluster = SessionCluster(*named_nodes("n1", "n2"), old, moving())
    show_deployment(cluster.snapshot)
    assert cluster.session(web_pod("p", WHOLE_NODE, owner=OLD_REPLICA_SET)).seats == {"p": "restow-1/t/0"}


def test_migration_of_a_pod_with_the_same_labels_is_preferred() -> None:
    sets = [
        web_reservation(
            f"restow-{n}",
            task(1, {}, labels={"pod-name": f"web-{n}"}),
            at={0: f"n{n}"},
            match_policy="Fits",
            owners=[DEPLOYMENT_OWNER],
            migrating=f"uid-old-{n}",
        )
        for n in (1, 2)
    ]
    cluster = SessionCluster(*named_nodes("n1", "n2"), *sets)
    show_deployment(cluster.snapshot)
    assert cluster.session(web_pod("web-2", {}, owner=OLD_REPLICA_SET, labels={"pod-name": "web-2"})).seats == {
        "web-2": "restow-2/t/0"
    }
    assert cluster.session(web_pod("web-3", {}, owner=OLD_REPLICA_SET, labels={"pod-name": "web-3"})).seats == {
        "web-3": "restow-1/t/0"
    }


def test_successor_blocked_only_by_its_predecessor_waits_and_keeps_its_seat() -> None:
    leaving = web_pod("old", {}, on="n2", owner=OLD_REPLICA_SET, leaving=True)
    port = replace(
        task(1, {}),
        template=replace(task(1, {}).template, spec=replace(task().template.spec, containers=CONTAINER_WITH_HOST_PORT)),
    )
    seat = web_reservation("r", port, at={0: "n2"}, match_policy="Fits", owners=[DEPLOYMENT_OWNER])
    cluster = SessionCluster(*named_nodes("n1", "n2"), with_host_port(leaving), seat)
    cluster.now = TERMINATING
    show_deployment(cluster.snapshot)
    successor = with_host_port(web_pod("new", {}, owner=OLD_REPLICA_SET))
    outcome = cluster.session(successor)
    assert outcome.refused_pods == {
        "new": "waiting for default/old to leave: its seat default/r/t/0 on node n2 is kept"
    }
    assert [one.plugins for one in outcome.decisions if isinstance(one, RefusePod)] == [{RESERVATION}]
    cluster.snapshot.remove_pod(leaving)
    assert cluster.session(successor).seats == {"new": "r/t/0"}


@pytest.mark.parametrize(
    ("owner", "migrating", "cordoned", "waits"),
    [
        pytest.param(OLD_REPLICA_SET, None, False, True, id="one of the same owner"),
        pytest.param(None, "uid-old", False, True, id="the migrating pod, whatever its owner is by now"),
        pytest.param(None, None, False, False, id="but not a stranger"),
        pytest.param(OLD_REPLICA_SET, None, True, False, id="nor where something else is in the way as well"),
    ],
)
def test_pod_waits_only_for_its_own_predecessor(
    owner: OwnerReference | None, migrating: str | None, cordoned: bool, waits: bool
) -> None:
    seat = task(1, {})
    seat = replace(
        seat, template=replace(seat.template, spec=replace(seat.template.spec, containers=CONTAINER_WITH_HOST_PORT))
    )
    held = web_reservation("r", seat, at={0: "n2"}, match_policy="Fits", owners=[DEPLOYMENT_OWNER], migrating=migrating)
    old = with_host_port(web_pod("old", {}, on="n2", owner=owner, leaving=True))
    cluster = SessionCluster(*named_nodes("n1"), node("n2", unschedulable=cordoned), old, held)
    cluster.now = TERMINATING
    show_deployment(cluster.snapshot)
    outcome = cluster.session(with_host_port(web_pod("new", {}, owner=OLD_REPLICA_SET)))
    assert (list(outcome.refused_pods), outcome.nodes) == ((["new"], {}) if waits else ([], {"new": "n1"}))


# --- forged -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(pod("thief", {"cpu": "1"}, seat="default/r/t/0"), id="a pending pod that claims a seat"),
        pytest.param(pod("thief", {"cpu": "1"}, labels={"app": "web2"}, seat="default/r/t/0"), id="of another owner"),
    ],
)
def test_forged_annotation_gives_no_seat(forged: Pod) -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}))
    assert list(cluster.session(forged).refused_pods) == ["thief"]
    assert len(cluster.snapshot.reservations.reserved_pods.names()) == 1
