"""What keeps a pod is the same where only a snapshot is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.snapshot_documents import labelled, running_replica
from tests.cli.test_explain import ITEMS, _asked

SHARED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "a"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
OF_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": True}
SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db", "namespace": "a", "uid": "db"},
    "spec": {"replicas": 2, "template": {"spec": {"containers": []}}},
}


@pytest.mark.parametrize(
    ("items", "name", "expected"),
    [
        (
            [
                CLAIM,
                running_replica("one", "1", "n1", volumes=SHARED),
                running_replica("two", "1", "n1", volumes=SHARED),
            ],
            "one",
            "pod two",
        ),
        (
            [
                CLAIM,
                running_replica("one", "1", "n1", volumes=SHARED),
                running_replica("two", "1", "n2", volumes=SHARED),
            ],
            "one",
            None,
        ),
        (
            [SET, labelled(running_replica("db-1", "1", "n1"), ownerReferences=[OF_SET])],
            "db-1",
            "while db-0 is not Ready",
        ),
    ],
    ids=["beside another that uses its volume", "on another node than that", "out of its order"],
)
def test_explain_names_the_protection_of_a_pod_in_a_snapshot(
    tmp_path: Path, items: list[Any], name: str, expected: str | None
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*ITEMS, *items]}))
    found = _asked("explain", "--snapshot", str(path), "-o", "json", "pod", f"a/{name}")
    assert [expected in one for one in found["obstacles"] if expected] == ([True] if expected else [])
    assert bool(found["obstacles"]) == bool(expected)
