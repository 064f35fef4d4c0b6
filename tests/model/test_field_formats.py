"""The quick look at quantities, times and durations says the same as the one that names every problem."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.model.field_formats import are_formatted_fields_readable
from restow.model.kinds import DEPLOYMENT, NODE, POD, RESERVATION, Kind
from restow.model.problems import find_problems

CPU = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
MANY = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]}


@pytest.mark.parametrize(
    ("kind", "document", "readable"),
    [
        pytest.param(POD, {"spec": CPU}, True, id="a quantity deep inside"),
        pytest.param(POD, {"spec": MANY}, False, id="a word for a quantity"),
        pytest.param(POD, {"metadata": {"name": "p", "creationTimestamp": "now"}}, False, id="a word for a time"),
        pytest.param(POD, {"metadata": {"name": "p", "creationTimestamp": "2026-01-31T12:00:00Z"}}, True, id="a time"),
        pytest.param(NODE, {"status": {"allocatable": {"cpu": "x"}}}, False, id="in a map"),
        pytest.param(DEPLOYMENT, {"spec": {"template": {"spec": MANY}}}, False, id="in a template"),
        pytest.param(RESERVATION, {"spec": {"ttl": "soon"}}, False, id="a word for a duration"),
        pytest.param(NODE, {}, True, id="nothing to look at"),
    ],
)
def test_quantities_and_times_deep_in_an_object_are_checked(
    kind: Kind[Any], document: dict[str, Any], readable: bool
) -> None:
    whole = {"metadata": {"name": "x"}, **document}
    assert are_formatted_fields_readable(msgspec.convert(whole, kind.type)) is readable
    assert (not find_problems(kind.type, whole, check_formats=True)) is readable


def test_cached_answers_are_the_same_as_the_first() -> None:
    good, bad = (msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, POD.type) for spec in (CPU, MANY))
    assert [are_formatted_fields_readable(annotations) for annotations in (good, bad, good, bad)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_valid_text_is_remembered_for_its_own_format_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restow.model.field_formats._MAX_TEXTS", 2)
    moment = "2026-01-31T12:00:0"
    pods = [
        msgspec.convert({"metadata": {"name": "p", "creationTimestamp": f"{moment}{second}Z"}}, POD.type)
        for second in range(5)
    ]
    assert all(are_formatted_fields_readable(pod) for pod in (*pods, *pods))
    asked = {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{moment}4Z"}}}]}
    assert not are_formatted_fields_readable(msgspec.convert({"metadata": {"name": "p"}, "spec": asked}, POD.type))
