"""The progress line: shown on terminals only, after a second; and Ctrl-C during a search."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from restow.commands import progress
from restow.commands.progress import ProgressLine
from restow.planning.plan_request import PlanProgress


def rendered(line: ProgressLine) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(line.view())
    return " ".join(captured.get().split())


PROGRESS = {
    "nothing is known yet": (PlanProgress("reading"), "reading"),
    "an answer without a bound": (PlanProgress("greedy", 12), "greedy, best 12"),
    "an answer, its bound and the gap": (PlanProgress("search", 30, 40), "search, best 30, bound 40, gap 25.0 %"),
    "the best possible": (PlanProgress("done", 40, 40), "done, best 40, bound 40, gap 0.0 %"),
}


@pytest.mark.parametrize("case", PROGRESS)
def test_line_has_phase_best_bound_and_gap(case: str) -> None:
    now = 0.0
    line = ProgressLine(on_terminal=True, clock=lambda: now)
    with line.search(5.0):
        now = 3.0
        line.update(PROGRESS[case][0])
        assert rendered(line).startswith("restow: planning") and rendered(line).endswith(f"3 s {PROGRESS[case][1]}")


def test_first_ctrl_c_ends_the_search_and_the_second_the_command() -> None:
    line = ProgressLine(on_terminal=True)
    with line.search(50.0):
        signal.raise_signal(signal.SIGINT)
        assert line.is_cut_short and line.time() > time.time() + 49
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_without_a_terminal_ends_the_command() -> None:
    with pytest.raises(KeyboardInterrupt), ProgressLine(on_terminal=False).search(50.0):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("terminal", [True, False], ids=["a terminal", "a file"])
def test_line_is_shown_on_terminals_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SHOW_AFTER", 0.0)
    printed = io.StringIO()
    with progress.progress_line(Console(file=printed, force_terminal=terminal, width=80)) as line:
        line.begin("reading cluster.json")
        time.sleep(0.4)
    assert ("reading cluster.json" in printed.getvalue()) is terminal


def test_short_activity_shows_no_line() -> None:
    printed = io.StringIO()
    with progress.progress_line(Console(file=printed, force_terminal=True)) as line:
        line.begin("reading cluster.json")
    assert printed.getvalue() == ""


def test_ctrl_c_while_reading_a_snapshot_prints_interrupted() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "restow", "plan", "--snapshot", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        printed = b""
        while b"reading" not in printed:  # it waits for stdin
            printed += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stdout is not None and process.stdout.read() == b""
    with_rest = printed + os.read(ours, 10_000)
    os.close(ours)
    assert b"Traceback" not in with_rest
    assert with_rest.endswith(b"\x1b[2Krestow: interrupted\r\n"), "the progress line is cleared first"
