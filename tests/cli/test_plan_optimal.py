"""`restow plan` with strategy optimal: unusual snapshots, bad options, and determinism."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from restow.cli import restow
from restow.sim.scenarios import Scenario
from restow.sim.scenarios import generate_snapshot as generated
from tests.cli.snapshot_documents import node, pod, running_replica

OBJECTIVES = {"free-nodes": "freeNodes", "slots": "slots", "pending": "placedPods"}
CLUSTERS = {
    "no nodes": [running_replica("lost", "1", "nowhere"), pod("waits", "1")],
    "no pods": [node("n1", "10")],
    "nothing": [],
    "a pod on an unknown node": [
        node("n1", "10"),
        running_replica("lost", "1", "nowhere"),
        running_replica("here", "1", "n1"),
    ],
    "an over-committed node": [
        node("n1", "4"),
        node("n2", "10"),
        running_replica("p1", "3", "n1"),
        running_replica("p2", "3", "n1"),
    ],
}


def written(folder: Path, items: list[dict[str, Any]]) -> str:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def plan(snapshot: str, *arguments: str) -> Result:
    limits = [] if "--work-limit" in arguments else ["--work-limit", "20"]
    return CliRunner().invoke(restow, ["plan", "--snapshot", snapshot, "-o", "json", *limits, *arguments])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("items", CLUSTERS.values(), ids=CLUSTERS.keys())
@pytest.mark.parametrize("moves", ["0", "5"])
def test_plan_of_an_unusual_cluster_is_valid_and_makes_nothing_worse(
    tmp_path: Path, items: list[dict[str, Any]], objective: str, moves: str
) -> None:
    snapshot, saved = written(tmp_path, items), tmp_path / "plan.json"
    done = plan(snapshot, "--objective", objective, "--shape", "cpu=2", "--max-moves", moves, "--save", str(saved))
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    figure = OBJECTIVES[objective]
    assert result["after"].get(figure, 0) >= result["before"].get(figure, 0)
    assert len(result["moves"]) <= int(moves)
    assert CliRunner().invoke(restow, ["replay", "--snapshot", snapshot, "--plan", str(saved)]).exit_code == 0


def test_snapshot_without_nodes_is_a_refusal(tmp_path: Path) -> None:
    done = plan(written(tmp_path, []))
    assert [refusal["reason"] for refusal in json.loads(done.stdout)["refusals"]] == ["there are no nodes"]


def test_shape_larger_than_any_node_is_a_refusal(tmp_path: Path) -> None:
    done = plan(written(tmp_path, [node("n1", "10")]), "--objective", "slots", "--shape", "cpu=64,memory=1Gi")
    result = json.loads(done.stdout)
    assert (result["moves"], result["after"]["slots"], result["bound"]) == ([], 0, 0)
    assert "the only node does not offer cpu=64, memory=1Gi, even when empty" in [
        refusal["reason"] for refusal in result["refusals"]
    ]


def test_unknown_resource_in_the_shape_is_a_refusal(tmp_path: Path) -> None:
    done = plan(written(tmp_path, [node("n1", "10")]), "--objective", "slots", "--shape", "example.com/unicorn=1")
    assert "the only node does not offer example.com/unicorn=1, even when empty" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        pytest.param(["--max-moves", "-1"], "--max-moves", id="fewer than no moves"),
        pytest.param(["--work-limit", "-1"], "--work-limit", id="less than no work"),
        pytest.param(["--work-limit", "0"], "--work-limit", id="no work"),
        pytest.param(["--time-limit", "0s"], "timeLimit", id="no time"),
        pytest.param(["--time-limit", "-5s"], "--time-limit", id="less than no time"),
        pytest.param(["--objective", "slots"], "--shape", id="slots without a shape"),
        pytest.param(["--objective", "slots", "--shape", "cpu=0"], "--shape", id="a shape of nothing"),
        pytest.param(["--objective", "slots", "--shape", "cpu=-1"], "--shape", id="a shape of less than nothing"),
        pytest.param(["--objective", "beauty"], "--objective", id="an objective that nobody knows"),
    ],
)
def test_bad_option_is_one_message(tmp_path: Path, arguments: list[str], option: str) -> None:
    done = plan(written(tmp_path, CLUSTERS["no pods"]), *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert option in done.stderr and "Traceback" not in done.stderr


def test_same_input_gives_the_same_plan_in_another_process(tmp_path: Path) -> None:
    """The plan does not depend on the order of sets, which differs between processes."""
    path = tmp_path / "cluster.json"
    path.write_bytes(msgspec.json.encode(generated(Scenario(seed=5, nodes=8, pods=30, pending=3))))
    script = (
        "import json, sys; from click.testing import CliRunner; from restow.cli import restow\n"
        "for objective in ('free-nodes', 'slots', 'pending'):\n"
        "    words = ['plan', '--snapshot', sys.argv[1], '--objective', objective, '--shape', 'cpu=4', '--seed', '7',\n"
        "             '--work-limit', '6', '-o', 'json']\n"
        "    print({**json.loads(CliRunner().invoke(restow, words).stdout), 'seconds': 0})\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, str(path)],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("'order': 1,") == len(OBJECTIVES)
