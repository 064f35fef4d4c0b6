"""What people see while they wait: nothing for a second, nothing without a terminal; and how they have it end."""

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

from restow.commands import patience
from restow.commands.patience import Patience
from restow.planning.request import Stand


def seen(waiting: Patience) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(waiting.view())
    return " ".join(captured.get().split())


STANDS = {
    "nothing is known yet": (Stand("reading"), "reading"),
    "an answer without a bound": (Stand("greedy", 12), "greedy, best 12"),
    "an answer, its bound and the gap": (Stand("search", 30, 40), "search, best 30, bound 40, gap 25.0 %"),
    "the best possible": (Stand("done", 40, 40), "done, best 40, bound 40, gap 0.0 %"),
}


@pytest.mark.parametrize("case", STANDS)
def test_the_line_says_how_far_the_search_is(case: str) -> None:
    now = 0.0
    waiting = Patience(on_terminal=True, clock=lambda: now)
    with waiting.search(5.0):
        now = 3.0
        waiting.tell(STANDS[case][0])
        assert seen(waiting).startswith("restow: planning") and seen(waiting).endswith(f"3 s {STANDS[case][1]}")


def test_ctrl_c_means_that_the_time_is_up_and_the_second_that_all_is_over() -> None:
    waiting = Patience(on_terminal=True)
    with waiting.search(50.0):
        signal.raise_signal(signal.SIGINT)
        assert waiting.is_over and waiting.time() > time.time() + 49
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_terminal_ctrl_c_ends_it_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Patience(on_terminal=False).search(50.0):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("terminal", [True, False], ids=["a terminal", "a file"])
def test_the_line_is_for_terminals(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SILENCE", 0.0)
    told = io.StringIO()
    with patience.shown(Console(file=told, force_terminal=terminal, width=80)) as waiting:
        waiting.doing("reading cluster.json")
        time.sleep(0.4)
    assert ("reading cluster.json" in told.getvalue()) is terminal


def test_a_short_wait_shows_nothing() -> None:
    told = io.StringIO()
    with patience.shown(Console(file=told, force_terminal=True)) as waiting:
        waiting.doing("reading cluster.json")
    assert told.getvalue() == ""


def test_ctrl_c_while_a_snapshot_is_read_ends_it_in_good_order() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "restow", "plan", "--snapshot", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        told = b""
        while b"reading" not in told:  # it waits for stdin
            told += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stdout is not None and process.stdout.read() == b""
    with_rest = told + os.read(ours, 10_000)
    os.close(ours)
    assert b"Traceback" not in with_rest
    assert with_rest.endswith(b"\x1b[2Krestow: interrupted\r\n"), "in place of the line that was shown"
