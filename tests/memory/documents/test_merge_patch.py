"""Merge patch against the table of RFC 7386, and its laws."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.merge_patch import merge_patch

TABLE = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), TABLE, ids=[f"row {row}" for row in range(1, len(TABLE) + 1)])
def test_merge_patch_follows_rfc_7386(target: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == expected
    assert target == before


def merge_diff(source: Any, target: Any) -> Any:
    """The smallest merge patch from `source` to `target`, which must not contain nulls (a patch cannot say them)."""
    if not isinstance(source, dict) or not isinstance(target, dict):
        return target
    patch: dict[str, Any] = {name: None for name in source if name not in target}
    for name, value in target.items():
        if name not in source:
            patch[name] = value
        elif source[name] != value or type(source[name]) is not type(value):
            patch[name] = merge_diff(source[name], value)
    return patch


documents = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from("abcd"), documents, max_size=4)


@given(objects, objects)
def test_the_difference_leads_to_the_target(source: Any, target: Any) -> None:
    assert merge_patch(source, merge_diff(source, target)) == target


@given(objects)
def test_equal_documents_give_an_empty_merge_patch(document: Any) -> None:
    assert merge_diff(document, document) == {}
    assert merge_patch(document, {}) == document


@given(objects, objects)
def test_patching_twice_is_patching_once(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
