"""Errors on the command line: one line on stderr, nothing on stdout, the documented exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from restow.cli import restow
from tests.cli.conftest import Run, Start


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["stop"], "No such command 'stop'. Commands: demo, dev, plan, replay, sch", id="unknown command"),
        pytest.param(["explain"], "name one pod: restow explain pod NS/NAME", id="nothing to explain"),
        pytest.param(["explain", "pod"], "name one pod: restow explain pod NS/NAME", id="no pod to explain"),
        pytest.param(["explain", "deploy", "a"], "only pods are accepted, not 'deploy'", id="not a pod to explain"),
        pytest.param(["dev", "--port", "web"], "Invalid value for '--port'", id="port is not a number"),
        pytest.param(["dev", "--nodes", "-1"], "Invalid value for '--nodes'", id="negative number of nodes"),
        pytest.param(["demo", "-o", "xml"], "Invalid value for '-o'", id="unknown output form"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Run, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("restow: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_is_printed_without_a_command(spawn: Run) -> None:
    done = spawn()
    assert done.returncode == 0
    commands = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and "  " in line.strip()]
    assert set(restow.commands) <= set(commands)
    assert "Exit codes: 0 success, 1 failure, 2 bad input" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["dev", "--port", "0"], ["--help"]], ids=" ".join)
def test_unwritable_stdout_is_one_line(environment: dict[str, str], arguments: list[str]) -> None:
    command = [sys.executable, "-c", "from restow.cli import main; main()", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=90, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("restow: ")
    assert done.stderr.endswith("stdout: No space left on device\n")


def test_unwritable_kubeconfig_is_one_line(spawn: Run, environment: dict[str, str]) -> None:
    port = 16448
    blocked = Path(environment["XDG_STATE_HOME"]) / "restow" / f"dev-{port}"
    blocked.parent.mkdir(parents=True)
    blocked.touch()
    done = spawn("dev", "--port", str(port), "--nodes", "0")
    assert (done.returncode, done.stderr) == (1, f"restow: cannot write {blocked}: File exists\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted_command_prints_one_line_and_exits_with_130(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    slow = tmp_path / "cluster.json"
    os.mkfifo(slow)
    with start("plan", "--snapshot", str(slow)) as child, slow.open("wb"):  # which waits until it is being read
        child.send_signal(number)
        assert child.wait(timeout=20) == 130
        assert child.stdout is not None and child.stderr is not None
        assert (child.stdout.read(), child.stderr.read()) == ("", "restow: interrupted\n")
