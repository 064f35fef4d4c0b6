"""`restow explain` about pods that have a node: may they move, and where to?"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from restow.cli import restow
from tests.cli.test_offline import node, pod
from tests.cli.test_plan import OWNER, replica

DAEMON = {**OWNER, "kind": "DaemonSet", "name": "agent", "uid": "agent"}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "a"},
    "spec": {"selector": {"matchLabels": {"app": "kept"}}},
    "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
}


def labelled(document: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], **metadata}}


ITEMS = [
    node("n1", "10"),
    node("n2", "2"),
    replica("small", "1", "n1"),
    replica("large", "4", "n1"),
    replica("scratch", "1", "n1", volumes=[{"name": "tmp", "emptyDir": {}}], schedulerName="default-scheduler"),
    labelled(replica("daemon", "1", "n1"), ownerReferences=[DAEMON]),
    labelled(replica("kept", "1", "n1"), labels={"app": "kept"}),
    pod("waits", "1"),
    BUDGET,
]


@pytest.fixture
def collected() -> Iterator[None]:
    """The command does without looking for garbage, because its process ends."""
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("name", "movable", "obstacles", "message"),
    [
        pytest.param("small", True, [], "runs on n1; 1 other nodes could take it; it may be moved", id="may move"),
        pytest.param(
            "large", False, [], "runs on n1; 0 other nodes could take it; nothing else keeps it there", id="nowhere to"
        ),
        pytest.param(
            "scratch",
            False,
            ["its scheduler is default-scheduler, schedulerNames has restow", "it has local storage: tmp"],
            "runs on n1; 1 other nodes could take it; it may not be moved: its scheduler is default-scheduler, "
            "schedulerNames has restow; it has local storage: tmp",
            id="for two reasons",
        ),
        pytest.param(
            "daemon", False, ["DaemonSet agent would put it back on the same node"], "it may not be moved", id="daemon"
        ),
        pytest.param(
            "kept",
            False,
            ["PodDisruptionBudget a/web: 1 of 1 desired pods are healthy, 0 may be disrupted"],
            "it may not be moved",
            id="budget",
        ),
        pytest.param("waits", None, [], "is pending; 2 nodes could take it", id="has no node yet"),
    ],
)
@pytest.mark.usefixtures("collected")
def test_whether_a_pod_may_move_and_why_not(
    tmp_path: Path, name: str, movable: bool | None, obstacles: list[str], message: str
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    done = CliRunner().invoke(restow, ["explain", "--snapshot", str(path), "-o", "json", "pod", f"a/{name}"])
    result = json.loads(done.stdout)
    assert (result["movable"], result["obstacles"]) == (movable, obstacles)
    assert message in result["message"]


@pytest.mark.usefixtures("collected")
def test_the_configuration_of_migrations_is_followed(tmp_path: Path) -> None:
    path, config = tmp_path / "cluster.json", tmp_path / "restow.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    config.write_text("migration: {namespaces: {exclude: [a]}}")
    asked = ["explain", "--snapshot", str(path), "--config", str(config), "pod", "a/small"]
    assert "it may not be moved: namespace a is excluded" in " ".join(CliRunner().invoke(restow, asked).stdout.split())
