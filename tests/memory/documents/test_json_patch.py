"""JSON patch against the cases of RFC 6902, appendix A, and against upstream's habits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.json_patch import MalformedPatch, PatchError, json_patch

APPENDIX = [
    ("A.1 add a member", {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    (
        "A.2 add an element",
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    ("A.3 remove a member", {"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    (
        "A.4 remove an element",
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    (
        "A.5 replace",
        {"baz": "qux", "foo": "bar"},
        [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"},
    ),
    (
        "A.6 move a value",
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        "A.7 move an element",
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        "A.8 test passes",
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    (
        "A.10 add a nested object",
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    (
        "A.11 unknown members ignored",
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
    ),
    ("A.14 escapes", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    (
        "A.16 append",
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    ("slash in a key", {"a/b": 1}, [{"op": "replace", "path": "/a~1b", "value": 2}], {"a/b": 2}),
    ("replace the whole", {"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ("copy", {"a": [1], "b": 2}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": [1], "b": 2, "c": [1]}),
    ("test for null where nothing is", {"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
    (
        "a replace may add, as upstream has it",
        {"a": 1},
        [{"op": "replace", "path": "/b", "value": 2}],
        {"a": 1, "b": 2},
    ),
    ("numbers compare by value", {"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
]


@pytest.mark.parametrize(
    ("document", "patch", "expected"), [case[1:] for case in APPENDIX], ids=[case[0] for case in APPENDIX]
)
def test_json_patch_changes_the_document(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert json_patch(document, patch) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "operation", "why"),
    [
        ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "bar"}, "testing value /baz failed"),
        ({"foo": "bar"}, {"op": "add", "path": "/baz/bat", "value": "qux"}, "missing path"),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": "10"}, "testing value /~01 failed"),
        ({"a": 1}, {"op": "remove", "path": "/b"}, "missing path"),
        ({"a": 1}, {"op": "replace", "path": "/b/c", "value": 1}, "missing path"),
        ({"a": 1}, {"op": "spam", "path": "/a"}, "unknown op 'spam'"),
        ({"a": 1}, {"op": "add", "path": "/a"}, "needs the member 'value'"),
        ({"a": 1}, {"op": "move", "path": "/a"}, "needs the member 'from'"),
        ({"a": 1}, {"op": "add"}, "needs the member 'path'"),
        ({"a": [1]}, {"op": "add", "path": "/a/5", "value": 1}, "invalid index"),
        ({"a": [1]}, {"op": "add", "path": "/a/01", "value": 1}, "invalid array index"),
        ({"a": [1]}, {"op": "remove", "path": "/a/-"}, "missing path"),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}, "its own child"),
        ({"a": True}, {"op": "test", "path": "/a", "value": 1}, "testing value"),
        ({"a": 1}, {"op": "add", "path": "b", "value": 1}, "does not start with"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_operations_that_do_not_fit(document: Any, operation: Any, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        json_patch(document, [operation])


@pytest.mark.parametrize("patch", [{}, ["x"], None], ids=["an object", "a list of text", "nothing"])
def test_malformed_json_patch_is_refused(patch: Any) -> None:
    with pytest.raises(MalformedPatch):
        json_patch({"a": 1}, patch)


def test_failing_json_patch_operation_undoes_earlier_ones() -> None:
    document = {"a": [1, 2]}
    with pytest.raises(PatchError):
        json_patch(document, [{"op": "add", "path": "/a/-", "value": 3}, {"op": "remove", "path": "/b"}])
    assert document == {"a": [1, 2]}


@given(st.dictionaries(st.text(max_size=4), st.integers(), min_size=1), st.data())
def test_adding_and_removing_a_member_is_nothing(document: dict[str, int], data: st.DataObject) -> None:
    name = data.draw(st.text(max_size=4).filter(lambda text: text not in document))
    path = "/" + name.replace("~", "~0").replace("/", "~1")
    patch = [{"op": "add", "path": path, "value": 1}, {"op": "remove", "path": path}]
    assert json_patch(document, patch) == document


def test_copies_of_copies_are_bounded() -> None:
    operations = [{"op": "copy", "from": "/a", "path": f"/a/{number}"} for number in range(40)]
    with pytest.raises(PatchError, match="accumulated size increase"):
        json_patch({"a": {"text": "x" * 1000}}, operations)
