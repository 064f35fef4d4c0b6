"""Seat placement: whole reservations or none, in order of priority, and held room is not free for other pods."""

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
from tests.model.reservations.builders import pod_group, task, web_pod, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes

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
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "4", "pods": "10"}))
    outcome = cluster.session(web_reservation("r", task(replicas, TWO), min_available=least))
    assert len(outcome.held.get("r", [])) == held
    assert (says in outcome.refused_reservations["r"]) if says else not outcome.refused_reservations


def test_refusal_of_a_single_needed_seat_names_no_count() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "1", "pods": "10"}))
    declined = cluster.session(web_reservation("r", task(3, TWO), min_available=1)).refused_reservations
    assert declined == {"r": "0/1 nodes are available: 1 Insufficient cpu."}


def test_several_tasks_are_held_together() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2", allocatable={"cpu": "2", "pods": "10"}))
    assert cluster.session(web_reservation("r", task(1, TWO, name="a"), task(1, TWO, name="b"))).held == {
        "r": ["n1", "n2"]
    }


def test_missing_seats_are_placed_when_they_fit_later() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "2", "pods": "10"}))
    asked = web_reservation("r", task(2, TWO), min_available=1)
    cluster.session(asked)
    cluster.show(node("n2"))
    assert cluster.session(asked).held == {"r": ["n2"]}


def test_placed_reservation_needs_no_decision() -> None:
    cluster = SessionCluster(*named_nodes("n1"), web_reservation("r", at={0: "n1"}))
    assert cluster.session(web_reservation("r", at={0: "n1"})).decisions == []


def test_refusal_is_the_counted_sentence() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), node("n3", unschedulable=True))
    said = cluster.session(web_reservation("r", task(1, {"cpu": "9"}))).refused_reservations["r"]
    assert said == "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."


# --- like any other job -----------------------------------------------------------------------------------------------


def test_reservation_of_higher_priority_is_placed_first() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "2", "pods": "10"}))
    cluster.pod_groups.priority_classes.apply(PriorityClass(metadata=ObjectMeta(name="gold"), value=100))
    low = web_reservation("a", task(1, TWO))
    high = web_reservation("b", task(1, TWO, priority_class_name="gold"))
    assert cluster.session(low, high).held == {"b": ["n1"]}


def test_pod_of_higher_priority_is_placed_before_a_reservation() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "2", "pods": "10"}))
    outcome = cluster.session(web_reservation("r", task(1, TWO)), web_pod("p", TWO, priority=5))
    assert (outcome.nodes, list(outcome.refused_reservations)) == ({"p": "n1"}, ["r"])


def test_older_reservation_is_placed_first() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "2", "pods": "10"}))
    newer, older = (
        web_reservation(name, task(1, TWO), created=f"2026-01-0{day}T00:00:00Z") for name, day in (("a", 2), ("b", 1))
    )
    assert cluster.session(newer, older).held == {"b": ["n1"]}


def test_default_priority_class_counts_for_reservations() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable={"cpu": "2", "pods": "10"}))
    cluster.pod_groups.priority_classes.apply(
        PriorityClass(metadata=ObjectMeta(name="usual"), value=7, global_default=True)
    )
    outcome = cluster.session(web_pod("p", TWO, priority=5), web_reservation("r", task(1, TWO)))
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
def test_reservation_is_refused_before_any_node_is_asked(fields: dict[str, Any], says: str) -> None:
    cluster = SessionCluster(*named_nodes("n1"))
    for name in ("small", "default"):
        cluster.pod_groups.queues.apply(
            Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(capability={"cpu": "500m"}))
        )
    assert says in cluster.session(web_reservation("r", **fields)).refused_reservations["r"]


def test_reservation_without_a_queue_is_charged_to_the_default_queue() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), queue("default", "n1"), queue("other", "n2"))
    assert cluster.session(web_reservation("r")).held == {"r": ["n1"]}


def test_seat_belongs_to_no_gang() -> None:
    """It would be let onto the nodes of the gang's queue."""
    of_queue = pod_group("g", 1)
    of_queue = replace(of_queue, spec=replace(of_queue.spec, queue="q"))
    seat = task()
    meta = replace(seat.template.metadata, annotations={"scheduling.k8s.io/group-name": "g"})
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod("x", on="n2"), queue("q", "n1"), of_queue)
    assert cluster.session(
        web_reservation("r", replace(seat, template=replace(seat.template, metadata=meta)))
    ).held == {"r": ["n2"]}


@pytest.mark.parametrize("together", [True, False], ids=["in the same session", "in a later one"])
def test_held_seats_are_charged_to_their_queue(together: bool) -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"))
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(capability={"cpu": "3"})))
    one, other = (web_reservation(name, task(1, TWO), queue="q") for name in "ab")
    if not together:
        cluster.session(one)
    said = cluster.session(*([one, other] if together else [other])).refused_reservations["b"]
    assert "cpu (limit 3, used 2, requested 2)" in said


def test_one_namespace_holds_no_more_than_its_share_of_the_cluster() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"))
    first, second = web_reservation("a", task(2, TWO)), web_reservation("b", task(1, {"cpu": "1"}))
    other = web_reservation("other/c", task(1, {"cpu": "1"}))
    outcome = cluster.session(first, second, other, namespace_share=50)
    assert sorted(outcome.held) == ["a", "c"]
    assert outcome.refused_reservations["b"] == (
        "namespace default may hold 50% of the cluster (reservations.namespaceShare): "
        "cpu (limit 4, held 4, requested 1)"
    )


def limited(limit: str) -> tuple[SessionCluster, dict[str, Any], dict[str, Any]]:
    """Two nodes of 4 cpu, of which a queue may have, or a namespace may hold, 4; what reservations and sessions are
    asked with for that."""
    cluster = SessionCluster(*named_nodes("n1", "n2"))
    cluster.pod_groups.queues.apply(Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(capability={"cpu": "4"})))
    return cluster, {"queue": "q"} if limit == "queue" else {}, {} if limit == "queue" else {"namespace_share": 50}


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
    cluster, fields, options = limited(limit)
    large = task(2, {"cpu": "3"}, name="large")
    outcome = cluster.session(web_reservation("r", NOWHERE, large, min_available=2, **fields), **options)
    assert not outcome.held and outcome.refused_reservations["r"].startswith(
        "1 of the 2 seats that reservation default/r needs"
    )
    assert cluster.session(web_reservation("s", large, **fields), **options).refused_reservations["s"] == says


@LIMITED
def test_small_seats_with_room_being_left_bring_no_large_ones_past_a_limit(limit: str, says: str) -> None:
    cluster, fields, options = limited(limit)
    for name in ("n1", "n2"):
        leaver = pod(f"on-{name}", {"cpu": "4"}, on=name)
        cluster.show(replace(leaver, metadata=replace(leaver.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    large = task(2, {"cpu": "3"}, name="large")
    assert not cluster.session(web_reservation("r", NOWHERE, large, min_available=2, **fields), **options).held
    assert cluster.session(web_reservation("s", task(1, {"cpu": "3"}), **fields), **options).waiting_reservations == [
        "s"
    ]


@LIMITED
def test_seats_within_a_limit_are_held_after_seats_that_exceed_it(limit: str, says: str) -> None:
    cluster, fields, options = limited(limit)
    tasks = task(1, {"cpu": "6"}, name="large"), task(2, {"cpu": "1"}, name="small")
    outcome = cluster.session(web_reservation("r", *tasks, min_available=1, **fields), **options)
    assert len(outcome.held["r"]) == 2
    assert outcome.refused_reservations["r"] == says.replace("used 0", "used 2").replace("held 0", "held 2")


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
    cluster = SessionCluster(*hosts("n1", "n2", "full"), pod("big", {"cpu": "4"}, on="full"))
    assert cluster.session(web_reservation("r", task(1, TWO, nodes=named))).held == {"r": [held]}


def test_each_task_has_named_nodes_of_its_own() -> None:
    cluster = SessionCluster(*hosts("n1", "n2", "n3"))
    asked = web_reservation("r", task(1, TWO, name="a", nodes=["n3"]), task(1, TWO, name="b", nodes=["n2"]))
    assert cluster.session(asked).held == {"r": ["n3", "n2"]}


def test_required_node_affinity_is_strict_beside_preferred_nodes() -> None:
    cluster = SessionCluster(*hosts("n1", "n2"))
    asked = web_reservation("r", task(1, TWO, nodes=["n1"], affinity=only_on("n2")))
    assert cluster.session(asked).held == {"r": ["n2"]}
    assert (
        "r" in cluster.session(web_reservation("r", task(2, {"cpu": "3"}, affinity=only_on("n2")))).refused_reservations
    )


def test_seats_obey_the_anti_affinity_of_their_pods() -> None:
    cluster = SessionCluster(*hosts("n1", "n2"))
    outcome = cluster.session(web_reservation("r", task(3, {}, labels=LABELS, affinity=APART), min_available=2))
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
def test_seat_counts_as_its_reserved_pod(held: dict[str, Any], coming: dict[str, Any], where: str) -> None:
    """Without it the pod would go to the other node, which is emptier."""
    cluster = SessionCluster(*hosts("n1", "n2"), pod("big", {"cpu": "3"}, on=where))
    fields = {key: value for key, value in held.items() if key != "containers"}
    seat = task(1, {}, nodes=["n1"], **fields)
    if "containers" in held:
        seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, containers=port(80))))
    cluster.session(web_reservation("r", seat, owners=[]))
    coming_pod = web_pod("p", {}, **{key: value for key, value in coming.items() if key != "containers"})
    if "containers" in coming:
        coming_pod = replace(coming_pod, spec=replace(coming_pod.spec, containers=port(80)))
    assert cluster.session(coming_pod).nodes == {"p": where}


def test_held_room_is_not_free_for_pods_of_any_priority() -> None:
    cluster = SessionCluster(*named_nodes("n1"))
    cluster.session(web_reservation("r", task(1, {"cpu": "4"})))
    outcome = cluster.session(pod("p", {"cpu": "1"}, priority=2_000_000_000))
    assert outcome.refused_pods == {"p": "0/1 nodes are available: 1 Insufficient cpu."}


# --- room that others are leaving -------------------------------------------------------------------------------------


def test_room_of_terminating_pods_is_held_at_once() -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod("old", {"cpu": "4"}, on="n1", leaving=True))
    cluster.now = 1767225600.0
    asked = web_reservation("r", task(1, TWO))
    outcome = cluster.session(asked, web_pod("later", TWO, labels={}, created="2026-01-02T00:00:00Z"))
    assert (outcome.held, outcome.waiting_reservations, list(outcome.refused_pods)) == ({"r": ["n1"]}, ["r"], ["later"])


def test_free_room_is_preferred_to_room_of_terminating_pods() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), pod("old", {"cpu": "4"}, on="n1", leaving=True))
    cluster.now = 1767225600.0
    outcome = cluster.session(web_reservation("r", task(1, TWO)))
    assert (outcome.held, outcome.waiting_reservations) == ({"r": ["n2"]}, [])


# --- the migrating pod ------------------------------------------------------------------------------------------------

SPREAD = TopologySpreadConstraint(topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=WEB)
NEAR = PodAffinityTerm(topology_key="zone", label_selector=WEB)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[NEAR]))}, id="anti-affinity"),
        pytest.param({"topology_spread_constraints": [SPREAD]}, id="spread"),
    ],
)
@pytest.mark.parametrize("is_migrating", [True, False])
def test_only_the_migrating_pod_is_ignored_for_its_successor(fields: dict[str, Any], is_migrating: bool) -> None:
    full = pod("full", {"cpu": "4"}, on="b1")
    cluster = SessionCluster(*hosts("a1", "a2", "b1"), full, pod("old", {}, on="a1", labels=LABELS, **fields))
    seat = task(1, {"cpu": "1"}, labels=LABELS, nodes=["a2"], **fields)
    outcome = cluster.session(web_reservation("r", seat, migrating="uid-old" if is_migrating else "uid-full"))
    assert outcome.held == ({"r": ["a2"]} if is_migrating else {})


def test_refusal_of_one_reservation_does_not_count_for_a_migration() -> None:
    apart = Affinity(pod_anti_affinity=PodAffinity(required=[NEAR]))
    cluster = SessionCluster(*hosts("a1", "a2"), pod("old", {}, on="a1", labels=LABELS))
    first = web_reservation("a", task(1, {}, labels=LABELS, affinity=apart), created="2026-01-01T00:00:00Z")
    moved = web_reservation(
        "b", task(1, {}, labels=LABELS, affinity=apart), migrating="uid-old", created="2026-01-02T00:00:00Z"
    )
    outcome = cluster.session(first, moved)
    assert (list(outcome.refused_reservations), list(outcome.held)) == (["a"], ["b"])


def test_migrating_pod_does_not_count_for_the_affinity_of_its_successor() -> None:
    cluster = SessionCluster(*hosts("a1", "a2"), pod("old", {}, on="a1", labels=LABELS))
    seat = task(1, {}, affinity=TOGETHER)
    assert cluster.session(web_reservation("r", seat)).held == {"r": ["a1"]}
    assert list(cluster.session(web_reservation("moved", seat, migrating="uid-old")).refused_reservations) == ["moved"]


def test_host_ports_of_the_migrating_pod_are_ignored() -> None:
    moving = pod("old", {}, on="n1")
    moving = replace(moving, spec=replace(moving.spec, containers=port(80)))
    cluster = SessionCluster(*named_nodes("n1"), moving)
    seat = task(1, {})
    seat = replace(seat, template=replace(seat.template, spec=replace(seat.template.spec, containers=port(80))))
    assert "r" in cluster.session(web_reservation("r", seat)).refused_reservations
    assert cluster.session(web_reservation("r", seat, migrating="uid-old")).held == {"r": ["n1"]}


def test_room_of_the_migrating_pod_is_not_free_for_its_successor() -> None:
    cluster = SessionCluster(*named_nodes("n1"), pod("old", {"cpu": "3"}, on="n1"))
    said = cluster.session(web_reservation("r", task(1, TWO), migrating="uid-old")).refused_reservations["r"]
    assert said == "0/1 nodes are available: 1 Insufficient cpu."


def test_try_leaves_nothing_behind() -> None:
    cluster = SessionCluster(*named_nodes("n1", allocatable=ROOM))
    cluster.session(web_reservation("r", task(9, TWO)))
    assert cluster.snapshot.reservations.reserved_pods.names() == []
