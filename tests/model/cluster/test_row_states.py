"""Row states: rows have one number exactly while all their cells are equal, also after renumbering."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.cluster import row_states
from restow.model.cluster.room import Room
from restow.model.cluster.rows import Rows
from restow.model.cluster.undo_log import UndoLog

NAMES = ["a", "b", "c", "d", "e"]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["offer", "charge", "discharge", "hold", "try", "gpu"]),
        st.sampled_from(NAMES),
        st.integers(0, 2),
    ),
    max_size=30,
)


def apply_event(room: Room, log: UndoLog, event: str, row: int, amount: int) -> None:
    cells = ((1, amount),)
    match event:
        case "offer":
            room.set_allocatable(row, cells)
        case "charge" | "discharge":
            (room.charge if event == "charge" else room.discharge)("requested", row, cells, cells)
        case "hold":
            room.charge("reserved", row, cells, ())
        case "try":
            mark = log.mark()
            room.charge("requested", row, ((2, 1 + amount),), ())
            log.undo_to(mark)
        case "gpu":
            room.set_allocatable(row, ((room.column(f"gpu-{amount}"), 1),))


@pytest.mark.parametrize("spare", [8, 1024], ids=["numbers run out", "there are enough"])
@given(events=EVENTS)
def test_rows_share_a_state_exactly_while_they_have_equal_room(spare: int, events: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_states, "_SPARE", spare)
        log = UndoLog()
        rows = Rows(log, capacity=2)
        room = Room(log, rows)
        for event, name, amount in events:
            apply_event(room, log, event, rows.ensure_row(name), amount)
            ledgers = (room.allocatable.cells, room.free, room.nonzero.cells)
            cells = [tuple(tuple(one[:, row].tolist()) for one in ledgers) for row in range(rows.size)]
            numbers = room.states.of_row[: rows.size].tolist()
            is_told_apart = len(set(zip(cells, numbers, strict=True))) == len(set(cells)) == len(set(numbers))
            assert is_told_apart or not room.states.shared
            assert max(numbers) < room.states.most


def test_recurring_state_keeps_its_number_until_renumbering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_states, "_SPARE", 6)
    log = UndoLog()
    rows = Rows(log, capacity=4)
    room = Room(log, rows)
    row, epoch = rows.ensure_row("a"), room.states.epoch
    first = room.states.at[row]
    room.charge("requested", row, ((1, 5),), ())
    assert room.states.at[row] != first
    room.discharge("requested", row, ((1, 5),), ())
    assert (room.states.at[row], room.states.epoch) == (first, epoch)
    for _ in range(20):
        room.charge("requested", row, ((1, 1),), ())
    assert room.states.epoch > epoch


def test_states_are_not_shared_while_every_row_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_states, "_SPARE", 6)
    log = UndoLog()
    rows = Rows(log, capacity=8)
    room = Room(log, rows)
    for offered in range(8):
        room.set_allocatable(rows.ensure_row(f"n{offered}"), ((1, 10 + offered),))
    while room.states.shared:
        room.charge("requested", 0, ((1, 1),), ())
    for row in range(8):
        room.set_allocatable(row, ((1, 10),))
    room.discharge("requested", 0, ((1, room.requested.at[1][0]),), ())
    while not room.states.shared:
        room.charge("requested", 1, ((1, 1),), ())
    assert len(set(room.states.of_row.tolist())) == 2
