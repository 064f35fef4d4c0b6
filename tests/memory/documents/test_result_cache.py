"""Remembering must never change an answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.result_cache import ResultCache

values = st.recursive(st.integers(0, 3) | st.text(max_size=1), lambda inner: st.lists(inner, max_size=2), max_leaves=4)


@given(st.lists(values, max_size=30))
def test_the_answer_is_that_of_the_work(asked: list[Any]) -> None:
    remembered: ResultCache[str] = ResultCache(limit=4)
    for value in asked:
        assert remembered.get_or_compute(value, lambda value=value: repr(value)) == repr(value)  # type: ignore[misc]


def test_equal_values_are_worked_out_once() -> None:
    remembered: ResultCache[int] = ResultCache()
    calls: list[int] = []
    for _ in range(3):
        remembered.get_or_compute({"a": [1]}, lambda: calls.append(1) or 7)  # type: ignore[func-returns-value]
    assert calls == [1]


def test_full_cache_drops_its_oldest_results() -> None:
    remembered: ResultCache[int] = ResultCache(limit=4)
    for number in range(100):
        remembered.get_or_compute(number, lambda: 0)
    assert len(remembered._known) <= 4
