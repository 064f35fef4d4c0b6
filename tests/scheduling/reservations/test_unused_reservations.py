"""Pods of an owner that get no seat: an event says why, and they are scheduled like other pods."""

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
from tests.model.reservations.builders import (
    CONTAINER_WITH_HOST_PORT,
    FITS_POLICY,
    WHOLE_NODE,
    pod_group,
    task,
    web_pod,
    web_reservation,
)
from tests.scheduling.core.sample_plugins import AnswersAsTold
from tests.scheduling.reservations.session_cluster import PROFILE, SessionCluster, named_nodes

# --- what does not match ----------------------------------------------------------------------------------------------


def test_pod_without_a_matching_seat_is_scheduled_with_an_event() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), web_reservation("r", task(1, WHOLE_NODE), at={0: "n1"}))
    outcome = cluster.session(web_pod("p", {"cpu": "1"}))
    assert outcome.nodes == {"p": "n2"}
    assert outcome.events["p"] == (
        "ReservationSpecNotMatch",
        "reservation default/r does not match pod default/p: it differs from task t in containers (main: requests); "
        "it is scheduled without a reservation",
    )


ELSEWHERE = "it is scheduled without a reservation"
UNNAMED = web_reservation("r", at={0: "n1"})
UNNAMED = replace(UNNAMED, status=replace(UNNAMED.status, observed_owners=[]))


@pytest.mark.parametrize(
    "held, says",
    [
        pytest.param(web_reservation("r"), "it is Pending", id="it has no place yet"),
        pytest.param(
            web_reservation("r", phase="Waiting", at={0: "n1"}), "it is Waiting", id="its place is being left"
        ),
        pytest.param(web_reservation("r", expires="1970-01-01T00:00:00Z", at={0: "n1"}), "it has expired", id="over"),
        pytest.param(
            web_reservation("r", task(2), at={0: "n1", 1: "n1"}, consumed={0: "uid-x", 1: "uid-y"}),
            "none of its 2 seats is free",
            id="used up",
        ),
        pytest.param(
            UNNAMED, "its owners were changed, and its status does not name them yet", id="of others until now"
        ),
    ],
)
def test_pod_of_an_unusable_reservation_gets_an_event_with_the_reason(held: Reservation, says: str) -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), held)
    outcome = cluster.session(web_pod("p"), pod("stranger"))
    assert set(outcome.nodes) == {"p", "stranger"}
    assert outcome.events == {
        "p": ("ReservationNotUsed", f"reservation default/r is not available: {says}; {ELSEWHERE}")
    }


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(web_reservation("a", at={0: "n1"}, migrating="uid-old"), id="made to move another pod"),
        pytest.param(web_reservation("a", scheduler_name="other"), id="another scheduler's"),
    ],
)
def test_reservation_of_other_owners_causes_no_event(held: Reservation) -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod("old", on="n2"), held)
    assert cluster.session(web_pod("p")).events == {}
    cluster.show(web_reservation("z", created="2026-02-01T00:00:00Z"))
    assert "reservation default/z is not available" in cluster.session(web_pod("q")).events["q"][1]


def test_only_pods_of_current_owners_get_an_event() -> None:
    """A pod that has one of two labels is not meant."""
    both = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "web", "tier": "front"}))
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", owners=[both]))
    pods = [
        web_pod("web"),
        web_pod("front", labels={"app": "web", "tier": "front"}),
        web_pod("other", labels={"app": "other"}),
    ]
    assert list(cluster.session(*pods).events) == ["front"]
    other = ReservationOwner(label_selector=SelectorSpec(match_labels={"app": "other"}))
    cluster.show(web_reservation("r", owners=[other]))
    assert list(cluster.session(*pods).events) == ["other"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_reservation_causes_no_event(phase: str) -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r"))
    assert list(cluster.session(web_pod("p")).events) == ["p"]
    cluster.show(web_reservation("r", phase=phase))
    assert cluster.session(web_pod("q")).events == {}


def test_deleted_reservation_causes_no_event() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r"))
    cluster.snapshot.remove_reservation(web_reservation("r"))
    assert cluster.session(web_pod("p")).events == {}


def test_pods_without_a_free_seat_get_an_event() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), web_reservation("r", task(1), at={0: "n1"}))
    outcome = cluster.session(web_pod("p"), web_pod("q"))
    assert (list(outcome.seats), list(outcome.events)) == (["p"], ["q"])
    assert "its seat is not free" in outcome.events["q"][1]


def test_gang_gets_one_event_and_only_when_it_may_start() -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 2), web_reservation("r"))
    assert cluster.session(web_pod("x", group="g")).events == {}
    outcome = cluster.session(web_pod("x", group="g"), web_pod("y", group="g"))
    assert (set(outcome.nodes), list(outcome.events)) == ({"x", "y"}, ["x"])


def test_gang_with_too_many_pods_for_a_template_gets_an_event() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod_group("g", 2), web_reservation("r", task(1), at={0: "n1"}))
    outcome = cluster.session(web_pod("x", group="g"), web_pod("y", group="g"))
    said = f"reservation default/r does not match: 2 pods, 1 seat is left; {ELSEWHERE}"
    assert outcome.events == {"x": ("ReservationSpecNotMatch", said)}


def test_gang_gets_an_event_about_the_reservation_of_any_of_its_pods() -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod_group("g", 2), web_reservation("r"))
    outcome = cluster.session(web_pod("x", group="g", labels={"app": "other"}), web_pod("y", group="g"))
    assert "it is Pending" in outcome.events["x"][1]


def test_gang_with_too_few_seats_gets_the_refusal_of_the_node() -> None:
    cluster = SessionCluster(
        *named_nodes("n2"),
        node("n1", unschedulable=True),
        pod_group("g", 2),
        web_reservation("r", at={0: "n1"}, **FITS_POLICY),
    )
    outcome = cluster.session(web_pod("x", group="g"), web_pod("y", group="g"))
    assert set(outcome.nodes.values()) == {"n2"} and "node n1 refuses the pod" in outcome.events["x"][1]


# --- every filter is asked again --------------------------------------------------------------------------------------


def test_seat_on_an_unfit_node_is_skipped_with_an_event() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), web_reservation("r", at={0: "n1"}))
    cluster.show(node("n1", unschedulable=True))
    outcome = cluster.session(web_pod("p"))
    assert (outcome.nodes, outcome.seats) == ({"p": "n2"}, {})
    assert [str(seat) for seat in cluster.snapshot.reservations.reserved_pods.names()] == ["default/r/t/0"]
    assert outcome.events["p"] == (
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
def test_seat_that_a_plugin_refuses_without_a_reason_is_not_assigned(mute: AnswersAsTold) -> None:
    mute.reason = ""
    profile = replace(PROFILE, engine=Engine([*PROFILE.engine.plugins, mute]))
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", at={0: "n1"}), profile=profile)
    outcome = cluster.session(web_pod("p"))
    assert (outcome.nodes, list(outcome.refused_pods)) == ({}, ["p"])


def test_another_seat_is_tried_when_one_is_unfit() -> None:
    cluster = SessionCluster(
        *named_nodes("n2"), node("n1", unschedulable=True), web_reservation("r", task(2), at={0: "n1", 1: "n2"})
    )
    assert cluster.session(web_pod("p")).seats == {"p": "r/t/1"}


ROOMY = {"cpu": "16", "memory": "16Gi", "pods": "10"}


def many(count: int, *, fit: int, is_small: bool = False) -> list[Node]:
    """Nodes of which only the last ones take pods; because the others are cordoned, or too small."""
    numbers = range(count)
    if is_small:
        return [node(f"n{n:02d}", None if n < count - fit else ROOMY) for n in numbers]
    return [node(f"n{n:02d}", unschedulable=n < count - fit) for n in numbers]


@pytest.mark.parametrize("uses", [None, "r"], ids=["by owner", "by name"])
@pytest.mark.parametrize("is_small", [False, True], ids=["cordoned", "too small"])
def test_fit_seat_is_found_behind_many_unfit_ones(uses: str | None, is_small: bool) -> None:
    held = web_reservation("r", task(40), at={n: f"n{n:02d}" for n in range(40)}, min_available=3, **FITS_POLICY)
    cluster = SessionCluster(*many(40, fit=5, is_small=is_small), held)
    outcome = cluster.session(*(web_pod(f"p{n}", {"cpu": "8"} if is_small else {}, uses=uses) for n in range(4)))
    assert outcome.seats == {f"p{n}": f"r/t/{35 + n}" for n in range(4)}


def test_fit_seat_is_found_behind_many_unfit_reservations() -> None:
    held = [web_reservation(f"r{n:02d}", at={0: f"n{n:02d}"}) for n in range(40)]
    cluster = SessionCluster(*many(40, fit=2), *held)
    outcome = cluster.session(*(web_pod(name) for name in "ab"))
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
def test_seats_that_refused_a_pod_are_not_tried_for_each_alike_pod(
    monkeypatch: pytest.MonkeyPatch, is_small: bool, tries: int
) -> None:
    asked = nodes_asked(monkeypatch)
    held = web_reservation("r", task(90), at={n: f"n{n:02d}" for n in range(90)}, **FITS_POLICY)
    outcome = SessionCluster(*many(90, fit=0, is_small=is_small), held).session(
        *(web_pod(f"p{n}", {"cpu": "8"}) for n in range(3))
    )
    assert (outcome.seats, len(asked)) == ({}, tries)


def test_tries_are_limited_when_many_pods_find_no_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes_asked(monkeypatch)
    monkeypatch.setattr(seat_assignment, "_MANY", 90)
    held = web_reservation("r", task(90), at={n: f"n{n:02d}" for n in range(90)}, **FITS_POLICY)
    outcome = SessionCluster(*many(90, fit=0, is_small=True), held).session(
        *(web_pod(f"p{n}", {"cpu": str(n)}) for n in (7, 8))
    )
    assert (outcome.seats, len(asked)) == ({}, 90 + 32)


def test_pod_without_an_eligible_node_gets_the_reason_whatever_was_tried_before() -> None:
    cluster = SessionCluster(*named_nodes("n1", unschedulable=True), web_reservation("r", at={0: "n1"}))
    events = cluster.session(web_pod("a"), web_pod("b")).events
    assert events["a"] == events["b"]
    assert "node n1 refuses the pod: node(s) were unschedulable" in events["a"][1]


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
        pytest.param({"containers": CONTAINER_WITH_HOST_PORT}, id="its host ports"),
        pytest.param({"affinity": APART}, id="its anti-affinity"),
    ],
)
def test_reserved_pod_does_not_keep_the_pod_out_of_its_seat(fields: dict[str, Affinity | list[Container]]) -> None:
    seat, coming_pod = task(1, {}, labels={"app": "web"}), web_pod("p", {})
    seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, **fields)))
    cluster = SessionCluster(
        node("n1", labels={"kubernetes.io/hostname": "n1"}), web_reservation("r", seat, at={0: "n1"})
    )
    assert cluster.session(replace(coming_pod, spec=replace(coming_pod.spec, **fields))).seats == {"p": "r/t/0"}


@pytest.mark.parametrize(("phase", "has_event"), [("Waiting", False), ("Pending", False), ("Available", True)])
def test_reservation_that_a_plan_makes_room_for_causes_no_event(phase: str, has_event: bool) -> None:
    claim = web_reservation("claim", at={0: "n1"}, consumed={0: "uid-x"}, phase=phase)
    notes = {"restow.sh/awaits": "uid-old"}
    claim = replace(claim, metadata=replace(claim.metadata, annotations=notes))
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod("old", on="n1"), claim)
    assert bool(cluster.session(web_pod("p")).events) is has_event
