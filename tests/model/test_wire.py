"""JSON and YAML in, objects out, and every error with its path."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.kinds import POD, POD_MIGRATION_JOB, RESERVATION, UnknownKind, kind_of
from restow.model.objects import (
    Container,
    ObjectList,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodMigrationJob,
    PodMigrationJobSpec,
    PodSpec,
    Reservation,
)
from restow.model.wire import (
    WireError,
    convert_document,
    convert_readable,
    decode_object,
    locate_documents,
    read_documents,
    to_document,
)


def test_nulls_and_unknown_fields_do_no_harm() -> None:
    data = b"""{"metadata": {"name": "a", "labels": null, "creationTimestamp": null, "managedFields": [{}]},
        "spec": {"containers": null, "tolerations": null, "affinity": null, "nodeName": null, "dnsPolicy": "x"},
        "status": {"conditions": null}, "kind": "Pod", "apiVersion": "v1"}"""
    assert decode_object(Pod, data) == Pod(metadata=ObjectMeta(name="a"))


def test_lists_decode_items_of_any_kind() -> None:
    pods = decode_object(ObjectList[Pod], b'{"metadata": {"resourceVersion": "7", "continue": "x"}, "items": [{}]}')
    assert (pods.metadata.resource_version, pods.metadata.continue_, pods.items) == ("7", "x", [Pod()])


def test_malformed_time_is_reported_as_such() -> None:
    written = {"metadata": {"creationTimestamp": 5}, "spec": {"podRef": {}, "ttl": 300}}
    with pytest.raises(WireError) as refusal:
        convert_document(PodMigrationJob, written, "job")
    assert str(refusal.value) == (
        "job: spec.ttl: expected a duration such as 5m, got the number 300; "
        "metadata.creationTimestamp: expected a time such as 2026-01-02T15:04:05Z, got the number 5"
    )


def test_decoding_lists_every_error_with_its_path() -> None:
    data = b"""{"metadata": {"name": 5, "labels": {"a.io/b": 1}}, "spec": {"priority": "high", "tolerations": [null],
        "containers": [{"name": "a"}, {"ports": {}, "resources": {"requests": {"cpu": true}}}]}}"""
    with pytest.raises(WireError) as refusal:
        decode_object(Pod, data, "pod default/a")
    assert str(refusal.value) == (
        "pod default/a: metadata.name: expected a string, got the number 5; "
        "metadata.labels['a.io/b']: expected a string, got the number 1; "
        "spec.containers[1].resources.requests.cpu: expected a string or an integer or a number, got true; "
        "spec.containers[1].ports: expected a list, got a map; "
        "spec.tolerations[0]: expected a map, got null; "
        "spec.priority: expected an integer, got the string 'high'"
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "object: not JSON: Input data was truncated"),
        (b'{"metadata":\n  {,}}', "object: not JSON: line 2, column 4: JSON is malformed: object keys must be strings"),
        (b"[]", "object: expected a map, got a list"),
        (b"[" * 100_000, "object: nested too deeply"),
        (b'{"metadata": {"name": "\xff"}}', "object: not JSON: "),
    ],
    ids=["empty", "malformed", "a list", "very deep", "not UTF-8"],
)
def test_json_that_is_no_object_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError) as refusal:
        decode_object(Pod, data)
    assert str(refusal.value).startswith(complaint)


def test_converting_checks_quantities_times_and_durations() -> None:
    manifest: dict[str, Any] = {
        "spec": {
            "ttl": "ten minutes",
            "expires": "tomorrow",
            "tasks": [
                {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2c", "memory": 1}}}]}}}
            ],
        }
    }
    with pytest.raises(WireError) as refusal:
        convert_document(Reservation, manifest, "r.yaml:3")
    paths = [(problem.path, problem.message.split(":")[0]) for problem in refusal.value.problems]
    assert paths == [
        ("spec.tasks[0].template.spec.containers[0].resources.requests.cpu", "quantity '2c'"),
        ("spec.ttl", "duration 'ten minutes'"),
        ("spec.expires", "time 'tomorrow'"),
    ]


def test_converting_takes_null_for_absent() -> None:
    manifest = {"metadata": None, "spec": {"containers": [{"name": "a", "resources": None}], "volumes": None}}
    assert convert_document(Pod, manifest) == Pod(spec=PodSpec(containers=[Container(name="a")]))


def test_missing_required_fields_are_named() -> None:
    with pytest.raises(WireError, match=r"job: spec\.podRef: missing"):
        convert_document(PodMigrationJob, {"spec": {}}, "job")


def test_deep_documents_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"spec": deep}
    with pytest.raises(WireError, match="nested too deeply"):
        convert_document(Pod, deep)


def test_surplus_decoding_errors_are_counted() -> None:
    with pytest.raises(WireError, match=r"and 10 more$"):
        convert_document(Pod, {"spec": {"tolerations": [5] * 60}})


def test_an_object_becomes_a_document_without_its_defaults() -> None:
    job = PodMigrationJob(
        metadata=ObjectMeta(name="j"), spec=PodMigrationJobSpec(pod_ref=ObjectReference(namespace="d", name="p"))
    )
    assert to_document(POD_MIGRATION_JOB, job) == {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "j"},
        "spec": {"podRef": {"namespace": "d", "name": "p"}},
    }


@pytest.mark.parametrize(
    ("api_version", "kind", "complaint"),
    [
        ("v1", "Pods", "unknown kind 'Pods' in apiVersion 'v1'"),
        ("v1", "deployment", "unknown kind 'deployment' in apiVersion 'v1'; known is apps/v1 Deployment"),
    ],
)
def test_unknown_kinds_are_explained(api_version: str, kind: str, complaint: str) -> None:
    with pytest.raises(UnknownKind) as refusal:
        kind_of(api_version, kind)
    assert str(refusal.value) == complaint


def test_known_kinds_are_found_by_version_and_kind() -> None:
    assert kind_of("batch.volcano.sh/v1alpha1", "Reservation") is RESERVATION
    with pytest.raises(UnknownKind):
        kind_of("v1", "Pod", [RESERVATION])


POD_DOCUMENT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(json.dumps(POD_DOCUMENT).encode(), id="JSON"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps(POD_DOCUMENT).encode(), id="JSON with a byte order mark"),
        pytest.param(b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", id="YAML"),
        pytest.param(b"---\n\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n", id="empty documents"),
        pytest.param(b"{apiVersion: v1, kind: Pod, metadata: {name: a}}", id="YAML that starts like JSON"),
        pytest.param(json.dumps({"kind": "List", "apiVersion": "v1", "items": [POD_DOCUMENT]}).encode(), id="List"),
        pytest.param(b'{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}', id="PodList"),
        pytest.param(
            json.dumps({"kind": "List", "items": [{"kind": "PodList", "items": [POD_DOCUMENT]}]}).encode(),
            id="Lists inside a List",
        ),
        pytest.param(gzip.compress(json.dumps(POD_DOCUMENT).encode()), id="gzip"),
    ],
)
def test_files_of_every_form_hold_the_same_pod(data: bytes) -> None:
    assert read_documents(data, "f") == [POD_DOCUMENT]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"a: 1\na: 2", "f.yaml: not YAML: line 2, column 1: key 'a' appears twice"),
        (b'{"a": 1,\n "b": ]}', "f.yaml: not JSON: line 2, column 7: JSON is malformed: invalid character"),
        (b"a: 1\nb: \xff", "f.yaml: line 2: not UTF-8"),
        (b"- 1", "cannot read: f.yaml:1: expected an object, got a list"),
        (b"a: 1\n---\nhello\n", "cannot read: f.yaml:3: expected an object, got the string 'hello'"),
        (b'{"kind": "List", "items": [1, {}]}', "cannot read: f.yaml items[0]: expected an object, got the number 1"),
        (b'{"kind": "List", "items": "a"}', "cannot read: f.yaml items: expected a list, got the string 'a'"),
        (b"\x1f\x8bbroken", "f.yaml: broken gzip: "),
        (gzip.compress(b"a: 1")[:-4], "f.yaml: broken gzip: the file ends early"),
        (b"[" * 100_000, "f.yaml: nested too deeply"),
    ],
    ids=["duplicate key", "JSON", "UTF-8", "list", "second document", "item", "items", "gzip", "short gzip", "deep"],
)
def test_unreadable_files_say_where(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError) as refusal:
        read_documents(data, "f.yaml")
    assert str(refusal.value).startswith(complaint)


def test_documents_know_their_place() -> None:
    text = b"kind: A\n---\nkind: List\nitems:\n- kind: B\n"
    assert [located.where for located in locate_documents(text, "f")] == ["f:1", "f:3 items[0]"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "containers", "name", "resources", "cpu"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_decoding_any_json_gives_a_pod_or_paths(value: Any) -> None:
    try:
        assert isinstance(decode_object(Pod, json.dumps(value).encode()), Pod)
    except WireError as refusal:
        assert refusal.problems


@given(json_values.filter(lambda value: isinstance(value, dict)))
def test_converting_any_document_gives_a_pod_or_paths(value: dict[str, Any]) -> None:
    try:
        assert isinstance(convert_document(Pod, value), Pod)
    except WireError as refusal:
        assert all(problem.path for problem in refusal.problems)


def test_kinds_have_qualified_names() -> None:
    assert (POD.api_version, POD.qualified_name) == ("v1", "pods")
    assert (RESERVATION.api_version, RESERVATION.qualified_name) == (
        "batch.volcano.sh/v1alpha1",
        "reservations.batch.volcano.sh",
    )


def test_valid_fields_are_read_beside_invalid_ones() -> None:
    written = {"metadata": {"name": 3, "namespace": "shop"}, "spec": {"containers": [{"name": "a"}, 5]}}
    pod, problems = convert_readable(Pod, written)
    assert [problem.path for problem in problems] == ["metadata.name", "spec.containers[1]"]
    assert pod.metadata.namespace == "shop" and not pod.spec.containers


class Named(msgspec.Struct):
    name: str
    size: int = 0


def test_members_that_depend_on_invalid_ones_are_left_out_with_them() -> None:
    with pytest.raises(WireError, match="name: expected a string"):
        convert_readable(Named, {"name": 5, "size": 3})
