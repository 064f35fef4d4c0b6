"""Remembering must never change an answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.remembering import Remembered

values = st.recursive(st.integers(0, 3) | st.text(max_size=1), lambda inner: st.lists(inner, max_size=2), max_leaves=4)


@given(st.lists(values, max_size=30))
def test_the_answer_is_that_of_the_work(asked: list[Any]) -> None:
    remembered: Remembered[str] = Remembered(limit=4)
    for value in asked:
        assert remembered.of(value, lambda value=value: repr(value)) == repr(value)  # type: ignore[misc]


def test_equal_values_are_worked_out_once() -> None:
    remembered: Remembered[int] = Remembered()
    calls: list[int] = []
    for _ in range(3):
        remembered.of({"a": [1]}, lambda: calls.append(1) or 7)  # type: ignore[func-returns-value]
    assert calls == [1]


def test_old_answers_are_forgotten() -> None:
    remembered: Remembered[int] = Remembered(limit=4)
    for number in range(100):
        remembered.of(number, lambda: 0)
    assert len(remembered._known) <= 4
