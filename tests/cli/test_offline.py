"""`restow schedule` and `restow explain` on snapshot files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.snapshot_documents import node, pod


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    items = [
        node("n1", "4"),
        node("n2", "2"),
        pod("runs", "2", nodeName="n1"),
        pod("fits", "2", nodeSelector={}),
        pod("too-big", "3"),
        pod("gated", "1", schedulingGates=[{"name": "example.com/later"}]),
        pod("foreign", "1", schedulerName="default-scheduler"),
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_schedule_says_where_pods_go_and_why_not(spawn: Run, snapshot: str) -> None:
    done = spawn("schedule", "--snapshot", snapshot, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["placements"] == [{"namespace": "a", "pod": "fits", "node": result["placements"][0]["node"]}]
    messages = {one["pod"]: one["message"] for one in result["unschedulable"]}
    assert messages["too-big"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert "example.com/later" in messages["gated"]
    assert messages[""].startswith("1 pending pod belongs to schedulers other than restow: ")


RESERVATION: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Reservation",
    "metadata": {
        "name": "r",
        "namespace": "a",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": "9",
    },
    "spec": {
        "schedulerName": "restow",
        "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pod("", "2")["spec"]}}],
    },
}


def test_schedule_counts_what_reservations_will_hold(run: Run, tmp_path: Path) -> None:
    later = pod("later", "3")
    later["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    path = tmp_path / "cluster.json"
    items = [node("n1", "4"), RESERVATION, later]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    result = json.loads(run("schedule", "--snapshot", str(path), "-o", "json").stdout)
    assert [one["message"] for one in result["unschedulable"]] == ["0/1 nodes are available: 1 Insufficient cpu."]


def test_schedule_ignores_a_seat_of_a_pod_that_is_gone(run: Run, tmp_path: Path) -> None:
    taken = {"task": "t", "index": 0, "nodeName": "n1", "podRef": {"name": "gone", "namespace": "a", "uid": "u"}}
    used = {**RESERVATION, "status": {"state": {"phase": "Succeeded"}, "placements": [taken]}}
    path = tmp_path / "cluster.json"
    items = [node("n1", "4"), used, pod("later", "3")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    result = json.loads(run("schedule", "--snapshot", str(path), "-o", "json").stdout)
    assert [one["pod"] for one in result["placements"]] == ["later"]


def test_schedule_includes_the_pods_of_schedulers_that_the_configuration_names(
    run: Run, snapshot: str, tmp_path: Path
) -> None:
    config = tmp_path / "restow.yaml"
    config.write_text("scheduler:\n  schedulerNames: [restow, default-scheduler]\n")
    done = run("schedule", "--snapshot", snapshot, "--config", str(config), "-o", "json")
    assert "foreign" in {one["pod"] for one in json.loads(done.stdout)["placements"]}


def test_schedule_prints_a_table(run: Run, snapshot: str) -> None:
    done = run("schedule", "--snapshot", snapshot)
    assert done.returncode == 0
    assert done.stdout.startswith("1 pod can be placed, 2 cannot")


def test_explain_counts_what_keeps_a_pod_from_nodes(run: Run, snapshot: str) -> None:
    done = run("explain", "--snapshot", snapshot, "-o", "json", "pod", "a/too-big")
    result = json.loads(done.stdout)
    assert result["message"] == "is pending; 0/2 nodes are available: 2 Insufficient cpu."
    assert result["refusals"] == [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": ["n1", "n2"]}]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        pytest.param(
            node("n1", "-4"),
            "items[0]: status.allocatable.cpu: quantity '-4': must not be negative",
            id="a node that offers less than nothing",
        ),
        pytest.param(
            pod("p", "-1"),
            "items[0]: spec.containers[0].resources.requests.cpu: quantity '-1': must not be negative",
            id="a pod that asks for less than nothing",
        ),
        pytest.param(node("n1", "lots"), "items[0]: status.allocatable.cpu: quantity 'lots'", id="no quantity at all"),
    ],
)
def test_unreadable_quantity_is_one_line_with_its_path(
    run: Run, tmp_path: Path, item: dict[str, Any], problem: str
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}))
    done = run("schedule", "--snapshot", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr and done.stderr.count("\n") == 1


def test_explain_says_where_else_a_running_pod_could_go(run: Run, snapshot: str) -> None:
    done = run("explain", "--snapshot", snapshot, "-o", "json", "pod", "a/runs")
    assert json.loads(done.stdout)["feasible"] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["schedule"], "to read a file instead, use --snapshot", id="no snapshot"),
        pytest.param(["schedule", "--snapshot", "missing.json"], "File 'missing.json' does not exist.", id="no file"),
        pytest.param(["plan", "--snapshot", "-"], "stdin: there is nothing in it", id="an empty file"),
        pytest.param(
            ["explain", "--snapshot", "{snapshot}", "pod", "a/missing"], "pod a/missing not found", id="no such pod"
        ),
    ],
)
def test_user_mistake_is_one_line_and_exit_code_2(run: Run, snapshot: str, arguments: list[str], message: str) -> None:
    done = run(*(argument.format(snapshot=snapshot) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("scheduler: {speed: 9}", "speed: unknown field", id="unknown field"),
        pytest.param("scheduler: {actions: dance}", "actions: no action is called 'dance'", id="unknown action"),
        pytest.param("scheduler: [", "not YAML", id="broken YAML"),
    ],
)
def test_wrong_configuration_is_one_line(run: Run, snapshot: str, tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "restow.yaml"
    config.write_text(text)
    done = run("schedule", "--snapshot", snapshot, "--config", str(config))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1
