"""Pods and gangs that insist on a reservation: they get a seat of it, or wait with a reason."""

from __future__ import annotations

import pytest

from restow.model.objects import Pod, Reservation
from restow.scheduling.cluster_events import RESERVATION
from restow.scheduling.decisions import RefusePod
from tests.model.cluster.builders import node, pod
from tests.scheduling.reservations.stage import (
    ALL,
    FITS,
    TERMINATING,
    WORKLOAD,
    Stage,
    booking,
    gang,
    rooms,
    task,
    user,
)

NOT_AVAILABLE, OWNER, SPEC = "InvalidReservation", "ReservationOwnerNotMatch", "ReservationSpecNotMatch"


@pytest.mark.parametrize(
    ("held", "reason", "says"),
    [
        pytest.param(None, NOT_AVAILABLE, "is not available: it does not exist", id="none"),
        pytest.param(booking("r", phase="Pending"), NOT_AVAILABLE, "is not available: it is Pending", id="not placed"),
        pytest.param(
            booking("r", at={0: "n1"}, phase="Failed"), NOT_AVAILABLE, "is not available: it is Failed", id="over"
        ),
        pytest.param(
            booking("r", at={0: "n1"}, ttl="1s"), NOT_AVAILABLE, "is not available: it has expired", id="expired"
        ),
        pytest.param(
            booking("r", at={0: "n1"}, taken={0: "uid-x"}),
            NOT_AVAILABLE,
            "is not available: its seat is not free",
            id="taken",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, migrating="uid-running"),
            NOT_AVAILABLE,
            "is not available: its migrating pod has not left yet",
            id="of a migration that has not begun",
        ),
        pytest.param(
            booking("r", at={0: "gone"}),
            NOT_AVAILABLE,
            "is not available: node gone refuses the pod: there is no such node",
            id="its node is gone",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, owners=[]), OWNER, "is not for pod default/p: it names no owner", id="nobody's"
        ),
        pytest.param(
            booking("r", at={0: "n1"}, owners=[WORKLOAD]),
            OWNER,
            "is not for pod default/p: its owner does not match",
            id="another's",
        ),
        pytest.param(
            booking("r", at={0: "n1"}, owners=[WORKLOAD, WORKLOAD]),
            OWNER,
            "is not for pod default/p: none of its 2 owners matches",
            id="that of others",
        ),
        pytest.param(
            booking("r", task(1, {"cpu": "2"}), at={0: "n1"}),
            SPEC,
            "does not match pod default/p: it differs from task t in containers (main: requests)",
            id="not what was reserved",
        ),
    ],
)
def test_who_names_a_reservation_waits_for_it_with_a_reason(held: Reservation | None, reason: str, says: str) -> None:
    stage = Stage(*rooms("n1", "n2"), pod("running", {}, on="n2"), *([held] if held else []))
    stage.now = TERMINATING + 60
    outcome, says = stage.session(user("p", uses="r")), f"reservation default/r {says}"
    assert (outcome.nodes, outcome.refused, outcome.told) == ({}, {"p": says}, {"p": (reason, says)})


def test_who_names_a_reservation_takes_a_seat_of_that_one() -> None:
    stage = Stage(*rooms("n1"), booking("a", at={0: "n1"}), booking("b", at={0: "n1"}))
    assert stage.session(user("p", uses="b")).seats == {"p": "b/t/0"}


@pytest.mark.parametrize(
    "mover",
    [
        pytest.param(user("old", on="n2", leaving=True), id="is leaving"),
        pytest.param(user("old", on="n2", phase="Succeeded"), id="is over"),
        pytest.param(None, id="is gone"),
    ],
)
def test_who_names_the_reservation_of_a_migration_takes_its_seat_once_the_pod_that_moves(mover: Pod | None) -> None:
    held = booking("r", at={0: "n1"}, migrating="uid-old")
    stage = Stage(*rooms("n1", "n2"), held, *([mover] if mover else []))
    assert stage.session(user("p", uses="r")).seats == {"p": "r/t/0"}


def test_a_gang_may_name_it_for_all_its_pods() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2, uses="r"), booking("r", task(3), at={0: "n1", 1: "n1", 2: "n1"}))
    outcome = stage.session(user("a", group="g"), user("b", group="g"))
    assert outcome.seats == {"a": "r/t/0", "b": "r/t/1"}


def test_a_gang_that_names_one_with_too_few_seats_waits() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2, uses="r"), booking("r", task(1), at={0: "n1"}))
    outcome = stage.session(user("a", group="g"), user("b", group="g"))
    says = "reservation default/r does not match: 2 pods, 1 seat is left"
    assert (set(outcome.refused.values()), outcome.told) == ({says}, {"a": (SPEC, says)})


def test_a_gang_waits_until_there_is_a_fit_seat_for_each_of_its_pods_where_it_names_one() -> None:
    """Though one of them would be enough."""
    nodes = [*rooms("n1", "n3"), node("n2", unschedulable=True)]
    stage = Stage(*nodes, gang("g", 1, uses="r"), booking("r", task(2), at={0: "n1", 1: "n2"}))
    outcome = stage.session(user("a", group="g"), user("b", group="g"))
    says = "reservation default/r is not available: node n2 refuses the pod: node(s) were unschedulable"
    assert (outcome.nodes, outcome.refused) == ({}, {"a": says, "b": says})


def test_a_gang_that_names_one_and_is_not_all_there_takes_no_seat() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2, uses="r"), booking("r", task(2), at={0: "n1", 1: "n1"}))
    outcome = stage.session(user("a", group="g"))
    assert (outcome.seats, outcome.refused) == ({}, {"a": "pod group default/g needs 2 pods, 1 exist"})


TWO = {0: "n1", 1: "n1"}


def test_pods_of_a_gang_may_each_name_their_own() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2), booking("r1", task(2), at=TWO), booking("r2", task(2), at=TWO))
    outcome = stage.session(user("a", group="g", uses="r1"), user("b", group="g", uses="r2"))
    assert outcome.seats == {"a": "r1/t/0", "b": "r2/t/0"}


def test_what_a_pod_names_itself_comes_before_what_its_gang_names() -> None:
    held = [booking("r1", task(2), at=TWO), booking("r2", task(1), at={0: "n1"})]
    stage = Stage(*rooms("n1"), gang("g", 3, uses="r1"), *held)
    outcome = stage.session(user("a", group="g"), user("b", group="g", uses="r2"), user("c", group="g"))
    assert outcome.seats == {"a": "r1/t/0", "b": "r2/t/0", "c": "r1/t/1"}


@pytest.mark.parametrize(
    ("labels", "seats", "node"),
    [
        pytest.param({"app": "web"}, {"a": "r/t/0", "b": "other/t/0"}, "n2", id="another seat"),
        pytest.param({"app": "worker"}, {"a": "r/t/0"}, "n3", id="a place beside them"),
    ],
)
def test_what_a_pod_of_a_gang_names_is_for_nobody_else(
    labels: dict[str, str], seats: dict[str, str], node: str
) -> None:
    held = [booking("r", task(1, ALL), at={0: "n1"}), booking("other", task(1, ALL), at={0: "n2"}, **FITS)]
    stage = Stage(*rooms("n1", "n2", "n3"), gang("g", 2), *held)
    outcome = stage.session(user("a", ALL, group="g", uses="r"), user("b", ALL, group="g", labels=labels))
    assert (outcome.seats, outcome.nodes) == (seats, {"a": "n1", "b": node})


def test_who_names_a_seat_gets_it_before_others_of_its_gang_who_might_take_it() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}, **FITS))
    outcome = stage.session(user("a", ALL, group="g"), user("b", ALL, group="g", uses="r"))
    assert (outcome.seats, outcome.nodes) == ({"b": "r/t/0"}, {"a": "n2", "b": "n1"})


NONE = "reservation default/none is not available: it does not exist"


def test_a_pod_that_waits_for_what_it_names_holds_up_nobody_if_its_gang_is_enough_without_it() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2), booking("r", at={0: "n1"}, **FITS))
    outcome = stage.session(user("a", group="g"), user("b", group="g", uses="none"), user("c", group="g"))
    assert (outcome.seats, outcome.nodes) == ({"a": "r/t/0"}, {"a": "n1", "c": "n1"})
    assert (outcome.refused, outcome.told) == ({"b": NONE}, {"b": (NOT_AVAILABLE, NONE)})


@pytest.mark.parametrize("uses", [None, "r"], ids=["who names nothing", "who names another"])
def test_a_gang_that_is_not_enough_without_a_pod_that_waits_takes_no_seat(uses: str | None) -> None:
    stage = Stage(*rooms("n1"), gang("g", 2), booking("r", at={0: "n1"}, **FITS))
    outcome = stage.session(user("a", group="g", uses=uses), user("b", group="g", uses="none"))
    few = "pod group default/g needs 2 pods, 2 exist and 1 of them can be placed"
    assert (outcome.nodes, outcome.refused) == ({}, {"a": few, "b": NONE})
    assert len(stage.snapshot.reservations.reserved_pods.names()) == 1


def test_of_two_pods_that_name_the_only_seat_one_waits() -> None:
    stage = Stage(*rooms("n1"), gang("g", 1), booking("r", at={0: "n1"}))
    outcome = stage.session(user("a", group="g", uses="r"), user("b", group="g", uses="r"))
    says = "reservation default/r is not available: no seat is left for b"
    assert (outcome.seats, outcome.refused) == ({"a": "r/t/0"}, {"b": says})


def test_a_gang_is_not_placed_without_the_seat_that_one_of_it_names() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), booking("r", task(1, ALL), at={0: "n1"}), pod("x", on="n2"))
    outcome = stage.session(user("a", ALL, group="g", uses="r"), user("b", ALL, group="g"))
    assert (outcome.nodes, sorted(outcome.refused)) == ({}, ["a", "b"])
    [why] = {one.plugins for one in outcome.decisions if isinstance(one, RefusePod)}
    assert {RESERVATION, "NodeResourcesFit"} <= why
    stage.snapshot.remove_pod(pod("x", on="n2"))
    outcome = stage.session(user("a", ALL, group="g", uses="r"), user("b", ALL, group="g"))
    assert (outcome.seats, outcome.nodes) == ({"a": "r/t/0"}, {"a": "n1", "b": "n2"})
