"""Strategic merge patch: keyed lists, directives, ordering, and what it must never do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.merge_types import merge_types
from restow.adapters.memory.documents.strategic_merge import StrategicError, strategic_merge


def merge(original: Any, patch: Any, kind: str = "Pod", group: str = "") -> Any:
    types = merge_types(group, kind)
    assert types is not None
    return strategic_merge(original, patch, types)


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


A, B = {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}

CASES = [
    (
        "a container is merged by name",
        pod(A, B),
        pod({"name": "b", "image": "b:2"}),
        pod(A, {"name": "b", "image": "b:2"}),
    ),
    ("an unknown container comes first", pod(A), pod(B), pod(B, A)),
    ("a container is deleted by directive", pod(A, B), pod({"name": "a", "$patch": "delete"}), pod(B)),
    ("the list is replaced by directive", pod(A, B), pod({"$patch": "replace"}, {"name": "c"}), pod({"name": "c"})),
    ("null removes a member", pod(A, nodeName="n"), {"spec": {"nodeName": None}}, pod(A)),
    (
        "a map is replaced by directive",
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    (
        "a map is emptied by directive",
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {}}},
    ),
    (
        "$patch: merge is the default",
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "merge", "b": "2"}}},
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
    ),
    (
        "finalizers are a set",
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b", "a"]}},
        {"metadata": {"finalizers": ["b", "a"]}},
    ),
    (
        "finalizers are deleted by value",
        {"metadata": {"finalizers": ["a", "b", "c"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}},
        {"metadata": {"finalizers": ["a", "c"]}},
    ),
    (
        "tolerations are replaced",
        pod(A, tolerations=[{"key": "x"}]),
        {"spec": {"tolerations": [{"key": "y"}]}},
        pod(A, tolerations=[{"key": "y"}]),
    ),
    (
        "owners merge by uid",
        {"metadata": {"ownerReferences": [{"uid": "1"}]}},
        {"metadata": {"ownerReferences": [{"uid": "2"}]}},
        {"metadata": {"ownerReferences": [{"uid": "2"}, {"uid": "1"}]}},
    ),
    (
        "a volume keeps only retained keys",
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
    ),
    (
        "env merges inside containers",
        pod({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}),
        pod({"name": "a", "env": [{"name": "X", "value": "3"}]}),
        pod({"name": "a", "env": [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}]}),
    ),
    (
        "ports merge by containerPort alone",
        pod({"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        pod({"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}),
        pod({"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}),
    ),
    (
        "the client's order wins, the server's own items stay before what followed them",
        pod(A, {"name": "server"}, B),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b"}]}},
        pod({"name": "server"}, B, A),
    ),
    (
        "an added item takes the place a deleted one left",
        pod(A, {"name": "server"}),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}],
                "containers": [B, {"name": "a", "$patch": "delete"}],
            }
        },
        pod({"name": "server"}, B),
    ),
    (
        "an order without items only reorders",
        pod(A, B),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        pod(B, A),
    ),
    ("a list that was not there loses directives", {"spec": {}}, pod(A, {"name": "z", "$patch": "delete"}), pod(A)),
    (
        "nulls in what is new vanish",
        {},
        {"metadata": {"labels": {"a": "1", "b": None}}},
        {"metadata": {"labels": {"a": "1"}}},
    ),
    (
        "a map added by delete directive stays away",
        {"metadata": {}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {}},
    ),
]


@pytest.mark.parametrize(
    ("original", "patch", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_strategic_merge_of_documents(original: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((original, patch))
    assert merge(original, patch) == expected
    assert (original, patch) == before


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (pod({"image": "x"}), r"spec.containers\[0\]: .*merge key: name"),
        (pod({"name": "a", "$patch": "spam"}), "unknown patch type: spam"),
        ({"metadata": {"$patch": "spam"}}, "metadata: unknown patch type"),
        ({"spec": {"$retainKeys": ["containers"], "nodeName": "n"}}, "retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, "metadata.finalizers: .*primitive list"),
        ({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "q"}]}}, "doesn't match"),
        ({"spec": {"$setElementOrder/containers": "a"}}, "setElementOrder"),
        (pod("text"), r"spec.containers\[0\]"),  # type: ignore[arg-type]
    ],
    ids=[
        "no key",
        "unknown item directive",
        "unknown map directive",
        "not retained",
        "list is text",
        "order lacks",
        "order is text",
        "item is text",
    ],
)
def test_patches_that_make_no_sense(patch: Any, why: str) -> None:
    with pytest.raises(StrategicError, match=why):
        merge({**pod(A), "metadata": {"finalizers": ["a"]}}, patch)


names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(names, names, names)
def test_patches_of_different_containers_commute(there: list[str], first: list[str], second: list[str]) -> None:
    second = [name for name in second if name not in first]
    original = pod(*({"name": name, "image": "old"} for name in there))
    one = pod(*({"name": name, "image": "one"} for name in first))
    two = pod(*({"name": name, "image": "two"} for name in second))

    def by_name(document: Any) -> dict[str, Any]:
        return {container["name"]: container for container in document["spec"]["containers"]}

    assert by_name(merge(merge(original, one), two)) == by_name(merge(merge(original, two), one))


@given(names, st.permutations("abcdef"))
def test_complete_set_element_order_is_obeyed(there: list[str], order: list[str]) -> None:
    original = pod(*({"name": name} for name in there))
    patch = {"spec": {"$setElementOrder/containers": [{"name": name} for name in order]}}
    assert [each["name"] for each in merge(original, patch)["spec"]["containers"]] == [n for n in order if n in there]


def test_strategic_merge_shares_untouched_parts() -> None:
    original = pod(A, B)
    assert (
        merge(original, pod({"name": "a", "image": "x"}))["spec"]["containers"][1] is original["spec"]["containers"][1]
    )
