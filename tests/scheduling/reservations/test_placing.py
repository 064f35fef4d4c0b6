"""Placing reservations: whole or not at all, like any other job, and whatever holds room is invisible to others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PodAffinity,
    PodAffinityTerm,
    PriorityClass,
    Queue,
    QueueSpec,
    SelectorRequirement,
    SelectorSpec,
    TopologySpreadConstraint,
)
from tests.model.cluster.builders import ROOM, node, pod, queue
from tests.scheduling.reservations.stage import Stage, booking, gang, rooms, task, user

TWO = {"cpu": "2"}
HOST = "kubernetes.io/hostname"
WEB = SelectorSpec(match_labels={"app": "web"})
APART = Affinity(pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(topology_key=HOST, label_selector=WEB)]))
TOGETHER = Affinity(pod_affinity=PodAffinity(required=[PodAffinityTerm(topology_key=HOST, label_selector=WEB)]))
LABELS = {"app": "web"}


def hosts(*names: str, **fields: Any) -> list[Node]:
    return [node(name, labels={HOST: name, "zone": name[0]}, **fields) for name in names]


def only_on(name: str) -> Affinity:
    field = SelectorRequirement(key="metadata.name", operator="In", values=[name])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[field])])
    return Affinity(node_affinity=NodeAffinity(required=required))


def port(number: int) -> list[Container]:
    return [Container(name="main", ports=[ContainerPort(container_port=number, host_port=number)])]


# --- whole or not at all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "least", "held", "says"),
    [
        pytest.param(2, None, 2, None, id="all of them fit"),
        pytest.param(3, None, 0, "2 of the 3 seats", id="by default all must fit"),
        pytest.param(3, 3, 0, "2 of the 3 seats", id="not enough for minAvailable"),
        pytest.param(3, 2, 2, "2 of the 3 seats", id="enough, and one to come later"),
        pytest.param(3, 1, 2, "2 of the 3 seats", id="as many as fit beyond the minimum"),
    ],
)
def test_seats_are_held_when_enough_fit_at_once(replicas: int, least: int | None, held: int, says: str | None) -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "4", "pods": "10"}))
    outcome = stage.session(booking("r", task(replicas, TWO), min_available=least))
    assert len(outcome.held.get("r", [])) == held
    assert (says in outcome.declined["r"]) if says else not outcome.declined


def test_where_one_seat_is_needed_it_is_said_only_why_none_fits() -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "1", "pods": "10"}))
    declined = stage.session(booking("r", task(3, TWO), min_available=1)).declined
    assert declined == {"r": "0/1 nodes are available: 1 Insufficient cpu."}


def test_several_tasks_are_held_together() -> None:
    stage = Stage(*rooms("n1", "n2", offers={"cpu": "2", "pods": "10"}))
    assert stage.session(booking("r", task(1, TWO, name="a"), task(1, TWO, name="b"))).held == {"r": ["n1", "n2"]}


def test_what_is_left_is_placed_when_it_fits_later() -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "2", "pods": "10"}))
    asked = booking("r", task(2, TWO), min_available=1)
    stage.session(asked)
    stage.show(node("n2"))
    assert stage.session(asked).held == {"r": ["n2"]}


def test_a_reservation_that_is_placed_already_asks_for_nothing() -> None:
    stage = Stage(*rooms("n1"), booking("r", at={0: "n1"}))
    assert stage.session(booking("r", at={0: "n1"})).decisions == []


def test_why_it_cannot_be_placed_is_the_counted_sentence() -> None:
    stage = Stage(*rooms("n1", "n2"), node("n3", unschedulable=True))
    said = stage.session(booking("r", task(1, {"cpu": "9"}))).declined["r"]
    assert said == "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."


# --- like any other job -----------------------------------------------------------------------------------------------


def test_the_more_important_is_placed_first() -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "2", "pods": "10"}))
    stage.roster.priority_classes.apply(PriorityClass(metadata=ObjectMeta(name="gold"), value=100))
    low = booking("a", task(1, TWO))
    high = booking("b", task(1, TWO, priority_class_name="gold"))
    assert stage.session(low, high).held == {"b": ["n1"]}


def test_a_pod_that_is_more_important_comes_before_a_reservation() -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "2", "pods": "10"}))
    outcome = stage.session(booking("r", task(1, TWO)), user("p", TWO, priority=5))
    assert (outcome.nodes, list(outcome.declined)) == ({"p": "n1"}, ["r"])


def test_the_older_of_equals_is_placed_first() -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "2", "pods": "10"}))
    newer, older = (
        booking(name, task(1, TWO), created=f"2026-01-0{day}T00:00:00Z") for name, day in (("a", 2), ("b", 1))
    )
    assert stage.session(newer, older).held == {"b": ["n1"]}


def test_the_class_of_pods_that_name_none_counts() -> None:
    stage = Stage(*rooms("n1", offers={"cpu": "2", "pods": "10"}))
    stage.roster.priority_classes.apply(PriorityClass(metadata=ObjectMeta(name="usual"), value=7, global_default=True))
    outcome = stage.session(user("p", TWO, priority=5), booking("r", task(1, TWO)))
    assert outcome.held == {"r": ["n1"]}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"queue": "nowhere"}, "queue nowhere does not exist", id="an unknown queue"),
        pytest.param(
            {"tasks": [task(1, priority_class_name="gone")]},
            "priority class gone does not exist",
            id="an unknown class",
        ),
        pytest.param({"queue": "small"}, "queue small would exceed its capability", id="a queue that is full"),
        pytest.param({}, "queue default would exceed its capability", id="the default queue, if it names none"),
    ],
)
def test_what_refuses_it_before_any_node_is_asked(fields: dict[str, Any], says: str) -> None:
    stage = Stage(*rooms("n1"))
    for name in ("small", "default"):
        stage.roster.queues.apply(Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(capability={"cpu": "500m"})))
    assert says in stage.session(booking("r", **fields)).declined["r"]


def test_one_that_names_no_queue_is_of_the_default_one() -> None:
    stage = Stage(*rooms("n1", "n2"), queue("default", "n1"), queue("other", "n2"))
    assert stage.session(booking("r")).held == {"r": ["n1"]}


def test_a_seat_is_of_no_gang_whatever_its_template_says() -> None:
    """It would be let onto the nodes of the gang's queue."""
    of_queue = gang("g", 1)
    of_queue = replace(of_queue, spec=replace(of_queue.spec, queue="q"))
    seat = task()
    meta = replace(seat.template.metadata, annotations={"scheduling.k8s.io/group-name": "g"})
    stage = Stage(*rooms("n1", "n2"), pod("x", on="n2"), queue("q", "n1"), of_queue)
    assert stage.session(booking("r", replace(seat, template=replace(seat.template, metadata=meta)))).held == {
        "r": ["n2"]
    }


@pytest.mark.parametrize("together", [True, False], ids=["in the same session", "in a later one"])
def test_held_seats_are_charged_to_their_queue(together: bool) -> None:
    stage = Stage(*rooms("n1", "n2"))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(capability={"cpu": "3"})))
    one, other = (booking(name, task(1, TWO), queue="q") for name in "ab")
    if not together:
        stage.session(one)
    said = stage.session(*([one, other] if together else [other])).declined["b"]
    assert "cpu (limit 3, used 2, requested 2)" in said


def test_one_namespace_holds_no_more_than_its_share_of_the_cluster() -> None:
    stage = Stage(*rooms("n1", "n2"))
    first, second = booking("a", task(2, TWO)), booking("b", task(1, {"cpu": "1"}))
    other = booking("other/c", task(1, {"cpu": "1"}))
    outcome = stage.session(first, second, other, namespace_share=50)
    assert sorted(outcome.held) == ["a", "c"]
    assert outcome.declined["b"] == (
        "namespace default may hold 50% of the cluster (reservations.namespaceShare): "
        "cpu (limit 4, held 4, requested 1)"
    )


def limited(limit: str) -> tuple[Stage, dict[str, Any], dict[str, Any]]:
    """Two nodes of 4 cpu, of which a queue may have, or a namespace may hold, 4; what reservations and sessions are
    asked with for that."""
    stage = Stage(*rooms("n1", "n2"))
    stage.roster.queues.apply(Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(capability={"cpu": "4"})))
    return stage, {"queue": "q"} if limit == "queue" else {}, {} if limit == "queue" else {"namespace_share": 50}


LIMITED = pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("queue", "queue q would exceed its capability: cpu (limit 4, used 0, requested 6)"),
        (
            "share",
            "namespace default may hold 50% of the cluster (reservations.namespaceShare): "
            "cpu (limit 4, held 0, requested 6)",
        ),
    ],
    ids=["of a queue", "of a namespace"],
)
NOWHERE = task(2, {"cpu": "100m"}, name="nowhere", affinity=only_on("the moon"))


@LIMITED
def test_small_seats_that_fit_nowhere_bring_no_large_ones_past_a_limit(limit: str, says: str) -> None:
    stage, fields, options = limited(limit)
    large = task(2, {"cpu": "3"}, name="large")
    outcome = stage.session(booking("r", NOWHERE, large, min_available=2, **fields), **options)
    assert not outcome.held and outcome.declined["r"].startswith("1 of the 2 seats that reservation default/r needs")
    assert stage.session(booking("s", large, **fields), **options).declined["s"] == says


@LIMITED
def test_nor_do_they_where_the_room_is_being_left(limit: str, says: str) -> None:
    stage, fields, options = limited(limit)
    for name in ("n1", "n2"):
        leaver = pod(f"on-{name}", {"cpu": "4"}, on=name)
        stage.show(replace(leaver, metadata=replace(leaver.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    large = task(2, {"cpu": "3"}, name="large")
    assert not stage.session(booking("r", NOWHERE, large, min_available=2, **fields), **options).held
    assert stage.session(booking("s", task(1, {"cpu": "3"}), **fields), **options).waiting == ["s"]


@LIMITED
def test_seats_within_a_limit_are_held_though_those_before_them_exceed_it(limit: str, says: str) -> None:
    stage, fields, options = limited(limit)
    tasks = task(1, {"cpu": "6"}, name="large"), task(2, {"cpu": "1"}, name="small")
    outcome = stage.session(booking("r", *tasks, min_available=1, **fields), **options)
    assert len(outcome.held["r"]) == 2
    assert outcome.declined["r"] == says.replace("used 0", "used 2").replace("held 0", "held 2")


# --- where ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "held"),
    [
        pytest.param(["n2", "n1"], "n2", id="the first that is named"),
        pytest.param(["gone", "full", "n2"], "n2", id="the first that will do"),
        pytest.param(["full"], "n1", id="none that is named will do"),
    ],
)
def test_named_nodes_are_tried_in_order_then_any(named: list[str], held: str) -> None:
    stage = Stage(*hosts("n1", "n2", "full"), pod("big", {"cpu": "4"}, on="full"))
    assert stage.session(booking("r", task(1, TWO, nodes=named))).held == {"r": [held]}


def test_each_task_has_named_nodes_of_its_own() -> None:
    stage = Stage(*hosts("n1", "n2", "n3"))
    asked = booking("r", task(1, TWO, name="a", nodes=["n3"]), task(1, TWO, name="b", nodes=["n2"]))
    assert stage.session(asked).held == {"r": ["n3", "n2"]}


def test_a_required_node_affinity_is_strict_whatever_nodes_are_named() -> None:
    stage = Stage(*hosts("n1", "n2"))
    asked = booking("r", task(1, TWO, nodes=["n1"], affinity=only_on("n2")))
    assert stage.session(asked).held == {"r": ["n2"]}
    assert "r" in stage.session(booking("r", task(2, {"cpu": "3"}, affinity=only_on("n2")))).declined


def test_seats_keep_away_from_each_other_as_their_pods_will() -> None:
    stage = Stage(*hosts("n1", "n2"))
    outcome = stage.session(booking("r", task(3, {}, labels=LABELS, affinity=APART), min_available=2))
    assert outcome.held == {"r": ["n1", "n2"]}


@pytest.mark.parametrize(
    ("held", "coming", "where"),
    [
        pytest.param({"labels": LABELS}, {"affinity": APART}, "n2", id="anti-affinity counts a seat"),
        pytest.param({"labels": LABELS}, {"affinity": TOGETHER}, "n1", id="affinity counts a seat"),
        pytest.param({"labels": LABELS, "affinity": APART}, {}, "n2", id="a seat has anti-affinity of its own"),
        pytest.param({"containers": port(80)}, {"containers": port(80)}, "n2", id="a seat takes its host ports"),
    ],
)
def test_a_seat_counts_as_the_pod_it_will_become(held: dict[str, Any], coming: dict[str, Any], where: str) -> None:
    """Without it the pod would go to the other node, which is emptier."""
    stage = Stage(*hosts("n1", "n2"), pod("big", {"cpu": "3"}, on=where))
    fields = {key: value for key, value in held.items() if key != "containers"}
    seat = task(1, {}, nodes=["n1"], **fields)
    if "containers" in held:
        seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, containers=port(80))))
    stage.session(booking("r", seat, owners=[]))
    coming_pod = user("p", {}, **{key: value for key, value in coming.items() if key != "containers"})
    if "containers" in coming:
        coming_pod = replace(coming_pod, spec=replace(coming_pod.spec, containers=port(80)))
    assert stage.session(coming_pod).nodes == {"p": where}


def test_held_room_is_invisible_to_others_however_important() -> None:
    stage = Stage(*rooms("n1"))
    stage.session(booking("r", task(1, {"cpu": "4"})))
    outcome = stage.session(pod("p", {"cpu": "1"}, priority=2_000_000_000))
    assert outcome.refused == {"p": "0/1 nodes are available: 1 Insufficient cpu."}


# --- room that others are leaving -------------------------------------------------------------------------------------


def test_room_that_terminating_pods_are_leaving_is_held_at_once() -> None:
    stage = Stage(*rooms("n1"), pod("old", {"cpu": "4"}, on="n1", leaving=True))
    stage.now = 1767225600.0
    asked = booking("r", task(1, TWO))
    outcome = stage.session(asked, user("later", TWO, labels={}, created="2026-01-02T00:00:00Z"))
    assert (outcome.held, outcome.waiting, list(outcome.refused)) == ({"r": ["n1"]}, ["r"], ["later"])


def test_free_room_is_preferred_to_room_that_is_being_left() -> None:
    stage = Stage(*rooms("n1", "n2"), pod("old", {"cpu": "4"}, on="n1", leaving=True))
    stage.now = 1767225600.0
    outcome = stage.session(booking("r", task(1, TWO)))
    assert (outcome.held, outcome.waiting) == ({"r": ["n2"]}, [])


# --- the pod that moves -----------------------------------------------------------------------------------------------

SPREAD = TopologySpreadConstraint(topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=WEB)
NEAR = PodAffinityTerm(topology_key="zone", label_selector=WEB)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[NEAR]))}, id="anti-affinity"),
        pytest.param({"topology_spread_constraints": [SPREAD]}, id="spread"),
    ],
)
@pytest.mark.parametrize("marked", [True, False])
def test_only_the_pod_that_moves_does_not_keep_its_successor_away(fields: dict[str, Any], marked: bool) -> None:
    full = pod("full", {"cpu": "4"}, on="b1")
    stage = Stage(*hosts("a1", "a2", "b1"), full, pod("old", {}, on="a1", labels=LABELS, **fields))
    seat = task(1, {"cpu": "1"}, labels=LABELS, nodes=["a2"], **fields)
    outcome = stage.session(booking("r", seat, migrating="uid-old" if marked else "uid-full"))
    assert outcome.held == ({"r": ["a2"]} if marked else {})


def test_a_refusal_to_one_is_none_to_the_successor_of_a_pod_that_moves() -> None:
    apart = Affinity(pod_anti_affinity=PodAffinity(required=[NEAR]))
    stage = Stage(*hosts("a1", "a2"), pod("old", {}, on="a1", labels=LABELS))
    first = booking("a", task(1, {}, labels=LABELS, affinity=apart), created="2026-01-01T00:00:00Z")
    moved = booking(
        "b", task(1, {}, labels=LABELS, affinity=apart), migrating="uid-old", created="2026-01-02T00:00:00Z"
    )
    outcome = stage.session(first, moved)
    assert (list(outcome.declined), list(outcome.held)) == (["a"], ["b"])


def test_the_pod_that_moves_is_no_company_for_its_successor() -> None:
    stage = Stage(*hosts("a1", "a2"), pod("old", {}, on="a1", labels=LABELS))
    seat = task(1, {}, affinity=TOGETHER)
    assert stage.session(booking("r", seat)).held == {"r": ["a1"]}
    assert list(stage.session(booking("moved", seat, migrating="uid-old")).declined) == ["moved"]


def test_the_host_ports_of_the_pod_that_moves_are_no_obstacle() -> None:
    moving = pod("old", {}, on="n1")
    moving = replace(moving, spec=replace(moving.spec, containers=port(80)))
    stage = Stage(*rooms("n1"), moving)
    seat = task(1, {})
    seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, containers=port(80))))
    assert "r" in stage.session(booking("r", seat)).declined
    assert stage.session(booking("r", seat, migrating="uid-old")).held == {"r": ["n1"]}


def test_the_room_of_the_pod_that_moves_is_never_counted_twice() -> None:
    stage = Stage(*rooms("n1"), pod("old", {"cpu": "3"}, on="n1"))
    said = stage.session(booking("r", task(1, TWO), migrating="uid-old")).declined["r"]
    assert said == "0/1 nodes are available: 1 Insufficient cpu."


def test_nothing_is_left_of_a_trial() -> None:
    stage = Stage(*rooms("n1", offers=ROOM))
    stage.session(booking("r", task(9, TWO)))
    assert stage.snapshot.reservations.reserved_pods.names() == []
