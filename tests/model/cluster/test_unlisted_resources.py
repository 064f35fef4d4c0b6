"""Resources that no node has ever offered: they get no column, and are like any other once a node offers some."""

from __future__ import annotations

import gc

import pytest

from restow.model.cluster import node_filters
from restow.model.cluster.resource_columns import UNLISTED
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, pod
from tests.model.cluster.snapshot_values import Fitting, all_values, free_amounts, ledger_amount

THING = "example.com/thing"


def odd(number: int) -> str:
    return f"example.com/odd-{number}"


@pytest.fixture
def snapshot() -> Snapshot:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    snapshot.apply_node(node("n2"))
    return snapshot


def test_resource_requested_by_pending_pods_only_gets_no_column(snapshot: Snapshot) -> None:
    columns = len(snapshot.room.free)
    classes = [snapshot.class_of(pod(f"p{number}", {odd(number): "1"})) for number in range(50)]
    fitting = Fitting(snapshot)
    assert not any(fitting.feasible(one).any() for one in classes)
    assert len(snapshot.room.resources) == len(snapshot.room.free) == columns


def test_resource_requested_by_foreign_pods_only_is_counted_without_a_column(snapshot: Snapshot) -> None:
    columns = len(snapshot.room.free)
    for number in range(50):
        snapshot.apply_pod(pod(f"p{number}", {odd(number): "3"}, on="n1"))
    assert len(snapshot.room.free) == columns
    assert (free_amounts(snapshot, "n1")[odd(7)], ledger_amount(snapshot, "requested", "n1", odd(7))) == (-3, 3)
    assert snapshot.room.is_overdrawn(0) and not snapshot.room.is_overdrawn(1)


def test_unlisted_resource_without_requests_is_dropped(snapshot: Snapshot) -> None:
    asking = snapshot.class_of(pod("p", {THING: "1"})).shape
    number = asking.amounts[-1][0]
    assert (number >= UNLISTED, snapshot.room.resources.name(number)) == (True, THING)
    del asking
    snapshot.class_of(pod("another"))  # the last one looked at is kept
    gc.collect()
    with pytest.raises(KeyError):
        snapshot.room.resources.name(number)


def test_first_node_that_offers_a_resource_accepts_pods_that_requested_it_before(snapshot: Snapshot) -> None:
    fitting, waiting = Fitting(snapshot), snapshot.class_of(pod("p", {THING: "2"}))
    assert fitting.feasible(waiting).tolist() == [False, False]
    snapshot.apply_node(node("n2", {"cpu": "8", "memory": "32Gi", "pods": "9", THING: "2"}, version=90))
    assert fitting.feasible(waiting).tolist() == [False, True]
    assert snapshot.class_of(pod("q", {THING: "2"})) is waiting
    snapshot.assume(pod("q", {THING: "2"}), "n2", at=0.0)
    assert fitting.feasible(waiting).tolist() == [False, False]


def test_earlier_requests_of_a_resource_count_once_a_node_offers_it(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("there", {THING: "3"}, on="n1"))
    snapshot.apply_pod(pod("leaver", {THING: "1"}, on="n1", leaving=True))
    snapshot.apply_node(node("n1", {"cpu": "8", "pods": "9", THING: "5"}, version=90))
    column = snapshot.room.resources.find(THING)
    assert column is not None and snapshot.room.free[column, 0] == 1
    assert (free_amounts(snapshot, "n1")[THING], ledger_amount(snapshot, "releasing", "n1", THING)) == (1, 1)
    assert node_filters.fits_on_row(snapshot.room, ((column, 1),), 0) and not node_filters.fits_on_row(
        snapshot.room, ((column, 2),), 0
    )
    snapshot.remove_pod(pod("there", on="n1", version=91))
    snapshot.remove_pod(pod("leaver", on="n1", version=91))
    assert (free_amounts(snapshot, "n1")[THING], ledger_amount(snapshot, "requested", "n1", THING)) == (5, 0)


def test_undo_after_a_resource_got_its_column_restores_the_amounts(snapshot: Snapshot) -> None:
    snapshot.apply_pod(pod("there", {THING: "3"}, on="n1"))
    before, mark = all_values(snapshot), snapshot.mark()
    snapshot.assume(pod("new", {THING: "2"}), "n1", at=0.0)
    snapshot.remove_pod(pod("there", on="n1", version=90))
    snapshot.apply_node(node("n3", {"cpu": "8", "pods": "9", THING: "5"}))
    snapshot.undo_to(mark)
    assert all_values(snapshot) == before


@pytest.mark.parametrize("offered", [False, True])
def test_row_lacks_an_overcommitted_listed_resource(snapshot: Snapshot, offered: bool) -> None:
    if offered:
        snapshot.apply_node(node("n2", {"cpu": "8", "pods": "9", THING: "1"}, version=90))
    snapshot.apply_pod(pod("there", {THING: "3"}, on="n1"))
    occupant = snapshot.occupants("n1")[0]
    assert snapshot.room.lacks(0, occupant.shape.amounts) is offered
