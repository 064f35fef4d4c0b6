"""Reading documents as their kind: what is kept, dropped, canonical, refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.adapters.memory.documents.merge_types import merge_types
from restow.adapters.memory.documents.typed_documents import conform_to_kind, unknown_fields
from restow.model.objects import Document
from restow.ports import Invalid


def pod(spec: Document | None = None, **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [], **(spec or {})}}


def read(document: Document, kind: str = "Pod", group: str = "") -> Document:
    return conform_to_kind(document, group=group, kind=kind).document


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeName": ""}, {}),
        ({"hostNetwork": False}, {}),
        ({"priority": 0}, {"priority": 0}),
        ({"nodeSelector": {}}, {}),
        ({"securityContext": {}}, {"securityContext": {}}),
        ({"nodeName": None}, {}),
        ({"tolerations": [{"key": "a", "value": None}]}, {"tolerations": [{"key": "a"}]}),
        ({"overhead": {"cpu": 0.5, "memory": "1024Ki"}}, {"overhead": {"cpu": "500m", "memory": "1Mi"}}),
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "a", "resources": {}}]}),
        ({"overhead": {"cpu": "0.0001", "memory": "12e-4"}}, {"overhead": {"cpu": "1m", "memory": "2e-3"}}),
        (
            {"overhead": {"cpu": None}, "nodeSelector": {"a": None}},
            {"overhead": {"cpu": "0"}, "nodeSelector": {"a": ""}},
        ),
        ({"tolerations": [None]}, {"tolerations": [{}]}),
    ],
    ids=[
        "empty text is left out",
        "false is left out",
        "zero behind a pointer stays",
        "an empty map is left out",
        "an empty struct behind a pointer stays",
        "null is nothing",
        "null in a list item is nothing",
        "quantities become canonical",
        "structs are always written",
        "resource lists hold thousandths",
        "null in a map is the empty value",
        "null in a list is an empty item",
    ],
)
def test_conform_equals_decoding_and_encoding_in_go(spec: Document, expected: Document) -> None:
    assert read(pod(spec))["spec"] == {"containers": [], **expected}


def test_conformed_document_is_a_private_copy() -> None:
    original = pod({"tolerations": [{"key": "a"}]}, labels={"a": "1"})
    before = copy.deepcopy(original)
    result = read(original)
    result["metadata"]["labels"]["b"] = "2"
    result["spec"]["tolerations"].append({})
    assert original == before


def test_unknown_fields_are_dropped_and_named() -> None:
    document = pod({"spam": 1, "containers": [{"name": "a", "eggs": {}}]}, labels={"any": "key"})
    result, unknown = conform_to_kind(document, group="", kind="Pod")
    assert sorted(unknown) == ['unknown field "spec.containers[0].eggs"', 'unknown field "spec.spam"']
    assert "spam" not in result["spec"]
    assert unknown_fields(document, group="", kind="Pod") == unknown
    assert unknown_fields(result, group="", kind="Pod") == []


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (pod({"nodeName": 1, "priority": "high"}), ["spec.nodeName", "spec.priority"]),
        (pod(labels={"a": 1}), ["metadata.labels.a"]),
        (pod({"containers": {}}), ["spec.containers"]),
        (pod({"containers": ["a"]}), ["spec.containers[0]"]),
        (pod({"overhead": {"cpu": "lots"}}), ["spec.overhead.cpu"]),
        (pod(creationTimestamp="yesterday"), ["metadata.creationTimestamp"]),
        (pod({"hostNetwork": 1}), ["spec.hostNetwork"]),
        ({**pod(), "spec": []}, ["spec"]),
        (pod({"priority": True}), ["spec.priority"]),
        (pod({"priority": 2**31}), ["spec.priority"]),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, list) else None,
)
def test_every_value_of_a_wrong_type_is_named(document: Document, paths: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        read(document)
    assert refused.value.status.code == 400
    assert all(f"{path}: " in str(refused.value) for path in paths)


def test_secret_data_must_be_base64() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "b2s="}}
    assert read(secret, "Secret")["data"] == {"a": "b2s="}
    with pytest.raises(Invalid, match=r"data\.a: illegal base64"):
        read({**secret, "data": {"a": "?"}}, "Secret")


def test_micro_times_have_six_digits() -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "2026-01-01T00:00:00Z"}}
    with pytest.raises(Invalid, match=r"spec\.renewTime: parsing time"):
        read(lease, "Lease", "coordination.k8s.io")
    lease["spec"] = {"renewTime": "2026-01-01T00:00:00.000000Z"}
    assert read(lease, "Lease", "coordination.k8s.io")["spec"] == lease["spec"]


def test_empty_times_are_written_as_null() -> None:
    document = pod() | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    condition = read(document)["status"]["conditions"][0]
    assert condition == {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
    assert read(read(document)) == read(document)


def test_custom_kinds_are_returned_unchanged() -> None:
    document = {"kind": "Queue", "spec": {"anything": None}}
    assert conform_to_kind(document, group="x", kind="Queue") == (document, [])


KINDS = [("", "Pod"), ("", "Node"), ("apps", "Deployment"), ("batch", "CronJob"), ("policy", "PodDisruptionBudget")]


def _values(types: Any, depth: int) -> st.SearchStrategy[Any]:
    """Documents that are right for a type, with nulls and empty values mixed in."""
    if types.form == "struct":
        fields = {
            name: _values(child, depth - 1) for name, child in types.fields.items() if depth or child.form == "leaf"
        }
        return st.fixed_dictionaries({}, optional=dict(sorted(fields.items())[:6]))
    if types.form == "list":
        return st.lists(_values(types.item(), depth - 1), max_size=2)
    if types.form == "map":
        return st.dictionaries(st.sampled_from(["a", "b"]), _values(types.item(), depth - 1), max_size=2)
    return {
        "string": st.sampled_from(["", "x"]),
        "int": st.integers(0, 2),
        "int32": st.integers(0, 2),
        "microtime": st.sampled_from([None, "2026-01-01T00:00:00.000001Z"]),
        "number": st.just(1.5),
        "bool": st.booleans(),
        "time": st.sampled_from([None, "2026-01-01T00:00:00Z"]),
        "quantity": st.sampled_from(["1", "500m", 2]),
        "intorstring": st.sampled_from([1, "10%"]),
        "bytes": st.just("b2s="),
        "any": st.just({"x": 1}),
    }[types.leaf]


STRATEGIES = {kind: _values(merge_types(group, kind), 4) for group, kind in KINDS}


@pytest.mark.parametrize(("group", "kind"), KINDS, ids=[kind for _, kind in KINDS])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_reading_twice_is_reading_once(group: str, kind: str, data: st.DataObject) -> None:
    document = data.draw(STRATEGIES[kind])
    once = conform_to_kind(document, group=group, kind=kind).document
    assert conform_to_kind(once, group=group, kind=kind) == (once, [])
