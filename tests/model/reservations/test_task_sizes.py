"""Which of several tasks, or pods, is larger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.reservations.task_sizes import TaskSizes, largest_first
from restow.model.resources import vector_fits
from tests.model.reservations.builders import task, web_pod, web_reservation

ASKED = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 5).map(str))


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        pytest.param({"a": {"cpu": "2"}, "b": {"cpu": "1"}}, "ba", id="the smallest first"),
        pytest.param({"b": {"cpu": "1"}, "a": {"cpu": "1"}}, "ab", id="by name among equals"),
        pytest.param(
            {"a": {"cpu": "1", "memory": "1Gi"}, "b": {"cpu": "1"}},
            "ba",
            id="the task that requests less of any resource",
        ),
        pytest.param({"a": {"cpu": "1", "memory": "9Gi"}, "b": {"cpu": "2", "memory": "1Gi"}}, "ba", id="units aside"),
        pytest.param({"a": {"cpu": "1"}, "b": {"cpu": "no number"}}, "ba", id="what cannot be read has no seats"),
    ],
)
def test_tasks_are_sorted_by_size(tasks: dict[str, dict[str, str]], expected: str) -> None:
    one = web_reservation("r", *(task(1, asked, name=name) for name, asked in tasks.items()))
    assert "".join(name for name, _ in TaskSizes().smallest_first(one)) == expected


def test_changed_reservation_is_sized_anew() -> None:
    sizes, one = TaskSizes(), web_reservation("r", task(1, {"cpu": "1"}, name="a"), task(1, {"cpu": "2"}, name="b"))
    assert [name for name, _ in sizes.smallest_first(one)] == ["a", "b"]
    changed = [task(1, {"cpu": "3"}, name="a"), task(1, {"cpu": "2"}, name="b")]
    assert [name for name, _ in sizes.smallest_first(replace(one, spec=replace(one.spec, tasks=changed)))] == ["b", "a"]


@given(st.lists(ASKED, max_size=6))
def test_pod_that_fits_into_another_comes_before_it(asked: list[dict[str, str]]) -> None:
    one = web_reservation("r", *(task(1, each, name=str(number)) for number, each in enumerate(asked)))
    ordered = [size for _, size in TaskSizes().smallest_first(one)]
    for place, smaller in enumerate(ordered):
        assert not any(vector_fits(larger, smaller) and not vector_fits(smaller, larger) for larger in ordered[place:])


def test_pods_are_sorted_by_size() -> None:
    sizes = {"a": "1", "b": "3", "c": "1", "d": "2", "e": "3"}
    pods = [web_pod(name, {"cpu": cpu}) for name, cpu in sizes.items()]
    assert "".join(one.metadata.name for one in largest_first(pods)) == "bedac"
