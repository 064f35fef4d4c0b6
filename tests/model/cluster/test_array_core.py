"""Rows, row changes, ledgers, the undo log and incremental vectors on their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.cluster.incremental_vector import IncrementalVector
from restow.model.cluster.node_labels import NodeLabels
from restow.model.cluster.room import LIMIT, Ledger, Room
from restow.model.cluster.row_changes import RowChanges
from restow.model.cluster.rows import Rows, Which
from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.undo_log import UndoLog
from restow.model.selectors import Requirement


def rows_of(*names: str) -> Rows:
    rows = Rows(UndoLog(), capacity=2)
    for name in names:
        rows.ensure_row(name)
    return rows


def test_row_is_stable_and_reused_only_when_released() -> None:
    rows = rows_of("a", "b", "c")
    rows.release("b")
    assert (rows.ensure_row("d"), rows.ensure_row("a"), rows.ensure_row("e")) == (1, 0, 3)
    assert (rows.size, rows.name(1), rows.names()) == (4, "d", ["a", "c", "d", "e"])


@pytest.mark.parametrize("capacity", [16, 4096], ids=["few rows: by stamps", "many rows: by journal"])
@given(touched=st.lists(st.integers(0, 9), max_size=60), look=st.integers(0, 60))
def test_row_changes_since_a_generation_are_the_rows_touched_after_it(
    touched: list[int], look: int, capacity: int
) -> None:
    changes = RowChanges(Rows(UndoLog(), capacity))
    for row in touched:
        changes.touch(row)
    assert sorted(changes.since(min(look, len(touched)))) == sorted(set(touched[look:]))
    few = changes.few_since(min(look, len(touched)))
    assert sorted(few) == sorted(set(touched[look:])) if few is not None else len(touched[look:]) > 4


def test_row_changes_before_the_journal_are_read_from_the_stamps() -> None:
    changes = RowChanges(rows_of("a", "b", "c"))
    changes.touch(2)
    for _ in range(20_000):
        changes.touch(0)
    assert sorted(changes.since(0)) == [0, 2]
    assert sorted(changes.since(1)) == [0]


def test_labels_that_no_node_has_get_no_column() -> None:
    rows = rows_of("a")
    labels = NodeLabels(rows)
    labels.write(0, {"zone": "z"})
    wanted, absent = Requirement("disk", "In", ("ssd",)), Requirement("disk", "DoesNotExist")
    assert [labels.mask(one, rows.every).tolist() for one in (wanted, absent)] == [[False], [True]]
    assert labels._columns == {}
    for name in "bc":  # beyond the capacity of two
        labels.write(rows.ensure_row(name), {"disk": "ssd"} if name == "c" else {})
    assert labels.mask(Requirement("gpu", "NotIn", ("x", "y")), rows.every).tolist() == [True] * 3
    assert labels.mask(wanted, rows.every).tolist() == [False, False, True]
    labels.write(2, None)
    assert labels.mask(wanted, rows.every).tolist() == [False] * 3


@given(st.lists(st.integers(-(2**64), 2**64), max_size=20))
def test_ledger_subtracts_exactly_what_was_added_and_never_wraps(amounts: list[int]) -> None:
    ledger = Ledger(1, 1)
    for amount in amounts:
        ledger.add(0, ((0, amount),))
        assert abs(int(ledger.cells[0, 0])) <= LIMIT
    assert ledger.exact(0, 0) == sum(amounts)
    for amount in amounts:
        ledger.add(0, ((0, -amount),))
    assert (ledger.exact(0, 0), int(ledger.cells[0, 0])) == (0, 0)


def test_resource_offered_later_gets_a_column_with_earlier_requests() -> None:
    log = UndoLog()
    rows = Rows(log)
    room = Room(log, rows)
    room.charge("requested", rows.ensure_row("a"), room.resources.amounts({"cpu": 5}), ())
    unlisted = room.resources.unlisted_resources({"gpu": 1})
    room.charge("requested", rows.ensure_row("b"), room.resources.amounts({"gpu": 1}), ())
    assert (len(room.free), room.left(unlisted[0].number, 1)) == (4, -1)
    column = room.column("gpu")
    gpu = room.requested.cells[column]
    assert gpu[:2].tolist() == [0, 1]
    assert gpu.flags.c_contiguous


def test_outer_undo_takes_back_what_an_inner_mark_kept() -> None:
    log, table = UndoLog(), {"a": 1}
    outer = log.mark()
    log.put(table, "b", 2)
    inner = log.mark()
    log.drop(table, "a")
    log.keep(inner)
    assert table == {"b": 2}
    log.undo_to(outer)
    assert table == {"a": 1}


def test_ended_mark_cannot_be_undone() -> None:
    log = UndoLog()
    mark = log.mark()
    log.keep(mark)
    with pytest.raises(KeyError):
        log.undo_to(mark)


def test_incremental_vector_computes_only_changed_rows() -> None:
    rows = rows_of(*"abcdefgh")
    changes, source, asked = RowChanges(rows), np.arange(8), []

    def compute(which: Which) -> np.ndarray:
        asked.append(which)
        return source[which] * 2

    vector = IncrementalVector(rows, (changes,), compute)
    vector.read()
    source[3] = 50
    changes.touch(3)
    assert vector.read().tolist() == [0, 2, 4, 100, 8, 10, 12, 14]
    assert vector.read().tolist() == [0, 2, 4, 100, 8, 10, 12, 14]
    assert [len(source[which]) for which in asked] == [0, 8, 1]


@pytest.mark.parametrize(
    ("events", "is_new"),
    [
        pytest.param([("5", False), ("5", False)], [True, False], id="the same event twice"),
        pytest.param([("5", False), ("4", False)], [True, False], id="an older event comes late"),
        pytest.param([("5", False), ("5", True)], [True, True], id="a deletion found by listing has the last version"),
        pytest.param([("5", False), ("7", True), ("6", False)], [True, True, False], id="an update after the deletion"),
        pytest.param([("7", True), ("9", False)], [True, True], id="made again under the same name"),
        pytest.param([("9", False), ("7", True)], [True, False], id="a late deletion of its predecessor"),
        pytest.param([("", False), ("", False)], [True, True], id="no versions to compare"),
    ],
)
def test_seen_versions_tell_new_events_from_late_and_repeated_ones(
    events: list[tuple[str, bool]], is_new: list[bool]
) -> None:
    versions = SeenVersions(UndoLog())
    assert [versions.is_news("x", version_number(version), gone=gone) for version, gone in events] == is_new


def test_offered_range_follows_every_change() -> None:
    log = UndoLog()
    rows = Rows(log)
    room = Room(log, rows)

    def offer(name: str, cpu: int) -> tuple[int, int]:
        room.set_allocatable(rows.ensure_row(name), room.resources.columns({"cpu": cpu, "pods": 9}))
        column = room.column("cpu")
        return room.offered_range()[0][column], room.offered_range()[1][column]

    assert room.offered_range() == ([0] * 4, [0] * 4)
    assert offer("a", 5) == (5, 5)
    assert offer("b", 7) == (5, 7)
    rows.ensure_row("offers nothing")
    assert offer("a", 5) == (0, 7)
    mark = log.mark()
    assert offer("offers nothing", 3) == (3, 7)
    assert offer("b", 4) == (3, 5)
    log.undo_to(mark)
    assert offer("a", 5) == (0, 7)
    thing = room.column("thing")
    assert [bounds[thing] for bounds in room.offered_range()] == [0, 0]


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("", None), ("x7", None), ("٧", None), ("9" * 5000, None)],
    ids=["a number", "none", "no number", "digits that servers do not use", "more digits than are ever read"],
)
def test_resource_version_is_parsed_as_a_number(text: str, number: int | None) -> None:
    assert version_number(text) == number
