"""YAML as kubectl reads it, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from restow.model.yaml_text import MAX_DEPTH, YamlError, load_documents


def load(text: str) -> list[Any]:
    return [value for _, value in load_documents(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:22", "22:22"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("0777", 511),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("0E0", 0.0),
        (".5", 0.5),
        ("5.", 5.0),
        (".inf", float("inf")),
        ("1.2.3", "1.2.3"),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("=", "="),
        ("0b", "0b"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_yaml_scalars_as_in_yaml_1_2(text: str, value: object) -> None:
    assert load(f"a: {text}") == [{"a": value}]


def test_documents_carry_their_first_line() -> None:
    assert list(load_documents("---\na: 1\n---\n---\n\nb: 2\n")) == [(2, {"a": 1}), (4, None), (6, {"b": 2})]


def test_yaml_keys_must_be_strings() -> None:
    assert load("1: a\ntrue: b\n0.5: c") == [{"1": "a", "true": "b", "0.5": "c"}]


def test_yaml_merge_keys_and_aliases() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {x: 9, z: 3}\nall: {<<: [*b, *m], y: 5}\n"
    assert load(text)[0]["all"] == {"x": 1, "y": 5, "z": 3}


def test_anchored_scalar_as_key_and_value() -> None:
    assert load("a: &x name\n*x : *x") == [{"a": "name", "name": "name"}]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\na: 2", "line 2, column 1: key 'a' appears twice"),
        ("a:\n  b: 1\n  'b': 2", "line 3, column 3: key 'b' appears twice"),
        ("a: *missing", "line 1, column 4: unknown alias 'missing'"),
        ("a: &a [*a]", "line 1, column 8: unknown alias 'a'"),
        ("[a]: b", "line 1, column 1: a key must be a string"),
        ("? ~\n: b", "line 1, column 3: a key must be a string"),
        (
            "a: !!python/name:os.system x",
            "line 1, column 4: tag 'tag:yaml.org,2002:python/name:os.system' is not supported",
        ),
        ("a: {<<: 5}", "line 1, column 9: '<<' needs a map or a list of maps"),
        ("a: [1, 2", "line 2, column 1: while parsing a flow sequence did not find expected ',' or ']'"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed in this context"),
        (
            "a:\n\tb: 1",
            "line 2, column 1: while scanning for the next token found character that cannot start any token",
        ),
        ("a: \x01", "line 1, column 1: character 1 is not allowed"),
        ("a: " + "[" * 200, f"line 1, column {4 + MAX_DEPTH}: nested deeper than 100 levels"),
    ],
    ids=lambda text: text[:30],
)
def test_refusals_have_line_and_column(text: str, complaint: str) -> None:
    with pytest.raises(YamlError) as refusal:
        load(text)
    assert str(refusal.value) == complaint


def test_a_bomb_of_aliases_is_refused() -> None:
    letters = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise(letters)]
    with pytest.raises(YamlError, match="aliases repeat too much"):
        load("\n".join(lines))


def test_a_hundred_thousand_open_brackets_do_no_harm() -> None:
    with pytest.raises(YamlError, match="nested deeper"):
        load("a: " + "[" * 100_000)


# Text that begins like a number is left out: PyYAML writes 0E0 without quotes, Kubernetes reads it as a number.
text = st.text(st.characters(codec="ascii")).filter(lambda word: word[:1] not in set("+-.0123456789"))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=10,
)


@given(plain)
def test_yaml_written_by_pyyaml_is_read_back(value: Any) -> None:
    assert load(yaml.safe_dump(value)) == [value]


@given(st.text(max_size=40) | st.text("a:-[]{}&*<\"' \n#|>?!", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        load(text)
    except YamlError as refusal:
        assert refusal.line >= 1
