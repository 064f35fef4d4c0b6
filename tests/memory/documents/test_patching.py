"""The door to all patch formats: content types, and bodies that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.adapters.memory.documents.patching import parse_yaml, patched_document
from restow.ports import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Invalid

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def patched(content_type: str, patch: Any, kind: str = "Pod", group: str = "") -> dict[str, Any]:
    body = patch if isinstance(patch, bytes) else json.dumps(patch).encode()
    return patched_document(content_type, POD, body, kind=kind, group=group)


def test_each_format_reaches_its_algebra() -> None:
    by_json = patched(JSON_PATCH, [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}])
    by_strategy = patched(STRATEGIC_PATCH, {"spec": {"containers": [{"name": "c", "image": "j"}]}})
    by_merge = patched(MERGE_PATCH, {"spec": {"containers": [{"name": "c", "image": "j"}]}})
    assert by_json == by_strategy == by_merge
    assert POD["spec"]["containers"][0]["image"] == "i"  # type: ignore[index]


@pytest.mark.parametrize(
    ("content_type", "body", "code", "why"),
    [
        (MERGE_PATCH, b'{"a": }', 400, "line 1 column 7"),
        (MERGE_PATCH, b'{"a":\n 1,\n "b": x}', 400, "line 3 column 7"),
        (STRATEGIC_PATCH, b"[]", 400, "expected an object"),
        (JSON_PATCH, b"{}", 400, "list of objects"),
        (JSON_PATCH, b'[{"op": "remove", "path": "/x"}]', 422, "missing path"),
        (JSON_PATCH, b'[{"op": "replace", "path": "", "value": 1}]', 422, "not an object"),
        (STRATEGIC_PATCH, b'{"spec": {"containers": [{"image": "x"}]}}', 400, "merge key: name"),
        ("text/plain", b"", 415, "unknown format"),
    ],
    ids=["broken", "broken on line 3", "list", "object", "does not fit", "scalar result", "no merge key", "text"],
)
def test_malformed_patches_are_refused(content_type: str, body: bytes, code: int, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        patched(content_type, body)
    assert refused.value.status.code == code


def test_custom_resources_have_no_strategic_merge() -> None:
    with pytest.raises(Invalid) as refused:
        patched(STRATEGIC_PATCH, {}, kind="Queue", group="scheduling.volcano.sh")
    assert refused.value.status.code == 415


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(Invalid) as refused:
        patched(JSON_PATCH, [{"op": "test", "path": "/spec", "value": 1}] * 10_001)
    assert refused.value.status.code == 413


@pytest.mark.parametrize(
    ("body", "value"), [(b"a: 1", {"a": 1}), (b'{"a": 1}', {"a": 1}), (b"t: 2020-01-01", {"t": "2020-01-01"})]
)
def test_apply_patches_are_yaml_or_json(body: bytes, value: Any) -> None:
    assert parse_yaml(body) == value


@pytest.mark.parametrize("body", [b"a: [", b"a: 1\n---\nb: 2", b"", b"\xff"], ids=["broken", "two", "none", "not text"])
def test_malformed_yaml_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid, match="YAML"):
        parse_yaml(body)
