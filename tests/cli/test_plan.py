"""`restow plan` and `restow replay` on snapshot files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Choice
from click.testing import CliRunner

from restow.cli import restow
from restow.model.times import format_time
from restow.planning.optimal.strategy import OBJECTIVES
from restow.planning.strategies import STRATEGIES
from tests.cli.conftest import Run
from tests.cli.snapshot_documents import node, running_replica


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    items = [
        node("n1", "10"),
        node("n2", "10"),
        running_replica("small", "1", "n1"),
        running_replica("large", "8", "n2"),
        running_replica("foreign", "1", "n1", schedulerName="default-scheduler"),
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.mark.parametrize(
    ("option", "known"), [("strategy", STRATEGIES), ("objective", OBJECTIVES)], ids=["strategies", "objectives"]
)
def test_option_accepts_all_registered_names(option: str, known: Iterable[str]) -> None:
    [parameter] = [each for each in restow.commands["plan"].params if each.name == option]
    assert isinstance(parameter.type, Choice) and {*parameter.type.choices} == {*known}


MOVES = [{"order": 1, "wave": 1, "namespace": "a", "pod": "small", "from": "n1", "to": "n2"}]


def test_json_has_the_documented_fields(spawn: Run, snapshot: str) -> None:
    done = spawn("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert list(result) == [
        "strategy",
        "objective",
        "moves",
        "places",
        "before",
        "after",
        "bound",
        "seconds",
        "refusals",
    ]
    assert (result["strategy"], result["moves"], result["places"]) == ("defragmentation", MOVES, [])
    (refusal,) = result["refusals"]
    assert refusal["reason"].startswith("1 pod belongs to other schedulers (default-scheduler): list the name under")


def test_yaml_has_the_same_moves(run: Run, snapshot: str) -> None:
    done = run("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "-o", "yaml")
    assert yaml.safe_load(done.stdout)["moves"] == MOVES


def test_table_has_a_summary_and_no_trailing_spaces(run: Run, snapshot: str) -> None:
    done = run("plan", "--snapshot", snapshot, "--strategy", "defragmentation")
    assert done.stdout.startswith("defragmentation: 1 move in 1 wave\n")
    assert not [line for line in done.stdout.splitlines() if line != line.rstrip()]


def test_objective_without_effect_is_noted(run: Run, snapshot: str) -> None:
    done = run("plan", "--snapshot", snapshot, "--strategy", "balance", "--objective", "pending")
    assert (done.returncode, done.stderr) == (
        0,
        "restow: --objective has no effect with --strategy balance; it is for strategy optimal\n",
    )


def test_lines_are_not_wrapped_without_a_terminal(snapshot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    done = CliRunner().invoke(restow, ["plan", "--snapshot", snapshot, "--strategy", "defragmentation"])
    assert "scheduler.schedulerNames in --config to include" in done.stdout


def test_plan_follows_the_configuration(run: Run, snapshot: str, tmp_path: Path) -> None:
    config = tmp_path / "restow.yaml"
    config.write_text(
        "scheduler: {schedulerNames: [restow, default-scheduler]}\n"
        "migration: {namespaces: {exclude: [b]}}\n"
        "descheduler:\n  profiles:\n  - {pluginConfig: [{name: Defragmentation, args: {lowThresholds: {cpu: 25}}}]}\n"
    )
    done = run("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "--config", str(config), "-o", "json")
    result = json.loads(done.stdout)
    assert [move["pod"] for move in result["moves"]] == ["foreign"]
    assert "0/1 target nodes are available" in result["refusals"][0]["reason"]


def test_saved_plan_is_valid(run: Run, snapshot: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "--save", str(plan))
    assert json.loads(plan.read_text())["moves"][0]["uid"] == "a/small"
    done = run("replay", "--snapshot", snapshot, "--plan", str(plan), "-o", "json")
    assert (done.returncode, json.loads(done.stdout)) == (
        0,
        {"valid": True, "moves": 1, "waves": 1, "places": 0, "defects": []},
    )


def test_invalid_plan_of_another_configuration_says_so(run: Run, snapshot: str, tmp_path: Path) -> None:
    plan, config = tmp_path / "plan.json", tmp_path / "restow.yaml"
    run("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "--save", str(plan))
    config.write_text("scheduler: {schedulerNames: [other]}\n")
    done = run("replay", "--snapshot", snapshot, "--plan", str(plan), "--config", str(config))
    message = "restow: the plan was made with another configuration; use --config to name that one\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_invalid_plan_exits_with_1(run: Run, snapshot: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        yaml.safe_dump({"strategy": "s", "moves": [{**MOVES[0], "pod": "large", "from": "n2", "to": "n1"}] * 2})
    )
    done = run("replay", "--snapshot", snapshot, "--plan", str(plan))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("invalid, 2 defects: 2 moves in 1 wave, 0 places\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--objective", "slots", "--strategy", "defragmentation"], "Invalid value for '--shape'", id="slots"
        ),
        pytest.param(["--shape", "cpu=many"], "'--shape': cpu=many: ", id="a shape that cannot be read"),
        pytest.param(
            ["--shape", "16"], "'--shape': 16: expected the requests of a pod, such as cpu=16", id="only an amount"
        ),
        pytest.param(["--time-limit", "soon"], "Invalid value for '--time-limit'", id="a time that cannot be read"),
        pytest.param(
            ["--config", "{broken}"], "lowThresholds.cpu: must be from 0 to 100 percent, is 300", id="arguments"
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    run: Run, snapshot: str, tmp_path: Path, arguments: list[str], message: str
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        "descheduler: {profiles: [{pluginConfig: [{name: Defragmentation, args: {lowThresholds: {cpu: 300}}}]}]}"
    )
    filled = [argument.format(broken=broken) for argument in arguments]
    done = run(
        "plan", "--snapshot", snapshot, *([] if "--strategy" in filled else ["--strategy", "defragmentation"]), *filled
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_file_that_is_no_plan_is_one_line_with_paths(run: Run, snapshot: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"strategy": "s", "moves": [{"order": "one"}]}')
    done = run("replay", "--snapshot", snapshot, "--plan", str(plan))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "plan.json: moves[0].order: expected an integer" in done.stderr


def test_a_plan_that_cannot_be_saved_is_told(run: Run, snapshot: str, tmp_path: Path) -> None:
    done = run("plan", "--snapshot", snapshot, "--strategy", "balance", "--save", str(tmp_path / "no" / "where"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot write" in done.stderr


def test_the_report_is_a_page(run: Run, snapshot: str, tmp_path: Path) -> None:
    report = tmp_path / "plan.html"
    done = run("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "--report", str(report))
    assert done.returncode == 0
    assert "a/small" in report.read_text()


def test_a_report_that_cannot_be_written_is_one_line(run: Run, snapshot: str, tmp_path: Path) -> None:
    report = tmp_path / "nowhere" / "plan.html"
    done = run("plan", "--snapshot", snapshot, "--strategy", "defragmentation", "--report", str(report))
    assert (done.returncode, done.stderr) == (1, f"restow: cannot write {report}: No such file or directory\n")


def job(phase: str, ended: float) -> dict[str, Any]:
    """A job: while Running, of the pod that could be moved; if it has ended, of a pod that left the node."""
    uid = "a/small" if phase == "Running" else "gone"
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "earlier", "annotations": {"restow.sh/moved-from": "n1"}},
        "spec": {"podRef": {"namespace": "a", "name": "small", "uid": uid}},
        "status": {
            "phase": phase,
            "nodeName": "n3",
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": format_time(ended)}],
        },
    }


@pytest.mark.parametrize(
    ("phase", "ago", "moves", "refusal"),
    [
        pytest.param("Succeed", 60, 0, "", id="nodes of a recent job cool down"),
        pytest.param("Succeed", 900, 1, "", id="cool-down is over"),
        pytest.param("Running", 0, 0, "job earlier moves it already", id="pod has a running job"),
    ],
)
def test_plan_respects_migration_jobs(
    snapshot: str, tmp_path: Path, phase: str, ago: float, moves: int, refusal: str
) -> None:
    items = json.loads(Path(snapshot).read_text())["items"]
    (tmp_path / "jobs.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, job(phase, time.time() - ago)]})
    )
    config = {"name": "Defragmentation", "args": {"coolDownTime": 600}}
    (tmp_path / "restow.yaml").write_text(
        yaml.safe_dump({"descheduler": {"profiles": [{"name": "it", "pluginConfig": [config]}]}})
    )
    command = ["plan", "--strategy", "defragmentation", "-o", "json"]
    files = ["--snapshot", str(tmp_path / "jobs.json"), "--config", str(tmp_path / "restow.yaml")]
    plan = json.loads(CliRunner().invoke(restow, [*command, *files]).stdout)
    assert len(plan["moves"]) == moves, plan
    assert not refusal or refusal in [each["reason"] for each in plan["refusals"]]
