"""Pods and gangs that request a reservation by name: they get a seat of it, or wait with a reason."""

from __future__ import annotations

import pytest

from restow.model.objects import Pod, Reservation
from restow.scheduling.cluster_events import RESERVATION
from restow.scheduling.decisions import RefusePod
from tests.model.cluster.builders import node, pod
from tests.model.reservations.builders import (
    DEPLOYMENT_OWNER,
    FITS_POLICY,
    TERMINATING,
    WHOLE_NODE,
    pod_group,
    task,
    web_pod,
    web_reservation,
)
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes

NOT_AVAILABLE, OWNER, SPEC = "InvalidReservation", "ReservationOwnerNotMatch", "ReservationSpecNotMatch"


@pytest.mark.parametrize(
    ("held", "reason", "says"),
    [
        pytest.param(None, NOT_AVAILABLE, "is not available: it does not exist", id="none"),
        pytest.param(
            web_reservation("r", phase="Pending"), NOT_AVAILABLE, "is not available: it is Pending", id="not placed"
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, phase="Failed"),
            NOT_AVAILABLE,
            "is not available: it is Failed",
            id="over",
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, ttl="1s"),
            NOT_AVAILABLE,
            "is not available: it has expired",
            id="expired",
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, consumed={0: "uid-x"}),
            NOT_AVAILABLE,
            "is not available: its seat is not free",
            id="taken",
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, migrating="uid-running"),
            NOT_AVAILABLE,
            "is not available: its migrating pod has not left yet",
            id="of a migration that has not begun",
        ),
        pytest.param(
            web_reservation("r", at={0: "gone"}),
            NOT_AVAILABLE,
            "is not available: node gone refuses the pod: there is no such node",
            id="its node is gone",
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, owners=[]),
            OWNER,
            "is not for pod default/p: it names no owner",
            id="without owners",
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, owners=[DEPLOYMENT_OWNER]),
            OWNER,
            "is not for pod default/p: its owner does not match",
            id="another's",
        ),
        pytest.param(
            web_reservation("r", at={0: "n1"}, owners=[DEPLOYMENT_OWNER, DEPLOYMENT_OWNER]),
            OWNER,
            "is not for pod default/p: none of its 2 owners matches",
            id="that of others",
        ),
        pytest.param(
            web_reservation("r", task(1, {"cpu": "2"}), at={0: "n1"}),
            SPEC,
            "does not match pod default/p: it differs from task t in containers (main: requests)",
            id="not what was reserved",
        ),
    ],
)
def test_pod_that_requests_a_reservation_waits_for_it_with_a_reason(
    held: Reservation | None, reason: str, says: str
) -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod("running", {}, on="n2"), *([held] if held else []))
    cluster.now = TERMINATING + 60
    outcome, says = cluster.session(web_pod("p", uses="r")), f"reservation default/r {says}"
    assert (outcome.nodes, outcome.refused_pods, outcome.events) == ({}, {"p": says}, {"p": (reason, says)})


def test_pod_that_requests_a_reservation_gets_a_seat_of_it() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("a", at={0: "n1"}), web_reservation("b", at={0: "n1"}))
    assert cluster.session(web_pod("p", uses="b")).seats == {"p": "b/t/0"}


@pytest.mark.parametrize(
    "migrating_pod",
    [
        pytest.param(web_pod("old", on="n2", leaving=True), id="is leaving"),
        pytest.param(web_pod("old", on="n2", phase="Succeeded"), id="is over"),
        pytest.param(None, id="is gone"),
    ],
)
def test_pod_that_requests_a_migration_reservation_gets_its_seat_once_the_migrating_pod_leaves(
    migrating_pod: Pod | None,
) -> None:
    held = web_reservation("r", at={0: "n1"}, migrating="uid-old")
    cluster = SessionCluster(*named_nodes("n1", "n2"), held, *([migrating_pod] if migrating_pod else []))
    assert cluster.session(web_pod("p", uses="r")).seats == {"p": "r/t/0"}


def test_gang_requests_a_reservation_for_all_its_pods() -> None:
    cluster = SessionCluster(
        *named_nodes("n1"), pod_group("g", 2, uses="r"), web_reservation("r", task(3), at={0: "n1", 1: "n1", 2: "n1"})
    )
    outcome = cluster.session(web_pod("a", group="g"), web_pod("b", group="g"))
    assert outcome.seats == {"a": "r/t/0", "b": "r/t/1"}


def test_gang_waits_for_a_requested_reservation_with_too_few_seats() -> None:
    cluster = SessionCluster(
        *named_nodes("n1", "n2"), pod_group("g", 2, uses="r"), web_reservation("r", task(1), at={0: "n1"})
    )
    outcome = cluster.session(web_pod("a", group="g"), web_pod("b", group="g"))
    says = "reservation default/r does not match: 2 pods, 1 seat is left"
    assert (set(outcome.refused_pods.values()), outcome.events) == ({says}, {"a": (SPEC, says)})


def test_gang_waits_until_the_requested_reservation_has_a_fit_seat_for_each_pod() -> None:
    """Though one of them would be enough."""
    nodes = [*named_nodes("n1", "n3"), node("n2", unschedulable=True)]
    cluster = SessionCluster(*nodes, pod_group("g", 1, uses="r"), web_reservation("r", task(2), at={0: "n1", 1: "n2"}))
    outcome = cluster.session(web_pod("a", group="g"), web_pod("b", group="g"))
    says = "reservation default/r is not available: node n2 refuses the pod: node(s) were unschedulable"
    assert (outcome.nodes, outcome.refused_pods) == ({}, {"a": says, "b": says})


def test_incomplete_gang_with_a_requested_reservation_gets_no_seat() -> None:
    cluster = SessionCluster(
        *named_nodes("n1"), pod_group("g", 2, uses="r"), web_reservation("r", task(2), at={0: "n1", 1: "n1"})
    )
    outcome = cluster.session(web_pod("a", group="g"))
    assert (outcome.seats, outcome.refused_pods) == ({}, {"a": "pod group default/g needs 2 pods, 1 exist"})


TWO = {0: "n1", 1: "n1"}


def test_pods_of_a_gang_may_request_different_reservations() -> None:
    cluster = SessionCluster(
        *named_nodes("n1"),
        pod_group("g", 2),
        web_reservation("r1", task(2), at=TWO),
        web_reservation("r2", task(2), at=TWO),
    )
    outcome = cluster.session(web_pod("a", group="g", uses="r1"), web_pod("b", group="g", uses="r2"))
    assert outcome.seats == {"a": "r1/t/0", "b": "r2/t/0"}


def test_request_of_the_pod_overrides_the_request_of_its_gang() -> None:
    held = [web_reservation("r1", task(2), at=TWO), web_reservation("r2", task(1), at={0: "n1"})]
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 3, uses="r1"), *held)
    outcome = cluster.session(web_pod("a", group="g"), web_pod("b", group="g", uses="r2"), web_pod("c", group="g"))
    assert outcome.seats == {"a": "r1/t/0", "b": "r2/t/0", "c": "r1/t/1"}


@pytest.mark.parametrize(
    ("labels", "seats", "node"),
    [
        pytest.param({"app": "web"}, {"a": "r/t/0", "b": "other/t/0"}, "n2", id="another seat"),
        pytest.param({"app": "worker"}, {"a": "r/t/0"}, "n3", id="a place beside them"),
    ],
)
def test_reservation_requested_by_one_pod_of_a_gang_is_for_that_pod_only(
    labels: dict[str, str], seats: dict[str, str], node: str
) -> None:
    held = [
        web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}),
        web_reservation("other", task(1, WHOLE_NODE), at={0: "n2"}, **FITS_POLICY),
    ]
    cluster = SessionCluster(*named_nodes("n1", "n2", "n3"), pod_group("g", 2), *held)
    outcome = cluster.session(
        web_pod("a", WHOLE_NODE, group="g", uses="r"), web_pod("b", WHOLE_NODE, group="g", labels=labels)
    )
    assert (outcome.seats, outcome.nodes) == (seats, {"a": "n1", "b": node})


def test_pod_that_requests_a_seat_gets_it_before_the_rest_of_its_gang() -> None:
    cluster = SessionCluster(
        *named_nodes("n1", "n2"),
        pod_group("g", 2),
        web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}, **FITS_POLICY),
    )
    outcome = cluster.session(web_pod("a", WHOLE_NODE, group="g"), web_pod("b", WHOLE_NODE, group="g", uses="r"))
    assert (outcome.seats, outcome.nodes) == ({"b": "r/t/0"}, {"a": "n2", "b": "n1"})


NONE = "reservation default/none is not available: it does not exist"


def test_gang_starts_without_a_pod_that_waits_if_min_member_is_met() -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 2), web_reservation("r", at={0: "n1"}, **FITS_POLICY))
    outcome = cluster.session(web_pod("a", group="g"), web_pod("b", group="g", uses="none"), web_pod("c", group="g"))
    assert (outcome.seats, outcome.nodes) == ({"a": "r/t/0"}, {"a": "n1", "c": "n1"})
    assert (outcome.refused_pods, outcome.events) == ({"b": NONE}, {"b": (NOT_AVAILABLE, NONE)})


@pytest.mark.parametrize("uses", [None, "r"], ids=["without a request", "with another request"])
def test_gang_below_min_member_without_the_waiting_pod_gets_no_seat(uses: str | None) -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 2), web_reservation("r", at={0: "n1"}, **FITS_POLICY))
    outcome = cluster.session(web_pod("a", group="g", uses=uses), web_pod("b", group="g", uses="none"))
    few = "pod group default/g needs 2 pods, 2 exist and 1 of them can be placed"
    assert (outcome.nodes, outcome.refused_pods) == ({}, {"a": few, "b": NONE})
    assert len(cluster.snapshot.reservations.reserved_pods.names()) == 1


def test_of_two_pods_that_request_the_only_seat_one_waits() -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 1), web_reservation("r", at={0: "n1"}))
    outcome = cluster.session(web_pod("a", group="g", uses="r"), web_pod("b", group="g", uses="r"))
    says = "reservation default/r is not available: no seat is left for b"
    assert (outcome.seats, outcome.refused_pods) == ({"a": "r/t/0"}, {"b": says})


def test_gang_is_not_placed_without_the_seat_that_one_pod_requests() -> None:
    cluster = SessionCluster(
        *named_nodes("n1", "n2"),
        pod_group("g", 2),
        web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}),
        pod("x", on="n2"),
    )
    outcome = cluster.session(web_pod("a", WHOLE_NODE, group="g", uses="r"), web_pod("b", WHOLE_NODE, group="g"))
    assert (outcome.nodes, sorted(outcome.refused_pods)) == ({}, ["a", "b"])
    [why] = {one.plugins for one in outcome.decisions if isinstance(one, RefusePod)}
    assert {RESERVATION, "NodeResourcesFit"} <= why
    cluster.snapshot.remove_pod(pod("x", on="n2"))
    outcome = cluster.session(web_pod("a", WHOLE_NODE, group="g", uses="r"), web_pod("b", WHOLE_NODE, group="g"))
    assert (outcome.seats, outcome.nodes) == ({"a": "r/t/0"}, {"a": "n1", "b": "n2"})
