"""Undo restores every value, and what was computed during the try is computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from restow.model.objects import ObjectMeta, OwnerReference, Pod, PodGroup, Taint
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, placements_of, pod, queue, reservation
from tests.model.cluster.snapshot_values import Fitting, all_values

WEB = {"app": "web"}
SEAT = SeatName("default", "held", "t", 0)
OWNER = OwnerReference(kind="Deployment", name="d", uid="d")
GPU = [Taint(key="gpu", effect="NoSchedule")]


def exchange(snapshot: Snapshot, labels: dict[str, str] | None = None) -> None:
    """A pod that takes just what a seat holds takes its place."""
    assigned_pod = pod("new", labels=labels)
    held = snapshot.reservations.states.exchangeable(SEAT, snapshot.shapes.of(assigned_pod))
    assert held is not None
    snapshot.assume(assigned_pod, "n2", at=1.0, seat=SEAT, instead=held)


TRIALS: dict[str, Callable[[Snapshot], object]] = {
    "a node comes": lambda s: s.apply_node(node("new", {"new.com/thing": "1", "pods": "1"}, labels={"zone": "c"})),
    "a node changes": lambda s: s.apply_node(node("n1", {"cpu": "1"}, labels={"zone": "b"}, taints=GPU, version=90)),
    "a node is cordoned": lambda s: s.apply_node(node("n1", unschedulable=True, version=90)),
    "a node with pods goes": lambda s: s.remove_node(node("n1", version=90)),
    "an empty node goes": lambda s: s.remove_node(node("n2", version=90)),
    "a pod comes": lambda s: s.apply_pod(pod("new", {"cpu": "2", "new": "3"}, on="n2")),
    "a pod comes before its node": lambda s: s.apply_pod(pod("new", on="nowhere")),
    "a pod begins to leave": lambda s: s.apply_pod(pod("web", on="n1", labels=WEB, leaving=True, version=90)),
    "a leaving pod goes": lambda s: s.remove_pod(pod("leaver", on="n1", version=90)),
    "a pod ends": lambda s: s.apply_pod(pod("web", on="n1", phase="Failed", version=90)),
    "a pod is labelled": lambda s: s.apply_pod(pod("web", on="n1", labels={"app": "x"}, version=90)),
    "a pod takes a seat": lambda s: s.apply_pod(pod("new", on="n2", labels=WEB, seat=str(SEAT))),
    "a pod is assumed": lambda s: s.assume(pod("new"), "n2", at=1.0),
    "a pod is assumed into a seat": lambda s: s.assume(pod("new"), "n2", at=1.0, seat=SEAT),
    "a pod is exchanged for a seat": exchange,
    "a pod of other labels is exchanged for a seat": lambda s: exchange(s, {"app": "x"}),
    "an assumption is confirmed": lambda s: s.apply_pod(pod("assumed", on="n2", version=90)),
    "an assumption is forgotten": lambda s: s.forget(pod("assumed")),
    "pods are seen further": lambda s: s.pods_seen_through("99"),
    "a reservation is placed": lambda s: s.apply_reservation(reservation("new", {0: "n1", 1: "n2"})),
    "a reservation is to move a pod": lambda s: s.apply_reservation(reservation("new", migrating="uid-web")),
    "a reservation migrates no pod any more": lambda s: s.apply_reservation(reservation("mover", version=90)),
    "a reservation that migrates a pod is deleted": lambda s: s.remove_reservation(reservation("mover", version=90)),
    "a seat moves": lambda s: s.apply_reservation(reservation("held", {0: "n1"}, version=90)),
    "a seat is consumed": lambda s: s.apply_reservation(reservation("held", {0: "n2"}, consumed={0: "u"}, version=90)),
    "a reservation fails": lambda s: s.apply_reservation(reservation("held", {0: "n2"}, phase="Failed", version=90)),
    "a reservation goes": lambda s: s.remove_reservation(reservation("held", version=90)),
    "placements are assumed": lambda s: s.assume_placements(reservation("idle"), placements_of({0: "n1"}), at=1.0),
    "owners become known": lambda s: s.apply_owner(ObjectMeta(uid="rs", owner_references=[OWNER])),
    "nodes are locked": lambda s: s.apply_queue(queue("other", "n2", "nowhere")),
    "a lock moves": lambda s: s.apply_queue(queue("q", "n2", version=90)),
    "a queue with locks goes": lambda s: s.remove_queue(queue("q", version=90)),
    "a group becomes known": lambda s: s.apply_group(PodGroup(metadata=ObjectMeta(name="g", namespace="default"))),
}


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    for name, zone in (("n1", "a"), ("n2", "b")):
        snapshot.apply_node(node(name, labels={"zone": zone}, version=1))
    snapshot.apply_pod(pod("web", on="n1", labels=WEB, version=2))
    snapshot.apply_pod(pod("leaver", on="n1", leaving=True, version=3))
    snapshot.assume(pod("assumed"), "n2", at=0.0)
    snapshot.apply_reservation(reservation("held", {0: "n2"}, version=4))
    snapshot.apply_reservation(reservation("unseen", {0: "n2"}, consumed={0: "uid-late"}, version=50))
    snapshot.apply_reservation(reservation("idle", phase="Pending"))
    snapshot.apply_reservation(reservation("mover", migrating="uid-web", version=51))
    snapshot.apply_queue(queue("q", "n1", version=5))
    return snapshot


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS.keys())
def test_undo_restores_every_value_after_a_try(snapshot: Snapshot, trial: Callable[[Snapshot], object]) -> None:
    asking = [snapshot.class_of(pod("p", {"cpu": "2"})), snapshot.class_of(pod("p", node_selector={"zone": "a"}))]
    fitting = Fitting(snapshot)
    masks = [fitting.feasible(one).tolist() for one in asking]
    before, mark = all_values(snapshot), snapshot.mark()
    trial(snapshot)
    assert all_values(snapshot) != before
    assert all(len(fitting.feasible(one)) for one in asking)
    snapshot.undo_to(mark)
    assert all_values(snapshot) == before
    assert [fitting.feasible(one).tolist() for one in asking] == masks


def test_undo_restores_every_value_after_all_tries_together(snapshot: Snapshot) -> None:
    before, mark = all_values(snapshot), snapshot.mark()
    for name, trial in TRIALS.items():
        if "is assumed" not in name and "is exchanged" not in name:
            trial(snapshot)
    snapshot.undo_to(mark)
    after = all_values(snapshot)
    assert after == before


@pytest.mark.parametrize("labels", [None, WEB, {"app": "x"}])
def test_exchange_equals_vacate_and_assume(snapshot: Snapshot, labels: dict[str, str]) -> None:
    before, mark = all_values(snapshot), snapshot.mark()
    snapshot.reservations.states.vacate(SEAT)
    snapshot.assume(pod("new", labels=labels), "n2", at=1.0, seat=SEAT)
    seated = all_values(snapshot)
    snapshot.undo_to(mark)
    exchange(snapshot, labels)
    assert all_values(snapshot) == seated
    snapshot.forget(pod("new"))
    assert all_values(snapshot) == before


@pytest.mark.parametrize(
    "assigned_pod",
    [
        pytest.param(pod("new", {"cpu": "2"}), id="a larger pod"),
        pytest.param(pod("new", {"cpu": "500m"}), id="a smaller pod"),
        pytest.param(pod("new", node_selector={"zone": "b"}), id="a pod with a node selector"),
    ],
)
def test_only_pods_of_the_same_shape_are_exchangeable(snapshot: Snapshot, assigned_pod: Pod) -> None:
    assert snapshot.reservations.states.exchangeable(SEAT, snapshot.shapes.of(assigned_pod)) is None


def test_vector_is_right_after_a_row_was_reused_in_a_try(snapshot: Snapshot) -> None:
    fitting, asking = Fitting(snapshot), snapshot.class_of(pod("p", {}))
    mark = snapshot.mark()
    snapshot.apply_node(node("tried"))
    assert fitting.feasible(asking).tolist() == [True, True, True]
    snapshot.undo_to(mark)
    assert fitting.feasible(asking).tolist() == [True, True]
    snapshot.apply_pod(pod("stray", on="nowhere"))
    assert snapshot.masks.eligible(asking.shape).tolist() == [True, True, False]
