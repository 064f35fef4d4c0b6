"""Label and field selectors: the grammar, what is refused and why, and matching against a naive reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.objects import SelectorRequirement, SelectorSpec
from restow.model.selectors import (
    FieldSelector,
    LabelSelector,
    Requirement,
    SelectorError,
    label_selector,
    parse_field_selector,
    parse_label_selector,
)


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("!a", {}, True),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,,c)", {"a": ""}, True),
        ("a in ()", {"a": ""}, True),
        ("a notin (b)", {"a": "b"}, False),
        ("a notin (b)", {}, True),
        ("a>3", {"a": "4"}, True),
        ("a>3", {"a": "x"}, False),
        ("a>3", {}, False),
        ("a<5", {"a": "-4"}, True),
        ("in in (in),notin notin (notin)", {"in": "in"}, True),
        (" a = b , c ", {"a": "b", "c": "x"}, True),
        ("example.com/role=db", {"example.com/role": "db"}, True),
        ("a=b,a=c", {"a": "b"}, False),
    ],
)
def test_selector_text_matches_labels(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_label_selector(text).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a b", "label selector 'a b': found 'b', expected one of = == != > < in notin"),
        ("a,", "label selector 'a,': found the end, expected a key or '!' after ','"),
        (",a", "label selector ',a': found ',', expected a key or '!'"),
        ("!", "label selector '!': found the end, expected a key"),
        ("!a=b", "label selector '!a=b': found '=', expected ',' or the end"),
        ("a in b", "label selector 'a in b': found 'b', expected '('"),
        ("a in (b", "label selector 'a in (b': found the end, expected ',' or ')'"),
        ("a=b=c", "label selector 'a=b=c': found '=', expected ','"),
        ("a!==b", "label selector 'a!==b': found '=', expected a value"),
        (
            "a>-3",
            "value '-3' of 'a': a label value must be letters, digits, '-', '_' or '.', "
            "and start and end with a letter or digit",
        ),
        ("a>x", "values of 'a': Gt needs exactly one integer"),
        ("a/b/c", "key 'a/b/c': at most one '/' is allowed"),
        ("/a", "key '/a': the prefix before '/' is empty"),
        ("a/", "key 'a/': the name is empty"),
        (
            "-a",
            "key '-a': the name must be letters, digits, '-', '_' or '.', and start and end with a letter or digit",
        ),
        (
            "A_b/c",
            "key 'A_b/c': prefix must be lower case letters, digits, '-' or '.', "
            "and start and end with a letter or digit",
        ),
        ("a=" + "b" * 64, f"value '{'b' * 64}' of 'a': a label value must be no longer than 63 characters"),
        (
            "a=-b",
            "value '-b' of 'a': a label value must be letters, digits, '-', '_' or '.', "
            "and start and end with a letter or digit",
        ),
    ],
)
def test_malformed_selector_text_is_reported(text: str, complaint: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        parse_label_selector(text)
    assert str(refusal.value) == complaint


def test_absent_selector_matches_nothing_and_empty_matches_everything() -> None:
    assert not label_selector(None).matches({"a": "b"})
    assert label_selector({}).matches(None)
    assert label_selector(SelectorSpec()).everything


def test_selector_in_an_object_joins_labels_and_expressions() -> None:
    selector = label_selector(
        {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}]}
    )
    assert str(selector) == "a=b,c!=d"


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        (SelectorRequirement(key="a", operator="In"), "values of 'a': In needs at least one"),
        (SelectorRequirement(key="a", operator="Exists", values=["b"]), "values of 'a': Exists takes none"),
        (
            SelectorRequirement(key="a", operator="Gt", values=["1"]),
            "operator 'Gt' of 'a': expected one of In, NotIn, Exists, DoesNotExist",
        ),
        (SelectorRequirement(key="", operator="Exists"), "key '': the name is empty"),
    ],
)
def test_malformed_selector_expression_is_reported(expression: SelectorRequirement, complaint: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        label_selector(SelectorSpec(match_expressions=[expression]))
    assert str(refusal.value) == complaint


def test_selector_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(SelectorError, match="matchLabels"):
        label_selector({"matchLabels": ["a"]})


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("a=b", (("a", False, "b"),)),
        ("a==b,c.d!=e", (("a", False, "b"), ("c.d", True, "e"))),
        ("a=", (("a", False, ""),)),
        (r"a=b\,c\=d\\", (("a", False, "b,c=d\\"),)),
        (",a=b,", (("a", False, "b"),)),
    ],
)
def test_field_selector_is_parsed_into_terms(text: str, terms: tuple[tuple[str, bool, str], ...]) -> None:
    assert parse_field_selector(text).terms == terms


@pytest.mark.parametrize("text", ["a", "=b", "a=b=c", "a=b\\", "a=b\\c"])
def test_malformed_field_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="field selector"):
        parse_field_selector(text)


@given(st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.booleans(), st.text(max_size=5)), max_size=4))
def test_field_selector_text_survives(terms: list[tuple[str, bool, str]]) -> None:
    selector = FieldSelector(tuple(terms))
    assert parse_field_selector(str(selector)) == selector


keys = st.sampled_from(["a", "b", "x.io/c", "in"])
values = st.sampled_from(["", "a", "b", "5", "in"])
label_values = values | st.just("-1")
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3).map(tuple)),
    st.builds(Requirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, keys, st.sampled_from(["Gt", "Lt"]), st.sampled_from([("3",), ("5",)])),
)
label_maps = st.dictionaries(keys, label_values)


def naive_match(requirement: Requirement, labels: dict[str, str]) -> bool:
    if requirement.operator in ("Gt", "Lt"):
        value = labels.get(requirement.key, "")
        if not value.lstrip("-").isdigit():
            return False
        difference = int(value) - int(requirement.values[0])
        return difference > 0 if requirement.operator == "Gt" else difference < 0
    listed = requirement.key in labels and labels[requirement.key] in requirement.values
    present = requirement.key in labels
    return {"In": listed, "NotIn": not listed, "Exists": present, "DoesNotExist": not present}[requirement.operator]


@given(st.lists(requirements, max_size=4), label_maps)
def test_matching_agrees_with_a_naive_reference(wanted: list[Requirement], labels: dict[str, str]) -> None:
    assert LabelSelector(tuple(wanted)).matches(labels) is all(
        naive_match(requirement, labels) for requirement in wanted
    )


@given(st.lists(requirements, max_size=4), label_maps)
def test_selector_text_means_the_same(wanted: list[Requirement], labels: dict[str, str]) -> None:
    selector = LabelSelector(tuple(wanted))
    assert parse_label_selector(str(selector)).matches(labels) is selector.matches(labels)


@given(st.text(max_size=20) | st.text("ab=!,()<> \tin.-/5\\", max_size=20))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            parse(text)
        except SelectorError as refusal:
            assert str(refusal)
