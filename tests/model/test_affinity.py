"""Node selectors, required and preferred node affinity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.model.affinity import (
    NodePreference,
    bound_to,
    names_of,
    node_constraint,
    node_preference,
    volume_constraint,
)
from restow.model.objects import NodeSelector, PodSpec
from restow.model.selectors import SelectorError

NODE = {"zone": "a", "cores": "16", "ssd": ""}


def spec(*terms: dict[str, Any], selector: dict[str, str] | None = None) -> PodSpec:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    return msgspec.convert({"nodeSelector": selector, "affinity": affinity}, PodSpec)


def labelled(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (labelled("zone", "In", "a", "b"), True),
        (labelled("zone", "In", "b"), False),
        (labelled("rack", "In", "b"), False),
        (labelled("zone", "NotIn", "a"), False),
        (labelled("rack", "NotIn", "a"), True),
        (labelled("ssd", "Exists"), True),
        (labelled("rack", "Exists"), False),
        (labelled("rack", "DoesNotExist"), True),
        (labelled("ssd", "DoesNotExist"), False),
        (labelled("cores", "Gt", "8"), True),
        (labelled("cores", "Gt", "16"), False),
        (labelled("cores", "Lt", "32"), True),
        (labelled("zone", "Gt", "1"), False),
        (labelled("rack", "Lt", "1"), False),
        (named("In", "n1"), True),
        (named("NotIn", "n1"), False),
        (named("In", "n2"), False),
        ({}, False),
        ({**labelled("zone", "In", "a"), **named("In", "n2")}, False),
        ({**labelled("zone", "In", "a"), **named("In", "n1")}, True),
    ],
    ids=str,
)
def test_node_selector_term_matches(term: dict[str, Any], expected: bool) -> None:
    assert node_constraint(spec(term)).matches("n1", NODE) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(PodSpec(), True, id="nothing asked for"),
        pytest.param(PodSpec(node_selector={"zone": "a"}), True, id="selector equal"),
        pytest.param(PodSpec(node_selector={"zone": "a", "rack": "1"}), False, id="every selector label must be equal"),
        pytest.param(spec(), False, id="no terms match nothing"),
        pytest.param(spec(labelled("zone", "In", "b"), named("In", "n1")), True, id="terms are alternatives"),
        pytest.param(spec(named("In", "n1"), selector={"zone": "b"}), False, id="selector and affinity both hold"),
        pytest.param(spec({}, named("In", "n1")), True, id="an empty term does not spoil the others"),
        pytest.param(spec(labelled("zone", "Near", "a"), named("In", "n1")), True, id="nor does an unreadable one"),
    ],
)
def test_node_constraint_matches(pod: PodSpec, expected: bool) -> None:
    assert node_constraint(pod).matches("n1", NODE) is expected


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        (PodSpec(), None),
        (spec(named("In", "n1")), {"n1"}),
        (spec(named("In", "n1"), named("In", "n2")), {"n1", "n2"}),
        (spec(named("In", "n1"), labelled("zone", "Exists")), None),
        (spec({"matchFields": named("In", "n1")["matchFields"] + named("In", "n2")["matchFields"]}), set()),
        (spec(named("NotIn", "n1")), None),
    ],
)
def test_node_names_pinned_by_match_fields(pod: PodSpec, names: set[str] | None) -> None:
    assert node_constraint(pod).pinned() == names


@pytest.mark.parametrize(
    ("term", "complaint"),
    [
        (
            labelled("zone", "Near", "a"),
            "operator 'Near' of 'zone': expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (labelled("zone", "Gt", "1", "2"), "values of 'zone': Gt needs exactly one integer"),
        (named("Exists"), "operator 'Exists' of field 'metadata.name': expected In or NotIn"),
        (named("In", "a", "b"), "values of field 'metadata.name': expected exactly one"),
    ],
)
def test_unreadable_term_matches_no_node_and_has_its_reason(term: dict[str, Any], complaint: str) -> None:
    constraint = node_constraint(spec(term))
    assert not constraint.matches("n1", NODE)
    assert constraint.problems == (complaint,)


def preference(*weighted: tuple[int, dict[str, Any]]) -> NodePreference:
    preferred = [{"weight": weight, "preference": term} for weight, term in weighted]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return node_preference(msgspec.convert({"affinity": affinity}, PodSpec))


def test_preference_sums_the_weights_that_match() -> None:
    wanted = preference(
        (5, labelled("zone", "In", "a")), (3, labelled("rack", "Exists")), (2, named("In", "n1")), (9, {})
    )
    assert wanted.score("n1", NODE) == 7
    assert node_preference(PodSpec()).score("n1", NODE) == 0


def test_unreadable_preference_is_refused() -> None:
    with pytest.raises(SelectorError, match="Near"):
        preference((5, labelled("zone", "Near", "a")))


def test_volume_without_affinity_is_anywhere() -> None:
    assert volume_constraint(None).matches("n1", None)
    assert not volume_constraint(NodeSelector()).matches("n1", None)


@pytest.mark.parametrize(
    ("terms", "there"),
    [
        pytest.param([], {"n1"}, id="what asks for nothing"),
        pytest.param([labelled("zone", "In", "a")], {"n1"}, id="what the node has"),
        pytest.param([labelled("zone", "In", "b"), labelled("ssd", "Exists")], {"n1"}, id="one of two alternatives"),
        pytest.param([labelled("zone", "In", "b")], set(), id="what the node has not"),
        pytest.param([{}], set(), id="a term without conditions matches nothing, and still does not"),
    ],
)
def test_spec_pinned_to_a_node_keeps_its_requirements(terms: list[dict[str, Any]], there: set[str]) -> None:
    bound = bound_to(spec(*terms) if terms else PodSpec(), "n1", but_not="n2")
    assert {name for name in ("n1", "n2", "n3") if node_constraint(bound).matches(name, NODE)} == there
    assert names_of(bound) == ({"n1"} if terms != [{}] else set())
