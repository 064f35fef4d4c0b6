"""The written forms of a plan, and the errors when a plan is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from restow.model.wire import WireError
from restow.planning.plan import (
    Move,
    Place,
    Plan,
    PlanRefusal,
    configuration_fingerprint,
    encode_plan,
    plan_document,
    read_plan,
)

MOVE = Move(order=1, wave=1, namespace="a", pod="p", source="n1", target="n2", uid="u")
PLAN = Plan(
    strategy="balance",
    objective="free-nodes",
    moves=(MOVE,),
    places=(Place(namespace="a", pod="q", node="n1"),),
    before={"freeNodes": 1},
    after={"freeNodes": 2},
    bound=3,
    seconds=0.5,
    refusals=(PlanRefusal(namespace="a", pod="r", reason="no controller would recreate it"),),
    versions={"Pod a/p": "7"},
    configuration=configuration_fingerprint({"scheduler": {}}),
)


def test_plan_document_has_the_fields_that_programs_rely_on() -> None:
    expected = {
        "strategy": "balance",
        "objective": "free-nodes",
        "moves": [{"order": 1, "wave": 1, "namespace": "a", "pod": "p", "from": "n1", "to": "n2"}],
        "places": [{"namespace": "a", "pod": "q", "node": "n1"}],
        "before": {"freeNodes": 1},
        "after": {"freeNodes": 2},
        "bound": 3,
        "seconds": 0.5,
        "refusals": [{"namespace": "a", "pod": "r", "reason": "no controller would recreate it"}],
    }
    assert json.dumps(plan_document(PLAN)) == json.dumps(expected), "in this order"


def test_saved_plan_is_read_back_whole() -> None:
    assert read_plan(encode_plan(PLAN), "f") == PLAN


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
def test_printed_plan_is_read_without_the_fields_of_files(dump: Callable[[Any], str]) -> None:
    read = read_plan(dump(plan_document(PLAN)).encode(), "f")
    assert (read.moves[0].uid, read.versions, read.configuration) == ("", {}, "")
    assert plan_document(read) == plan_document(PLAN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("strategy: 5", "strategy: expected a string, got the number 5", id="a wrong type"),
        pytest.param("{strategy: s, speed: 9}", "speed: unknown field", id="an unknown field"),
        pytest.param("{strategy: s, moves: [{order: one}]}", "moves[0].order: expected an integer", id="inside a move"),
        pytest.param("{strategy: s, moves: [{order: 1}]}", "moves[0].from: missing", id="move to an unknown node"),
        pytest.param("moves: []", "strategy: missing", id="no strategy"),
        pytest.param("", "expected one plan, found 0 documents", id="an empty file"),
        pytest.param("{strategy: s}\n---\n{strategy: t}", "expected one plan, found 2 documents", id="two plans"),
        pytest.param("[", "not JSON", id="broken text"),
    ],
)
def test_file_that_is_no_plan_is_refused_with_paths(text: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_plan(text.encode(), "plan.yaml")
    assert message in str(caught.value)


def test_all_problems_of_a_plan_are_reported_together() -> None:
    with pytest.raises(WireError) as caught:
        read_plan(b"{strategy: 1, moves: 2, places: 3}", "f")
    assert len(caught.value.problems) == 3


def test_waves_are_in_order_and_so_are_their_moves() -> None:
    def move(order: int, wave: int) -> Move:
        return Move(order=order, wave=wave, namespace="a", pod=f"p{order}", source="n1", target="n2")

    plan = Plan(strategy="s", moves=(move(3, 2), move(2, 1), move(1, 1)))
    assert [(wave, [move.order for move in moves]) for wave, moves in plan.waves()] == [(1, [1, 2]), (2, [3])]


def test_equal_configurations_have_one_fingerprint_in_any_order() -> None:
    assert configuration_fingerprint({"a": 1, "b": {"c": 2}}) == configuration_fingerprint({"b": {"c": 2}, "a": 1})
    assert configuration_fingerprint({"a": 1}) != configuration_fingerprint({"a": 2})
