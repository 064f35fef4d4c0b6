"""Snapshot files: what is read, what is left out, what is refused."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from restow.model.inventory import read_inventory
from restow.model.kinds import NODE, POD
from restow.model.wire import WireError


def document(kind: str, name: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **members}


def listed(*items: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def test_a_list_of_mixed_kinds_is_sorted_into_kinds() -> None:
    inventory = read_inventory(listed(document("Pod", "a"), document("Node", "n"), document("Pod", "b")), "f")
    assert [pod.metadata.name for pod in inventory.of(POD)] == ["a", "b"]
    assert [node.metadata.name for node in inventory.of(NODE)] == ["n"]


def test_lists_inside_a_list_are_unpacked_and_kinds_that_are_only_called_so_are_not() -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [document("Pod", "a")]}
    inventory = read_inventory(listed(inner, document("Node", "n"), document("AllowList", "x")), "f")
    assert (len(inventory.of(POD)), len(inventory.of(NODE)), inventory.left_out) == (1, 1, {"AllowList": 1})


def test_gzip_and_many_yaml_documents_are_accepted() -> None:
    text = b"apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    assert len(read_inventory(gzip.compress(text), "f").of(POD)) == 1


def test_unread_kinds_are_counted() -> None:
    unread = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    inventory = read_inventory(listed(unread, unread, document("Node", "n")), "f")
    assert inventory.left_out == {"Gadget": 2}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"{", "not JSON", id="broken JSON"),
        pytest.param(listed({"metadata": {"name": "x"}}), "apiVersion and kind must say what this is", id="no kind"),
        pytest.param(listed(document("Pod", "a"), document("Pod", "a")), "Pod a is there twice", id="the same twice"),
        pytest.param(listed(document("Node", "")), "a Node needs a name", id="no name"),
        pytest.param(
            listed(document("Node", "n", status={"allocatable": {"cpu": "many"}})),
            "status.allocatable.cpu: ",
            id="an invalid quantity",
        ),
    ],
)
def test_malformed_snapshot_files_are_reported(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_inventory(data, "f")
    assert message in str(caught.value)


def test_every_problem_is_reported_at_once() -> None:
    bad = [document("Pod", name, spec={"containers": 3}) for name in ("a", "b")]
    with pytest.raises(WireError) as caught:
        read_inventory(listed(*bad), "f")
    assert len(caught.value.problems) == 2
