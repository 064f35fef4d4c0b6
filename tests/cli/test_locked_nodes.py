"""Nodes that are locked for a queue: plans do not use them for other queues, and every command says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from restow.cli import restow
from tests.cli.snapshot_documents import QUEUE, labelled, node, pod, running_replica

LOCKS: dict[str, Any] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "status": {"state": "Open", "reservation": {"nodes": ["n2"]}},
}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "a"},
    "spec": {"minMember": 1, "queue": "q"},
}


def of(document: dict[str, Any], **marks: str) -> dict[str, Any]:
    keys = {"queue": QUEUE, "group": "scheduling.k8s.io/group-name"}
    return labelled(document, annotations={keys[mark]: value for mark, value in marks.items()})


class File:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, *items: dict[str, Any], locked: bool = True) -> File:
        everything = [node("n1", "10"), node("n2", "10"), *items, *([LOCKS, GROUP] if locked else [])]
        (self.folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": everything}))
        return self

    def ask(self, command: str, *arguments: str) -> Any:
        snapshot = str(self.folder / "cluster.json")
        return json.loads(
            CliRunner().invoke(restow, [command, "--snapshot", snapshot, "-o", "json", *arguments]).stdout
        )


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


FOREIGN, OURS = running_replica("small", "1", "n1"), of(running_replica("small", "1", "n1"), queue="q")
STRATEGIES = [("--strategy", "defragmentation"), ("--strategy", "optimal", "--work-limit", "2000")]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["defragmentation", "optimal"])
@pytest.mark.parametrize(
    ("small", "locked", "moves"),
    [
        pytest.param(FOREIGN, False, ["n2"], id="nothing is locked"),
        pytest.param(FOREIGN, True, [], id="of another queue"),
        pytest.param(OURS, True, ["n2"], id="of the queue"),
        pytest.param(of(running_replica("small", "1", "n1"), group="g"), True, ["n2"], id="of a gang of the queue"),
    ],
)
def test_plan_uses_locked_nodes_for_their_queue_only(
    file: File, strategy: tuple[str, ...], small: dict[str, Any], locked: bool, moves: list[str]
) -> None:
    planned = file.write(small, of(running_replica("large", "8", "n2"), queue="q"), locked=locked).ask(
        "plan", *strategy
    )
    assert [move["to"] for move in planned["moves"] if move["pod"] == "small"] == moves


def test_pending_pod_gets_no_place_on_a_locked_node(file: File) -> None:
    items = [running_replica("large", "8", "n1"), pod("waits", "9")]
    command = ("plan", "--objective", "pending", "--work-limit", "2000")
    assert file.write(*items, locked=False).ask(*command)["places"]
    assert file.write(*items).ask(*command)["places"] == []


def test_plan_onto_a_locked_node_is_invalid(file: File, tmp_path: Path) -> None:
    move = {"order": 1, "wave": 1, "namespace": "a", "pod": "small", "from": "n1", "to": "n2"}
    (tmp_path / "plan.json").write_text(json.dumps({"strategy": "s", "moves": [move]}))
    result = file.write(FOREIGN).ask("replay", "--plan", str(tmp_path / "plan.json"))
    assert not result["valid"]
    assert "node(s) were locked for queue q" in json.dumps(result["defects"])


def test_schedule_names_the_lock(file: File) -> None:
    result = file.write(running_replica("full", "10", "n1"), pod("waits", "1"), of(pod("ours", "1"), queue="q")).ask(
        "schedule"
    )
    assert result["placements"] == [{"namespace": "a", "pod": "ours", "node": "n2"}]
    (refusal,) = result["unschedulable"]
    assert refusal["message"] == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were locked for queue q."


def test_explain_names_the_lock(file: File) -> None:
    result = file.write(FOREIGN).ask("explain", "pod", "a/small")
    assert result["refusals"] == [
        {"plugin": "NodeReservation", "reason": "node(s) were locked for queue q", "nodes": ["n2"]}
    ]
    assert (result["movable"], result["feasible"]) == (False, ["n1"])
