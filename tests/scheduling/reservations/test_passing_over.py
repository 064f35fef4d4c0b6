"""Pods of an owner that take no seat: they hear why, and are scheduled like any other."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    Node,
    PodAffinity,
    PodAffinityTerm,
    Reservation,
    ReservationOwner,
    SelectorSpec,
)
from restow.scheduling.actions import seat_assignment
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Code, Cycle, Verdict
from tests.model.cluster.builders import node, pod
from tests.scheduling.core.sample_plugins import AnswersAsTold
from tests.scheduling.reservations.stage import (
    ALL,
    FITS,
    PORT,
    PROFILE,
    Stage,
    booking,
    gang,
    rooms,
    task,
    user,
)

# --- what does not match ----------------------------------------------------------------------------------------------


def test_what_does_not_match_is_told_and_scheduled_like_any_other() -> None:
    stage = Stage(*rooms("n1", "n2"), booking("r", task(1, ALL), at={0: "n1"}))
    outcome = stage.session(user("p", {"cpu": "1"}))
    assert outcome.nodes == {"p": "n2"}
    assert outcome.told["p"] == (
        "ReservationSpecNotMatch",
        "reservation default/r does not match pod default/p: it differs from task t in containers (main: requests); "
        "it is scheduled without a reservation",
    )


ELSEWHERE = "it is scheduled without a reservation"
UNNAMED = booking("r", at={0: "n1"})
UNNAMED = replace(UNNAMED, status=replace(UNNAMED.status, observed_owners=[]))


@pytest.mark.parametrize(
    "held, says",
    [
        pytest.param(booking("r"), "it is Pending", id="it has no place yet"),
        pytest.param(booking("r", phase="Waiting", at={0: "n1"}), "it is Waiting", id="its place is being left"),
        pytest.param(booking("r", expires="1970-01-01T00:00:00Z", at={0: "n1"}), "it has expired", id="over"),
        pytest.param(
            booking("r", task(2), at={0: "n1", 1: "n1"}, taken={0: "uid-x", 1: "uid-y"}),
            "none of its 2 seats is free",
            id="used up",
        ),
        pytest.param(
            UNNAMED, "its owners were changed, and its status does not name them yet", id="of others until now"
        ),
    ],
)
def test_who_has_a_reservation_that_cannot_be_used_now_hears_why(held: Reservation, says: str) -> None:
    stage = Stage(*rooms("n1", "n2"), held)
    outcome = stage.session(user("p"), pod("stranger"))
    assert set(outcome.nodes) == {"p", "stranger"}
    assert outcome.told == {"p": ("ReservationNotUsed", f"reservation default/r is not available: {says}; {ELSEWHERE}")}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(booking("a", at={0: "n1"}, migrating="uid-old"), id="made to move another pod"),
        pytest.param(booking("a", scheduler_name="other"), id="another scheduler's"),
    ],
)
def test_of_a_reservation_that_is_for_others_nobody_hears(held: Reservation) -> None:
    stage = Stage(*rooms("n1", "n2"), pod("old", on="n2"), held)
    assert stage.session(user("p")).told == {}
    stage.show(booking("z", created="2026-02-01T00:00:00Z"))
    assert "reservation default/z is not available" in stage.session(user("q")).told["q"][1]


def test_only_owners_hear_of_it_whoever_they_are_now() -> None:
    """A pod that has one of two labels is not meant."""
    both = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "web", "tier": "front"}))
    stage = Stage(*rooms("n1"), booking("r", owners=[both]))
    pods = [user("web"), user("front", labels={"app": "web", "tier": "front"}), user("other", labels={"app": "other"})]
    assert list(stage.session(*pods).told) == ["front"]
    other = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "other"}))
    stage.show(booking("r", owners=[other]))
    assert list(stage.session(*pods).told) == ["other"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_of_a_reservation_that_has_ended_nobody_hears(phase: str) -> None:
    stage = Stage(*rooms("n1"), booking("r"))
    assert list(stage.session(user("p")).told) == ["p"]
    stage.show(booking("r", phase=phase))
    assert stage.session(user("q")).told == {}


def test_of_a_reservation_that_is_gone_nobody_hears() -> None:
    stage = Stage(*rooms("n1"), booking("r"))
    stage.snapshot.remove_reservation(booking("r"))
    assert stage.session(user("p")).told == {}


def test_pods_for_whom_there_is_no_seat_left_hear_so() -> None:
    stage = Stage(*rooms("n1", "n2"), booking("r", task(1), at={0: "n1"}))
    outcome = stage.session(user("p"), user("q"))
    assert (list(outcome.seats), list(outcome.told)) == (["p"], ["q"])
    assert "its seat is not free" in outcome.told["q"][1]


def test_a_gang_hears_why_once_and_only_when_it_may_start() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2), booking("r"))
    assert stage.session(user("x", group="g")).told == {}
    outcome = stage.session(user("x", group="g"), user("y", group="g"))
    assert (set(outcome.nodes), list(outcome.told)) == ({"x", "y"}, ["x"])


def test_a_gang_that_is_too_many_for_a_template_hears_so() -> None:
    stage = Stage(*rooms("n1", "n2"), gang("g", 2), booking("r", task(1), at={0: "n1"}))
    outcome = stage.session(user("x", group="g"), user("y", group="g"))
    said = f"reservation default/r does not match: 2 pods, 1 seat is left; {ELSEWHERE}"
    assert outcome.told == {"x": ("ReservationSpecNotMatch", said)}


def test_a_gang_hears_of_the_reservation_of_any_of_its_pods() -> None:
    stage = Stage(*rooms("n1"), gang("g", 2), booking("r"))
    outcome = stage.session(user("x", group="g", labels={"app": "other"}), user("y", group="g"))
    assert "it is Pending" in outcome.told["x"][1]


def test_a_gang_hears_of_the_node_that_refuses_it_where_seats_are_too_few_anyway() -> None:
    stage = Stage(*rooms("n2"), node("n1", unschedulable=True), gang("g", 2), booking("r", at={0: "n1"}, **FITS))
    outcome = stage.session(user("x", group="g"), user("y", group="g"))
    assert set(outcome.nodes.values()) == {"n2"} and "node n1 refuses the pod" in outcome.told["x"][1]


# --- every filter is asked again --------------------------------------------------------------------------------------


def test_a_held_node_that_became_unfit_is_passed_over_and_that_is_told() -> None:
    stage = Stage(*rooms("n1", "n2"), booking("r", at={0: "n1"}))
    stage.show(node("n1", unschedulable=True))
    outcome = stage.session(user("p"))
    assert (outcome.nodes, outcome.seats) == ({"p": "n2"}, {})
    assert [str(seat) for seat in stage.snapshot.reservations.reserved_pods.names()] == ["default/r/t/0"]
    assert outcome.told["p"] == (
        "ReservationNotUsed",
        "reservation default/r is not available: node n1 refuses the pod: node(s) were unschedulable; "
        "it is scheduled without a reservation",
    )


@pytest.mark.parametrize(
    "mute",
    [
        pytest.param(AnswersAsTold(Verdict(Code.UNSCHEDULABLE)), id="before it is asked about nodes"),
        pytest.param(AnswersAsTold(refuses=["n1"]), id="about the node"),
    ],
)
def test_nobody_sits_down_where_a_plugin_refuses_it_without_a_word(mute: AnswersAsTold) -> None:
    mute.reason = ""
    profile = replace(PROFILE, engine=Engine([*PROFILE.engine.plugins, mute]))
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}), profile=profile)
    outcome = stage.session(user("p"))
    assert (outcome.nodes, list(outcome.refused)) == ({}, ["p"])


def test_another_seat_is_tried_when_one_is_unfit() -> None:
    stage = Stage(*rooms("n2"), node("n1", unschedulable=True), booking("r", task(2), at={0: "n1", 1: "n2"}))
    assert stage.session(user("p")).seats == {"p": "r/t/1"}


ROOMY = {"cpu": "16", "memory": "16Gi", "pods": "10"}


def many(count: int, *, fit: int, is_small: bool = False) -> list[Node]:
    """Nodes of which only the last ones take pods; because the others are cordoned, or too small."""
    numbers = range(count)
    if is_small:
        return [node(f"n{n:02d}", None if n < count - fit else ROOMY) for n in numbers]
    return [node(f"n{n:02d}", unschedulable=n < count - fit) for n in numbers]


@pytest.mark.parametrize("uses", [None, "r"], ids=["whoever it is", "who names it"])
@pytest.mark.parametrize("is_small", [False, True], ids=["cordoned", "too small"])
def test_a_fit_seat_is_found_however_many_unfit_ones_come_before_it(uses: str | None, is_small: bool) -> None:
    held = booking("r", task(40), at={n: f"n{n:02d}" for n in range(40)}, min_available=3, **FITS)
    stage = Stage(*many(40, fit=5, is_small=is_small), held)
    outcome = stage.session(*(user(f"p{n}", {"cpu": "8"} if is_small else {}, uses=uses) for n in range(4)))
    assert outcome.seats == {f"p{n}": f"r/t/{35 + n}" for n in range(4)}


def test_a_fit_seat_is_found_however_many_reservations_have_only_unfit_ones() -> None:
    held = [booking(f"r{n:02d}", at={0: f"n{n:02d}"}) for n in range(40)]
    stage = Stage(*many(40, fit=2), *held)
    outcome = stage.session(*(user(name) for name in "ab"))
    assert outcome.seats == {"a": "r38/t/0", "b": "r39/t/0"}


def nodes_asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The node of every call of Engine.fits from now on."""
    asked: list[str] = []
    fits = Engine.fits

    def counted_fits(engine: Engine, cycle: Cycle, node: str) -> Any:
        asked.append(node)
        return fits(engine, cycle, node)

    monkeypatch.setattr(Engine, "fits", counted_fits)
    return asked


@pytest.mark.parametrize(
    ("is_small", "tries"),
    [
        pytest.param(True, 90 + 32 + 32, id="of those that may have become fit some are tried again"),
        pytest.param(False, 2 + 1 + 1, id="of those on nodes that are not for such pods one, to say why"),
    ],
)
def test_seats_that_refused_a_pod_are_not_tried_by_all_that_are_like_it(
    monkeypatch: pytest.MonkeyPatch, is_small: bool, tries: int
) -> None:
    asked = nodes_asked(monkeypatch)
    held = booking("r", task(90), at={n: f"n{n:02d}" for n in range(90)}, **FITS)
    outcome = Stage(*many(90, fit=0, is_small=is_small), held).session(*(user(f"p{n}", {"cpu": "8"}) for n in range(3)))
    assert (outcome.seats, len(asked)) == ({}, tries)


def test_of_too_many_pods_that_find_no_seat_the_last_ones_try_only_some(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes_asked(monkeypatch)
    monkeypatch.setattr(seat_assignment, "_MANY", 90)
    held = booking("r", task(90), at={n: f"n{n:02d}" for n in range(90)}, **FITS)
    outcome = Stage(*many(90, fit=0, is_small=True), held).session(*(user(f"p{n}", {"cpu": str(n)}) for n in (7, 8)))
    assert (outcome.seats, len(asked)) == ({}, 90 + 32)


def test_where_no_node_is_for_it_a_pod_hears_why_whoever_tried_before() -> None:
    stage = Stage(*rooms("n1", unschedulable=True), booking("r", at={0: "n1"}))
    told = stage.session(user("a"), user("b")).told
    assert told["a"] == told["b"]
    assert "node n1 refuses the pod: node(s) were unschedulable" in told["a"][1]


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
def test_what_stands_in_for_a_pod_does_not_keep_it_out(fields: dict[str, Affinity | list[Container]]) -> None:
    seat, taker = task(1, {}, labels={"app": "web"}), user("p", {})
    seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, **fields)))
    stage = Stage(node("n1", labels={"kubernetes.io/hostname": "n1"}), booking("r", seat, at={0: "n1"}))
    assert stage.session(replace(taker, spec=replace(taker.spec, **fields))).seats == {"p": "r/t/0"}


@pytest.mark.parametrize(("phase", "hears"), [("Waiting", False), ("Pending", False), ("Available", True)])
def test_while_a_plan_makes_room_for_its_claim_a_pod_hears_nothing(phase: str, hears: bool) -> None:
    claim = booking("claim", at={0: "n1"}, taken={0: "uid-x"}, phase=phase)
    notes = {"restow.sh/awaits": "uid-old"}
    claim = replace(claim, metadata=replace(claim.metadata, annotations=notes))
    stage = Stage(*rooms("n1", "n2"), pod("old", on="n1"), claim)
    assert bool(stage.session(user("p")).told) is hears
