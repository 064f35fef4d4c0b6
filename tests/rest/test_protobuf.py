"""Protobuf bodies mean the same as the JSON documents they stand for, and broken ones are refused cleanly."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.rest.protobuf import MAGIC, SPECIAL, ProtobufError, UnknownKind, decode_body
from restow.adapters.rest.protobuf_fields import message_name, message_tables
from tests.rest import proto_fields
from tests.rest.protobuf_writer import block, body, message, varint

POD_TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "nginx",
                "command": ["sh", "-c", "sleep 1"],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}

DOCUMENTS: dict[str, dict[str, Any]] = {
    "a namespace": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
    "a deployment with pointers that are zero": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}, "creationTimestamp": "2026-01-31T12:00:00Z"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": POD_TEMPLATE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
        },
    },
    "a secret with bytes": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"key": "AP8="},
        "type": "Opaque",
    },
    "a service with a node port": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30080}]},
    },
    "a cluster role": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
    },
    "a budget": {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    },
    "an access review": {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}},
    },
    "an eviction with a precondition": {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "default"},
        "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}},
    },
    "a lease with microseconds": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "renewTime": "2026-01-31T12:00:00.250000Z", "leaseTransitions": 0},
    },
    "a negative priority": {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "low"},
        "value": -5,
    },
    "delete options in the group of the object": {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    },
    "a subject review with a list of lists": {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "u", "extra": {"scopes": ["a", "b"]}},
    },
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_protobuf_decodes_to_the_json_document(document: dict[str, Any]) -> None:
    assert decode_body(body(document)) == document


def test_zero_scalars_and_empty_structs_that_go_always_sends_are_left_out() -> None:
    metadata = block(1, b"x") + block(2, b"") + block(8, b"")  # name, generateName "", creationTimestamp zero
    raw = block(1, metadata) + block(2, b"") + block(3, block(1, b""))
    assert decode_body(_envelope(b"v1", b"Namespace", raw)) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "x"},
    }


def test_fields_newer_than_the_tables_are_passed_over() -> None:
    raw = block(1, block(1, b"x")) + block(999, b"?") + varint(1000 << 3) + b"\x01"
    assert decode_body(_envelope(b"v1", b"Namespace", raw))["metadata"] == {"name": "x"}


def test_packed_numbers_decode_like_repeated_fields() -> None:
    raw = block(2, block(8, b"")) + block(1, block(1, b"p"))
    assert decode_body(_envelope(b"v1", b"Pod", raw))["metadata"] == {"name": "p"}
    context = block(4, varint(1) + varint(300))  # PodSecurityContext.supplementalGroups
    pod = block(2, block(14, context))
    assert decode_body(_envelope(b"v1", b"Pod", pod))["spec"]["securityContext"]["supplementalGroups"] == [1, 300]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "magic"),
        (b"{}", "magic"),
        (MAGIC + b"\x0a\x05", "ends inside a field"),
        (MAGIC + b"\xff" * 20, "longer than ten bytes"),
        (MAGIC + b"\x0b", "wire type 3"),
        (MAGIC + b"\x02\x00", "field number 0"),
    ],
    ids=["nothing", "JSON", "cut off", "an endless number", "a group", "field zero"],
)
def test_broken_protobuf_bytes_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ProtobufError, match=why):
        decode_body(data)


def test_wrong_wire_types_text_and_calendar_are_refused() -> None:
    for raw in (
        varint(1 << 3) + b"\x01",  # metadata as a number
        block(1, varint(1 << 3) + b"\x01"),  # metadata.name as a number
        block(1, block(1, b"\xff\xfe")),  # not UTF-8
        block(1, block(8, b"\x08" + varint(1 << 62))),  # a time outside the calendar
        block(1, block(10, b"\x01")),  # a message of one stray byte
    ):
        with pytest.raises(ProtobufError):
            decode_body(_envelope(b"v1", b"Namespace", raw))


def test_a_kind_without_a_table_names_itself() -> None:
    with pytest.raises(UnknownKind, match=r"'Widget' in 'example\.com/v1'"):
        decode_body(_envelope(b"example.com/v1", b"Widget", b""))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_document_or_a_clean_refusal(data: bytes) -> None:
    _decode_or_refuse(_envelope(b"v1", b"Pod", data))
    _decode_or_refuse(MAGIC + data)


@given(st.sampled_from(list(DOCUMENTS.values())), st.integers(0, 400), st.integers(0, 255))
def test_a_flipped_byte_gives_a_document_or_a_clean_refusal(document: dict[str, Any], place: int, byte: int) -> None:
    data = bytearray(body(document))
    data[4 + place % (len(data) - 4)] = byte
    _decode_or_refuse(bytes(data))


def test_every_message_that_a_table_names_has_a_table() -> None:
    scalars = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double"}
    named = {field.type for fields in message_tables().values() for field in fields.values()} - scalars
    assert named - message_tables().keys() - SPECIAL.keys() == set()


def test_the_writer_of_these_tests_agrees_with_bytes_known_from_the_wire() -> None:
    assert message({"name": "x"}, "meta.v1.ObjectMeta") == b"\x0a\x01x"
    assert message_name("rbac.authorization.k8s.io/v1", "Role") == "rbac.v1.Role"


def test_protobuf_tables_match_the_kubernetes_sources() -> None:
    shipped = (files("restow.adapters.rest") / "fields.txt").read_text()
    version = shipped.split("from Kubernetes 1.")[1].split(".\n")[0]
    cache = _module_cache()
    if cache is None or not (cache / "k8s.io" / f"api@v0.{version}").exists():
        pytest.skip("the Go module cache does not hold the k8s.io/api release of the tables")
    assert proto_fields.table(cache, f"v0.{version}") == shipped


def _module_cache() -> Path | None:
    if "GOMODCACHE" in os.environ:
        return Path(os.environ["GOMODCACHE"])
    go = shutil.which("go")
    return Path(subprocess.check_output([go, "env", "GOMODCACHE"], text=True).strip()) if go else None


def _envelope(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return MAGIC + block(1, block(1, api_version) + block(2, kind)) + block(2, raw)


def _decode_or_refuse(data: bytes) -> None:
    with contextlib.suppress(ProtobufError):
        decode_body(data)
