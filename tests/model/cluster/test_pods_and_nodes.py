"""Pods and nodes in a snapshot, case by case."""

from __future__ import annotations

import pytest

from restow.model.cluster import AlreadyPlaced
from restow.model.cluster.node_filters import rows_short_of, rows_that_fit
from restow.model.objects import Pod
from restow.model.quantity import QuantityError
from restow.model.snapshot import Snapshot, UnknownNode
from tests.model.cluster.builders import node, pod
from tests.model.cluster.snapshot_values import Fitting, all_values, free_amounts, ledger_amount, ledgers


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    return snapshot


def test_pod_seen_before_its_node_is_counted_when_the_node_comes() -> None:
    snapshot = Snapshot()
    snapshot.apply_pod(pod("p", {"cpu": "3"}, on="n1"))
    assert not Fitting(snapshot).feasible(snapshot.class_of(pod("q", {}))).any()
    snapshot.apply_node(node("n1"))
    assert free_amounts(snapshot, "n1")["cpu"] == 1000


def test_recreated_node_keeps_the_pods_that_are_still_on_it(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", {"cpu": "3"}, on="n1"))
    snapshot.remove_node(node("n1"))
    snapshot.apply_node(node("n1", {"cpu": "8", "pods": "5"}))
    assert (free_amounts(snapshot, "n1")["cpu"], free_amounts(snapshot, "n1")["pods"]) == (5000, 4)


def test_row_is_freed_when_nothing_of_the_node_is_left(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", on="n1"))
    snapshot.remove_node(node("n1"))
    assert snapshot.rows.names() == ["n1"]
    snapshot.remove_pod(pod("p", on="n1"))
    assert snapshot.rows.names() == []
    assert not any(ledgers(snapshot).values())


def test_zero_requests_fit_on_an_overcommitted_node(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", {"cpu": "9"}, on="n1"))
    assert free_amounts(snapshot, "n1")["cpu"] == -5000
    asking = snapshot.shapes.of(pod("q", {"cpu": "1m"}))
    assert rows_short_of(snapshot.room, asking.amounts)["cpu"].tolist() == [True]
    assert rows_that_fit(snapshot.room, snapshot.shapes.of(pod("r", {})).amounts).tolist() == [True]


def test_terminating_pod_counts_as_requested_and_releasing(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", {"cpu": "4"}, on="n1", leaving=True))
    asking = snapshot.shapes.of(pod("q", {"cpu": "2"}))
    assert (ledger_amount(snapshot, "requested", "n1"), ledger_amount(snapshot, "releasing", "n1")) == (4000, 4000)
    assert rows_that_fit(snapshot.room, asking.amounts).tolist() == [False]
    assert rows_that_fit(snapshot.room, asking.amounts, after_leaving=True).tolist() == [True]


@pytest.mark.parametrize(
    ("event", "requested", "waiting"),
    [
        pytest.param(pod("p", on="n1"), {"n1": 1000}, 0, id="bound there: confirmed"),
        pytest.param(pod("p", on="n2"), {"n2": 1000}, 0, id="bound elsewhere: moved to where it is"),
        pytest.param(pod("p", labels={"new": "label"}), {"n1": 1000}, 1, id="still pending: keeps waiting"),
        pytest.param(pod("p", phase="Failed"), {}, 0, id="failed: released"),
        pytest.param(pod("p", on="n1", phase="Succeeded"), {}, 0, id="ran and ended: released"),
        pytest.param(pod("p", {"cpu": "2"}), {"n1": 2000}, 1, id="resized while pending: counted as it now is"),
    ],
)
def test_watch_event_ends_an_assumption(
    snapshot: Snapshot, event: Pod, requested: dict[str, int], waiting: int
) -> None:
    snapshot.assume(pod("p"), "n1", at=10.0)
    snapshot.apply_pod(event)
    assert {name: vector["cpu"] for name, vector in ledgers(snapshot)["requested"].items()} == requested
    assert len(snapshot.assumed(now=10.0)) == waiting


def test_forget_is_the_inverse_of_assume_and_harmless_otherwise(snapshot: Snapshot) -> None:
    before = all_values(snapshot)
    snapshot.assume(pod("p"), "n1", at=1.0)
    assert snapshot.forget(pod("p"))
    assert not snapshot.forget(pod("p"))
    assert all_values(snapshot) == before


def test_confirmed_assumption_is_not_forgotten(snapshot: Snapshot) -> None:
    snapshot.assume(pod("p"), "n1", at=1.0)
    snapshot.apply_pod(pod("p", on="n1"))
    assert not snapshot.forget(pod("p"))
    assert ledger_amount(snapshot, "requested", "n1") == 1000


def test_assuming_a_pod_twice_or_on_an_unknown_node_raises(snapshot: Snapshot) -> None:
    snapshot.assume(pod("p"), "n1", at=1.0)
    with pytest.raises(AlreadyPlaced, match=r"default/p is on n1 already"):
        snapshot.assume(pod("p"), "n1", at=2.0)
    with pytest.raises(UnknownNode, match=r"node n9"):
        snapshot.assume(pod("q"), "n9", at=2.0)


def test_assumptions_are_listed_oldest_first_with_their_age(snapshot: Snapshot) -> None:
    for name, at in (("late", 5.0), ("early", 2.0)):
        snapshot.assume(pod(name), "n1", at=at)
    assert [(one.pod.metadata.name, one.node, one.age) for one in snapshot.assumed(now=7.0)] == [
        ("early", "n1", 5.0),
        ("late", "n1", 2.0),
    ]


def test_bound_pod_never_becomes_unbound(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", on="n1"))
    snapshot.apply_pod(pod("p"))
    assert ledger_amount(snapshot, "requested", "n1") == 1000


def test_invalid_request_raises_and_changes_nothing(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", on="n1", version=1))
    before = all_values(snapshot)
    with pytest.raises(QuantityError, match="2c"):
        snapshot.apply_pod(pod("p", {"cpu": "2c"}, on="n1", version=2))
    with pytest.raises(QuantityError, match="lots"):
        snapshot.apply_node(node("n9", {"cpu": "lots"}, version=3))
    assert all_values(snapshot) == before


def test_update_of_unread_fields_touches_no_row(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("p", on="n1", version=1))
    generations = snapshot.room.changes.generation, snapshot.nodes.changes.generation
    snapshot.apply_pod(pod("p", on="n1", phase="Running", version=2))
    snapshot.apply_node(node("n1", version=3))
    assert (snapshot.room.changes.generation, snapshot.nodes.changes.generation) == generations


def test_masks_are_right_after_undo(snapshot: Snapshot) -> None:
    fitting, asking = Fitting(snapshot), snapshot.class_of(pod("q", {"cpu": "2"}))
    mark = snapshot.mark()
    snapshot.assume(pod("p", {"cpu": "3"}), "n1", at=1.0)
    assert not fitting.feasible(asking).any()
    snapshot.undo_to(mark)
    assert fitting.feasible(asking).all()


def test_arrays_grow_with_the_number_of_nodes() -> None:
    snapshot = Snapshot()
    fitting, cls = Fitting(snapshot), snapshot.class_of(pod("p", node_selector={"zone": "a"}))
    for index in range(200):
        snapshot.apply_node(node(f"n{index}", labels={"zone": "ab"[index % 2]}))
        assert len(fitting.feasible(cls)) == index + 1
    assert fitting.feasible(cls).sum() == 100


def test_topology_domains_are_the_ids_of_a_label_column() -> None:
    snapshot = Snapshot()
    for name, zone in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("none", None)):
        snapshot.apply_node(node(name, labels={"zone": zone} if zone else None))
    column = snapshot.nodes.labels.column("zone")
    first, second, third, lacking = column.ids[:4].tolist()
    assert (first == third, first != second, lacking) == (True, True, 0)
    assert [column.values[one] for one in (first, second)] == ["a", "b"]
