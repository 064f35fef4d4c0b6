"""The model gives the answers of Kubernetes' own libraries, as golden/regenerate.py recorded them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restow.model.affinity import node_constraint
from restow.model.objects import Node, Pod, Taint, Toleration
from restow.model.quantity import Quantity, QuantityError
from restow.model.resources import pod_requests
from restow.model.selectors import SelectorError, parse_field_selector, parse_label_selector
from restow.model.taints import tolerates_taint

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "kubernetes.json").read_text())


def ours(case: dict[str, Any]) -> Any:
    """Our answer to a recorded question, None for a refusal."""
    try:
        return _answer(case)
    except (QuantityError, SelectorError):
        return None


def _answer(case: dict[str, Any]) -> Any:
    match case["about"]:
        case "quantity":
            quantity = Quantity.parse(case["text"])
            return {"value": quantity.value, "milli": quantity.milli, "text": str(quantity)}
        case "label selector":
            return parse_label_selector(case["text"]).matches(case["set"])
        case "field selector":
            return parse_field_selector(case["text"]).matches(lambda path: case["set"].get(path, ""))
        case "requests":
            return pod_requests(msgspec.convert(case["pod"], Pod))
        case "affinity":
            node = msgspec.convert(case["node"], Node).metadata
            return node_constraint(msgspec.convert(case["pod"], Pod).spec).matches(node.name, node.labels)
        case _:
            taint, toleration = msgspec.convert(case["taint"], Taint), msgspec.convert(case["toleration"], Toleration)
            return tolerates_taint(toleration, taint, comparisons=case["comparisons"])


@pytest.mark.parametrize("about", sorted({case["about"] for case in CASES}))
def test_answers_match_the_go_libraries(about: str) -> None:
    cases = [case for case in CASES if case["about"] == about]
    wrong = [case for case in cases if ours(case) != (None if case["refused"] else case["answer"])]
    assert wrong == []


@pytest.mark.parametrize("about", ["quantity", "label selector", "field selector"])
def test_both_refusals_and_answers_were_recorded(about: str) -> None:
    assert {case["refused"] for case in CASES if case["about"] == about} == {True, False}
